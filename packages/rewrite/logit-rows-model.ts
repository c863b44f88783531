/**
 * Model → Model: logits of the tokens that are asked for, and of no others. What a vocabulary is multiplied with is picked out before.
 *
 * before: hidden [batch, tokens, size] → product → … → logits [batch, tokens, vocabulary]
 * after:  hidden → Reshape [batch · tokens, 1, size] → Gather(logit_rows) → product → … → logits [rows, 1, vocabulary]
 */
import { initializer, node, value } from "#insitu/onnx/build.js";
import { type Model, type ModelNode, type ModelValue, tensorView } from "#insitu/onnx/model.js";
import { readIntegers } from "#insitu/tensor/access.js";
import { logitsOf } from "./logits-output.js";
import { logitRows } from "./page-names.js";

/** Products of rows with weights: the rows are the first operand. */
const products: readonly string[] = ["MatMul", "MatMulNBits", "MatMulBnb4", "FusedMatMul", "MatMulInteger"];

/** What may stand between the product and the logits: each row for itself. */
const rowByRow: readonly string[] = ["Cast", "Identity", "Tanh", "Mul", "Div", "Add", "Sub"];

/**
 * The model with the input `logit_rows`; the same model where the product behind its logits is not found, or where it may have logits of other rows
 * than those of all tokens. One that picks the last row itself, as files with a pruned head do, picks those that are asked for instead. A model that is told
 * how many to keep is told to keep all.
 */
export function withLogitRows(model: Model): Model {
  const { graph } = model;
  const logits = logitsOf(model);
  if (logits?.type?.kind !== "tensor" || logits.type.shape?.length !== 3) return model;
  const isLast = logits.type.shape[1] === 1;
  if (!isLast && !hasAllRows(logits.type.shape[1], graph)) return model;
  const made = new Map(graph.nodes.flatMap((each) => each.outputs.map((output) => [output, each] as const)));
  const constants = new Set(graph.initializers.map(({ name }) => name));
  // The same for all rows: constants, and the scale and zero point that a whole tensor is quantised by.
  const known = new Map<string, boolean>();
  const isRowless = (name: string): boolean => {
    const maker = made.get(name);
    if (maker === undefined) return constants.has(name);
    if (maker.opType === "DynamicQuantizeLinear") return maker.outputs.indexOf(name) > 0;
    const found = known.get(name) ?? maker.inputs.every((input) => input === "" || isRowless(input));
    known.set(name, found);
    return found;
  };
  const path = pathTo(logits.name, made, isRowless);
  const last = path?.at(-1);
  const names = new Set([...constants, ...made.keys(), ...graph.inputs.map(({ name }) => name)]);
  const fresh = ["rows_of_tokens", "rows_wanted", "row_shape"].map((name) => `insitu/${name}`);
  if (path === undefined || last === undefined || [logitRows, ...fresh].some((name) => names.has(name))) return model;
  const pick = isLast ? lastRowOf(last.inputs[0], model, made) : { nodes: [], hidden: last.inputs[0] };
  if (pick === undefined) return model;
  const [rows, wanted, shape] = fresh;
  const gone = new Set(pick.nodes);
  const passed = new Set([...path, ...pick.nodes].flatMap(({ outputs }) => outputs));
  const [, , vocabulary] = logits.type.shape;
  const output: ModelValue = value(logits.name, logits.type.elementType, ["logit_rows", 1, vocabulary]);
  return {
    ...model,
    graph: {
      ...graph,
      inputs: [...graph.inputs, value(logitRows, "int64", ["logit_rows"])],
      initializers: [
        ...graph.initializers,
        initializer(shape, "int64", [-1n, 1n, 0n], [3]),
        // Who says nothing is given the last row.
        initializer(logitRows, "int64", [-1n], [1]),
      ],
      nodes: graph.nodes.flatMap((each) =>
        gone.has(each)
          ? []
          : each === last
            ? [
                node("Reshape", [pick.hidden, shape], [rows], {}, { name: rows }),
                node("Gather", [rows, logitRows], [wanted], { axis: 0 }, { name: wanted }),
                { ...last, inputs: [wanted, ...last.inputs.slice(1)] },
              ]
            : [each],
      ),
      outputs: graph.outputs.map((each) => (each === logits ? output : each)),
      valueInfo: graph.valueInfo.filter(({ name }) => !passed.has(name)),
    },
  };
}

/** What a value is the last row of, along the tokens, and the nodes that pick it, which nothing else reads; undefined for anything else. */
function lastRowOf(
  name: string,
  { graph }: Model,
  made: ReadonlyMap<string, ModelNode>,
): { readonly nodes: readonly ModelNode[]; readonly hidden: string } | undefined {
  const isReadOnce = (value: string): boolean =>
    graph.nodes.reduce((sum, { inputs }) => sum + inputs.filter((input) => input === value).length, 0) === 1 &&
    graph.outputs.every((output) => output.name !== value);
  const numbers = (value: string | undefined): readonly number[] | undefined => constantOf(value ?? "", graph, made);
  const is = (value: string | undefined, wanted: readonly number[]): boolean =>
    numbers(value)?.join() === wanted.join();
  const maker = made.get(name);
  if (maker === undefined || !isReadOnce(name)) return undefined;
  const [source, first, second, third, step] = maker.inputs;
  const axis = attributeOf(maker, "axis");
  if (maker.opType === "Unsqueeze" && is(first, [1])) {
    const inner = made.get(source);
    const isOne = inner?.opType === "Gather" && is(inner.inputs[1], [-1]) && attributeOf(inner, "axis") === 1;
    return isOne && isReadOnce(source) ? { nodes: [maker, inner], hidden: inner.inputs[0] } : undefined;
  }
  if (maker.opType === "Gather" && is(first, [-1]) && axis === 1) return { nodes: [maker], hidden: source };
  const isTail = is(first, [-1]) && (numbers(second)?.[0] ?? 0) >= 2 ** 31 - 1 && is(third, [1]);
  const isWhole = step === undefined || step === "" || is(step, [1]);
  return maker.opType === "Slice" && isTail && isWhole ? { nodes: [maker], hidden: source } : undefined;
}

const attributeOf = (of: ModelNode, name: string): unknown => {
  const attribute = of.attributes.get(name);
  return attribute?.kind === "int" ? Number(attribute.value) : undefined;
};

/** The whole numbers of a constant; undefined for what is none. */
function constantOf(
  name: string,
  { initializers }: Model["graph"],
  made: ReadonlyMap<string, ModelNode>,
): readonly number[] | undefined {
  const attribute = made.get(name)?.opType === "Constant" ? made.get(name)!.attributes.get("value") : undefined;
  const tensor =
    initializers.find((each) => each.name === name) ?? (attribute?.kind === "tensor" ? attribute.value : undefined);
  return tensor === undefined ? undefined : readIntegers(tensorView(tensor));
}

/** True if logits of so many rows are one of every token. */
function hasAllRows(rows: unknown, { inputs }: Model["graph"]): boolean {
  const isKept = inputs.some(({ name }) => name === "num_logits_to_keep");
  const tokens = inputs.find(({ name }) => name === "input_ids")?.type;
  const read = tokens?.kind === "tensor" ? tokens.shape?.[1] : undefined;
  return isKept || (typeof rows === "string" && rows === read);
}

/** The nodes from a value back to the product that it comes from, which nothing else reads on the way; undefined where there is none. */
function pathTo(
  logits: string,
  made: ReadonlyMap<string, ModelNode>,
  isRowless: (name: string) => boolean,
): ModelNode[] | undefined {
  const readers = new Map<string, number>();
  for (const each of new Set(made.values()))
    for (const input of each.inputs) readers.set(input, (readers.get(input) ?? 0) + 1);
  const path: ModelNode[] = [];
  for (let name = logits; ;) {
    const maker = made.get(name);
    // Somebody else would see fewer rows as well.
    if (maker === undefined || (readers.get(name) ?? 0) > (name === logits ? 0 : 1)) return undefined;
    path.push(maker);
    const [first, ...others] = maker.inputs;
    if (products.includes(maker.opType))
      return others.every((each) => each === "" || isRowless(each)) && !isRowless(first) ? path : undefined;
    const varying = maker.inputs.filter((each) => !isRowless(each));
    if (!rowByRow.includes(maker.opType) || varying.length !== 1) return undefined;
    [name] = varying;
  }
}
