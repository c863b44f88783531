/**
 * Slice assignment written as a join: rows before, new rows and rows behind, cut out of one tensor and put together again. Becomes a
 * ScatterElements, which the search for caches knows; its indices are −1 where the pieces would not fit together, so nothing is taken on trust.
 */
import { type Model, type ModelNode, type ModelTensor, type ModelValue, tensorView } from "#insitu/onnx/model.js";
import { readIntegers } from "#insitu/tensor/access.js";
import { traitsOf } from "#insitu/tensor/element-type.js";
import { ModelEdit } from "./model-edit.js";

/** A join of what lies around new rows with the rows themselves. */
interface Assignment {
  readonly join: ModelNode;
  readonly cache: string;
  readonly rows: string;
  readonly axis: number;
  readonly rank: number;
  /** Lists of one number: where the new rows begin, and where they end. */
  readonly start: string;
  readonly end: string;
}

/** The model with such joins as scatters; the model itself where there are none. */
export function withAssignments(model: Model): Model {
  const found = new Constants(model);
  const assignments = model.graph.nodes.flatMap((node) => {
    const assignment = assignmentOf(node, found);
    return assignment === undefined ? [] : [assignment];
  });
  if (assignments.length === 0) return model;
  const edit = new ModelEdit(model);
  for (const assignment of assignments) edit.replace(assignment.join.outputs[0], () => emit(edit, assignment));
  return edit.finish();
}

/** Whole numbers and ranks that are known without inference. */
class Constants {
  readonly makers: Map<string, ModelNode>;
  readonly #initializers: ReadonlyMap<string, ModelTensor>;
  readonly #inputs: ReadonlyMap<string, ModelValue>;

  constructor(model: Model) {
    this.#initializers = new Map(model.graph.initializers.map((tensor) => [tensor.name, tensor]));
    this.#inputs = new Map(model.graph.inputs.map((input) => [input.name, input]));
    this.makers = new Map(model.graph.nodes.flatMap((node) => node.outputs.map((name) => [name, node] as const)));
  }

  /** The one number that a value holds. */
  single(name: string | undefined): number | undefined {
    if (name === undefined || name === "") return undefined;
    const made = this.makers.get(name);
    const value = made?.opType === "Constant" ? made.attributes.get("value") : undefined;
    const listed = made?.opType === "Constant" ? made.attributes.get("value_ints") : undefined;
    if (listed?.kind === "ints") return listed.value.length === 1 ? Number(listed.value[0]) : undefined;
    const tensor = value?.kind === "tensor" ? value.value : this.#initializers.get(name);
    if (tensor === undefined || traitsOf(tensor.type).kind !== "integer" || tensor.data === undefined) return undefined;
    const view = tensorView(tensor);
    return view.size === 1 ? readIntegers(view)[0] : undefined;
  }

  /** The shape of an input. */
  shape(name: string): readonly unknown[] | undefined {
    const type = this.#inputs.get(name)?.type;
    return type?.kind === "tensor" ? type.shape : undefined;
  }
}

function assignmentOf(join: ModelNode, constants: Constants): Assignment | undefined {
  const given = join.attributes.get("axis");
  if (join.opType !== "Concat" || join.domain !== "" || join.inputs.length !== 3 || given?.kind !== "int")
    return undefined;
  const [front, rear] = [join.inputs[0], join.inputs[2]].map((name) => constants.makers.get(name));
  if (front?.opType !== "Slice" || rear?.opType !== "Slice" || front.inputs[0] !== rear.inputs[0]) return undefined;
  const [cache] = front.inputs;
  const shape = constants.shape(cache);
  if (shape === undefined) return undefined;
  const rank = shape.length;
  const fromFront = (axis: number): number => (axis < 0 ? axis + rank : axis);
  const axis = fromFront(Number(given.value));
  for (const { inputs } of [front, rear]) {
    const [own, step] = [constants.single(inputs[3]), inputs[4] === undefined ? 1 : constants.single(inputs[4])];
    if (own === undefined || fromFront(own) !== axis || step !== 1) return undefined;
  }
  const last = constants.single(rear.inputs[2]);
  const reachesEnd = last !== undefined && (last >= 2 ** 31 - 1 || last === shape[axis]);
  if (constants.single(front.inputs[1]) !== 0 || !reachesEnd) return undefined;
  return { join, cache, rows: join.inputs[1], axis, rank, start: front.inputs[2], end: rear.inputs[1] };
}

function emit(edit: ModelEdit, { join, cache, rows, axis, rank, start, end }: Assignment): void {
  const whole = (name: string): string =>
    edit.node("Cast", [name], { attributes: { to: traitsOf("int64").code }, as: "assigned_row" });
  const [first, last] = [whole(start), whole(end)];
  const count = edit.node("Shape", [rows], { attributes: { start: axis, end: axis + 1 } });
  const one = edit.scalar("int64", 1);
  const upwards = edit.node("Range", [edit.scalar("int64", 0), edit.node("Squeeze", [count]), one]);
  const fits = edit.node("Equal", [last, edit.node("Add", [first, count])]);
  const numbers = edit.node("Where", [fits, edit.node("Add", [first, upwards]), edit.scalar("int64", -1)]);
  const others = Array.from({ length: rank }, (_, at) => at).filter((at) => at !== axis);
  const indices = edit.node("Expand", [
    edit.node("Unsqueeze", [numbers, edit.integers(others)]),
    edit.node("Shape", [rows]),
  ]);
  const named = join.name === "" ? {} : { name: join.name };
  edit.node("ScatterElements", [cache, indices, rows], { attributes: { axis }, output: join.outputs[0], ...named });
}
