/**
 * Cosines and sines as RotaryEmbedding takes them. Exporters compute each angle twice, once for either value of a pair; the operator wants
 * it once. Makes that half through `edit`, computing nothing twice. No rewrite itself.
 */
import type { Node, Value } from "../graph/graph.js";
import { readNumbers } from "../tensor/access.js";
import { cloneView } from "../tensor/copy.js";
import { View } from "../tensor/view.js";
import { axisOf, integersOf, lastDim, numberOf, orderOf, same, shapeOf } from "./facts.js";
import { int } from "../graph/attribute-values.js";
import { type Edit } from "./rewrite.js";

/** How the values of a pair lie: the first half with the second, or each with its neighbour. */
export type Pairing = "halves" | "neighbours";

/** Nodes that are followed behind one another, at most. */
const deepest = 24;

/** The value with every pair's angle once along the last axis; undefined unless both of each pair are shown to be the same. */
export function halfOf(value: Value, pairing: Pairing, edit: Edit, depth = 0): Value | undefined {
  if (depth > deepest) return undefined;
  const { constant } = value.fact ?? {};
  if (constant !== undefined) return halfOfConstant(value, constant, pairing, edit);
  const node = edit.producerOf(value);
  if (node === undefined || node.op.domain !== "" || node.outputs[0] !== value) return undefined;
  const repeated = pairing === "halves" ? behindConcat(node) : behindRepeat(node, edit);
  if (repeated !== undefined) return repeated;
  const position = carriesLastAxis(node);
  const operand = position === undefined ? undefined : node.inputs[position];
  const half = operand && halfOf(operand, pairing, edit, depth + 1);
  if (half === undefined) return undefined;
  const inputs = node.inputs.map((input, at) => (at === position ? half : input));
  const attributes = Object.fromEntries(node.attributes);
  return edit.node(node.op.name, inputs, { opset: node.opset, attributes });
}

function halfOfConstant(value: Value, view: View, pairing: Pairing, edit: Edit): Value | undefined {
  const last = view.rank - 1;
  if (last < 0 || view.shape[last] % 2 !== 0) return undefined;
  const half = view.shape[last] / 2;
  const step = view.strides[last];
  const [offset, stride] = pairing === "halves" ? [half * step, step] : [step, 2 * step];
  const take = (start: number): View =>
    view.show(view.shape.with(last, half), view.offset + start, view.strides.with(last, stride));
  const [first, second] = [readNumbers(take(0)), readNumbers(take(offset))];
  if (!first.every((number, at) => number === second[at])) return undefined;
  return edit.constant("half", () => cloneView(take(0)), pairing, value);
}

/** a of Concat(a, a) along the last axis. */
function behindConcat(node: Node): Value | undefined {
  const [first, second] = node.inputs;
  const rank = shapeOf(first)?.length;
  if (node.op.name !== "Concat" || node.inputs.length !== 2 || first !== second || rank === undefined) return undefined;
  return axisOf(node.attrs["axis"] as number, rank) === rank - 1 ? first : undefined;
}

/** a of Reshape(Expand(Unsqueeze(a))), each element followed by its copy. */
function behindRepeat(node: Node, edit: Edit): Value | undefined {
  const copies = node.op.name === "Reshape" ? node.inputs[0] : undefined;
  const copier = copies && edit.producerOf(copies);
  const single = copier?.inputs[0];
  const widener = single && edit.producerOf(single);
  const source = widener?.inputs[0];
  const [shape, rank] = [shapeOf(source), shapeOf(source)?.length ?? 0];
  const result = shapeOf(node.outputs[0]);
  if (shape === undefined || widener?.op.name !== "Unsqueeze" || !isCopier(copier!)) return undefined;
  const [spread, before] = [shapeOf(copies), shapeOf(single)];
  const leads = [spread, before, result].every((other) =>
    shape.slice(0, -1).every((dim, axis) => same(other?.[axis], dim)),
  );
  const size = lastDim(source);
  const doubles =
    size !== undefined &&
    before?.length === rank + 1 &&
    before[rank] === 1 &&
    same(before[rank - 1], size) &&
    spread?.length === rank + 1 &&
    spread[rank] === 2 &&
    same(spread[rank - 1], size) &&
    result?.length === rank &&
    result[rank - 1] === 2 * size;
  return leads && doubles ? source : undefined;
}

/** True for a node that can only repeat its first operand to reach a last dimension of 2. */
const isCopier = (node: Node): boolean =>
  node.op.domain === "" &&
  (["Expand", "Tile"].includes(node.op.name) ||
    (node.op.name === "Concat" && node.inputs.length === 2 && node.inputs[0] === node.inputs[1]));

/** The operand whose last axis a node carries over as it is, element by element; undefined where it does not. */
function carriesLastAxis(node: Node): number | undefined {
  const [first, second] = node.inputs;
  const rank = shapeOf(first)?.length ?? 0;
  const outside = (axes: readonly number[] | undefined, of: number): boolean =>
    axes !== undefined && axes.every((axis) => axisOf(axis, of) !== of - 1);
  switch (node.op.name) {
    case "Cos":
    case "Sin":
    case "Cast":
    case "Identity":
      return 0;
    case "Mul":
      return numberOf(second) !== undefined ? 0 : numberOf(first) !== undefined ? 1 : undefined;
    case "Div":
      return numberOf(second) !== undefined ? 0 : undefined;
    case "Unsqueeze":
    case "Squeeze": {
      const axes = integersOf(second) ?? (node.attrs["axes"] as readonly number[] | undefined);
      const widest = Math.max(rank, shapeOf(node.outputs[0])?.length ?? 0);
      return outside(axes, widest) ? 0 : undefined;
    }
    case "Transpose":
      return orderOf(node, rank).at(-1) === rank - 1 ? 0 : undefined;
    case "Gather":
      return outside([node.attrs["axis"] as number], rank) ? 0 : undefined;
    case "Slice":
      return outside(integersOf(node.inputs[3]), rank) ? 0 : undefined;
    default:
      return undefined;
  }
}

/** [batch, length, pairs] for x of [batch, …]: a single batch entry serves all. */
export function forEverySample(angles: Value, x: Value, edit: Edit): Value {
  const [own, batch] = [shapeOf(angles)?.[0], shapeOf(x)?.[0]];
  if (same(own, batch)) return angles;
  const shape = edit.node("Concat", [edit.dimension(x, 0), edit.integers([1, 1])], { attributes: { axis: int(0) } });
  return edit.node("Expand", [angles, shape]);
}
