/**
 * Attention operators with their cache inside (ONNX's Attention with a past, onnxruntime's GroupQueryAttention and MultiHeadAttention):
 * how each attends, in the common form. What has no counterpart is refused.
 */
import { addDims, isKnown, sameDim, subtractDims } from "#insitu/graph/dim.js";
import type { Node, Value } from "#insitu/graph/graph.js";
import type { CachedAttention, Refusal } from "./attention.js";
import { atLeastZero, constantOf, type Element, joined, truth } from "./element.js";
import { Elements } from "./elements.js";
import { meaningOf, type Visibility, visibilityOf } from "./mask.js";
import { type TakenOperator, takeOperator } from "./operator-parts.js";
import { Ranges } from "./ranges.js";
import { positiveSizes } from "./role-words.js";
import { cacheAxis } from "./roles.js";
import type { Trail } from "./trail.js";
import type { Surroundings } from "./written-attention.js";

/** An operator with its cache inside; undefined where the node is none, a refusal where it cannot be taken apart. */
export function operatorAttention(node: Node, around: Surroundings): CachedAttention | Refusal | undefined {
  const trails = around.trails.filter(({ writer, kind }) => writer === node && kind === "attention");
  const borrowed = trails.length === 0 ? borrowedCaches(node, around) : [];
  if (borrowed === undefined) return undefined;
  const refuse = (reason: string): Refusal => ({ node, reason });
  const [keys, values] =
    trails.length === 0
      ? borrowed
      : [node.outputs[1], node.outputs[2]].map((value) => trails.find(({ written }) => written === value));
  if (keys === undefined || values === undefined) return refuse("its keys and its values are not both caches");
  const taken = takeOperator(node, around);
  if (typeof taken === "string") return refuse(taken);
  const masked = maskOf(node, taken, around);
  if (typeof masked === "string") return refuse(masked);
  const { type } = node.inputs[0]!.fact!;
  return {
    node,
    query: { name: node.inputs[0]!.name, type, form: taken.form },
    result: { name: node.outputs[0]!.name, type, form: taken.form },
    heads: taken.heads,
    groups: taken.heads,
    keys: readOf(keys, taken.kvHeads, taken.size),
    values: readOf(values, taken.kvHeads, taken.valueSize),
    scale: taken.scale,
    softcap: taken.softcap,
    precision: taken.precision,
    sinks: taken.sinks,
    blindIsZero: taken.mask === undefined || taken.mask.fact?.type === "bool",
    ...masked,
    parts: taken.parts,
  };
}

/** The caches of another layer that a node reads as they are written there; undefined where it has keys of its own, or reads none. */
function borrowedCaches(node: Node, { trails }: Surroundings): readonly (Trail | undefined)[] | undefined {
  if (node.op.name !== "GroupQueryAttention") return undefined;
  const [, key, value, pastKey, pastValue] = node.inputs;
  if (key?.fact?.shape?.[1] !== 0 || value?.fact?.shape?.[1] !== 0) return undefined;
  const found = [pastKey, pastValue].map((past) => trails.find(({ written }) => written === past));
  return found.every((trail) => trail === undefined) ? undefined : found;
}

/** These operators' caches are [batch, heads, length, size]. */
const readOf = (trail: Trail, headCount: number, headSize: number): CachedAttention["keys"] => ({
  trail,
  rows: cacheAxis(trail)!,
  heads: trail.order[1],
  values: trail.order[3],
  headCount,
  headSize,
});

/** What the node's masks and its own rules hide; a sentence where that is not understood. */
function maskOf(
  node: Node,
  taken: TakenOperator,
  { graph, assumptions, past }: Surroundings,
): Pick<CachedAttention, "mask" | "index"> | string {
  const shape = node.inputs[0]!.fact?.shape;
  const queries = shape?.at(taken.form === "heads" ? 2 : 1);
  if (shape === undefined || queries === undefined) return "the shape of its queries is not known";
  const total = addDims(past, queries);
  const ranges = new Ranges(positiveSizes);
  const [b, h] = [ranges.variable("%b", shape[0]), ranges.variable("%h", taken.heads)];
  const [i, k] = [ranges.variable("%i", queries), ranges.variable("%k", total)];
  const elements = new Elements(graph, ranges, assumptions);
  const elementOf = (value: Value): Element | string => {
    const own = value.fact?.shape;
    if (own === undefined || own.length > 4) return `the shape of its mask "${value.name}" is not known`;
    // A mask of a buffer's whole capacity has columns that are never valid.
    if (!sameDim(own.at(-1)!, total) && own.at(-1) !== 1)
      return `its mask "${value.name}" has ${String(own.at(-1))} columns, not ${String(total)}`;
    const index = [b, h, i, k].slice(4 - own.length);
    return elements.of(
      value,
      own.map((dim, axis) => (dim === 1 ? 0 : index[axis])),
    );
  };
  let visibility: Visibility = { visible: truth(true), bias: undefined };
  if (taken.mask !== undefined) {
    const element = elementOf(taken.mask);
    if (typeof element === "string") return element;
    visibility = taken.mask.fact?.type === "bool" ? { visible: element, bias: undefined } : visibilityOf(element);
  }
  const conditions = [visibility.visible];
  if (taken.padding !== undefined) {
    const { fact } = taken.padding;
    const valid = fact?.shape?.length === 2 ? constantOf(elements.of(taken.padding, [b, k])) : undefined;
    if (valid === undefined) return `its padding mask "${taken.padding.name}" is not understood`;
    conditions.push(truth(valid !== 0));
  }
  const own = subtractDims(addDims(past, i), k);
  if (taken.causal) conditions.push(atLeastZero(own, ranges));
  const meaning = meaningOf({ ...visibility, visible: joined("and", conditions) }, { query: i, key: k, past });
  const window = taken.window === undefined ? meaning.window : Math.min(taken.window, meaning.window ?? Infinity);
  return {
    mask: { ...meaning, window, causal: meaning.causal || (taken.causal && isKnown(queries)) },
    index: { batch: b, head: h, query: i, key: k },
  };
}
