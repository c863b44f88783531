/**
 * Keys and values repeated for groups of query heads, read by Attention without the repetition.
 *
 *     K [b,2,s,d] ──▶ Unsqueeze ──▶ Expand [b,2,4,s,d] ──▶ Reshape [b,8,s,d] ─┐             Q, K, V
 *     V likewise ─────────────────────────────────────────────────────────────┤      ⇒         ╰─▶ Attention ──▶ Y
 *     Q [b,8,q,d] ────────────────────────────────────────────────────────────┴▶ Attention ──▶ Y
 *
 * Attention lets groups of query heads that follow each other share a head of K and V: the repeated cache is never made. The repetition
 * may be an Expand, a Tile, a Concat or a Gather. Where others read it too, it stays for them.
 */
import { isKnown, multiplyDims } from "../graph/dim.js";
import type { Graph, Node, Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { axisOf, integersOf, same, shapeOf } from "./facts.js";
import type { GraphIndex } from "./graph-index.js";
import { hole, op } from "./match.js";
import { rewrite } from "./rewrite.js";

const [queries, keys, values] = [hole(), hole(), hole()];

/** What a value of 4 dimensions repeats, each head `group` times in a row. */
interface Repeated {
  readonly source: Value;
  readonly group: number;
}

/** The heads behind a repetition; undefined where there is none. */
function repeatedBy(value: Value, index: GraphIndex): Repeated | undefined {
  const node = index.producerOf(value);
  const shape = shapeOf(value);
  if (node === undefined || node.op.domain !== "" || shape?.length !== 4) return undefined;
  if (node.op.name === "Gather") return repeatedByGather(node, shape[1]);
  if (node.op.name === "Expand" || node.op.name === "Tile") return repeatedOnce(node);
  const spread = node.op.name === "Reshape" ? node.inputs[0] : undefined;
  const repeater = spread && index.producerOf(spread);
  const single = repeater && repeats(repeater) ? repeater.inputs[0] : undefined;
  const widener = single && index.producerOf(single);
  const source =
    widener !== undefined && ["Unsqueeze", "Reshape"].includes(widener.op.name) ? widener.inputs[0] : undefined;
  const [own, mid, wide] = [shapeOf(source), shapeOf(single), shapeOf(spread)];
  const group = wide?.[2];
  if (source === undefined || own?.length !== 4 || mid?.length !== 5 || wide?.length !== 5) return undefined;
  if (group === undefined || !isKnown(group)) return undefined;
  const [batch, heads, length, size] = own;
  const expected = { mid: [batch, heads, 1, length, size], wide: [batch, heads, group, length, size] };
  const fits =
    mid.every((dim, axis) => same(dim, expected.mid[axis])) &&
    wide.every((dim, axis) => same(dim, expected.wide[axis])) &&
    shape.every((dim, axis) => same(dim, [batch, multiplyDims(heads, group), length, size][axis]));
  return fits ? { source, group } : undefined;
}

/** True for a node that can only repeat its first operand to become longer along one axis of 1. */
const repeats = (node: Node): boolean =>
  node.op.domain === "" &&
  (["Expand", "Tile"].includes(node.op.name) ||
    (node.op.name === "Concat" &&
      axisOf(node.attrs["axis"] as number, 5) === 2 &&
      node.inputs.every((input) => input === node.inputs[0])));

/** A single head, repeated for all. */
function repeatedOnce(node: Node): Repeated | undefined {
  const [source] = node.inputs;
  const [own, shape] = [shapeOf(source), shapeOf(node.outputs[0])];
  const group = shape?.[1];
  if (source === undefined || own?.length !== 4 || own[1] !== 1 || group === undefined || !isKnown(group))
    return undefined;
  return [0, 2, 3].every((axis) => same(own[axis], shape![axis])) ? { source, group } : undefined;
}

/** Heads picked by number: 0, 0, 1, 1, … */
function repeatedByGather(node: Node, total: unknown): Repeated | undefined {
  const [source, indices] = node.inputs;
  const heads = shapeOf(source)?.[1];
  const picked = integersOf(indices);
  if (
    source === undefined ||
    heads === undefined ||
    !isKnown(heads) ||
    picked === undefined ||
    shapeOf(indices)?.length !== 1
  )
    return undefined;
  const group = picked.length / heads;
  const inGroups = Number.isInteger(group) && picked.every((head, at) => head === Math.floor(at / group));
  return axisOf(node.attrs["axis"] as number, 4) === 1 && inGroups && total === picked.length
    ? { source, group }
    : undefined;
}

/** The graph with attentions that read heads unrepeated. */
export const foldRepeatedHeads = (graph: Graph, operators: OperatorSet): Graph =>
  rewrite(graph, operators, {
    pattern: op("Attention", [queries, keys, values], { more: true }),
    keepsInner: true,
    replace(match, edit, root) {
      const node = match.index.producerOf(root)!;
      const [k, v] = [keys, values].map((operand) => repeatedBy(match.value(operand), match.index));
      // A past inside the operator has the repeated heads, and so has the present that it gives.
      const hasPast = node.inputs[4] !== undefined || node.outputs.slice(1, 3).some((output) => output !== undefined);
      if (k === undefined || v === undefined || k.group !== v.group || k.group < 2 || hasPast) return false;
      edit.node("Attention", [match.value(queries), k.source, v.source, ...node.inputs.slice(3)], {
        opset: node.opset,
        attributes: Object.fromEntries([...node.attributes].filter(([name]) => !name.endsWith("_num_heads"))),
        outputs: node.outputs,
      });
      return true;
    },
  });
