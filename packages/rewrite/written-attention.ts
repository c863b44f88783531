/**
 * Attention written out: a product of queries and keys, scaled and masked, Softmax, a product with values. Recognised from the elements
 * that enter Softmax and leave it, so that transpositions, repeated heads and joined batches on the way do not matter.
 */
import { addDims, type Dim, divideExactly, isKnown, multiplyDims, sameDim, type Shape } from "#insitu/graph/dim.js";
import type { Graph, Node, Value } from "#insitu/graph/graph.js";
import type { GraphIndex } from "#insitu/passes/graph-index.js";
import type { CachedAttention, Form, Laid, Refusal } from "./attention.js";
import { cacheReadOf, scaledRead } from "./cache-read.js";
import { mentions, type Element, constantOf, sameElement, sameIndex } from "./element.js";
import { type Assumptions, Elements } from "./elements.js";
import { meaningOf } from "./mask.js";
import { Ranges } from "./ranges.js";
import { batch, positiveSizes } from "./role-words.js";
import type { RotaryTables } from "./rotary-tables.js";
import { splitScores } from "./scores.js";
import type { Trail } from "./trail.js";
import { sinkScores } from "./written-sinks.js";

/** The graph and what is known of it. */
export interface Surroundings {
  readonly graph: Graph;
  readonly index: GraphIndex;
  readonly trails: readonly Trail[];
  readonly assumptions: Assumptions;
  /** Rows before the first query, as masks count them. */
  readonly past: Dim;
  /** Rotary tables for short and for long texts that lie one behind the other. */
  readonly tables: RotaryTables | undefined;
}

/** The indices of one attention. */
interface Indices {
  readonly ranges: Ranges;
  readonly elements: Elements;
  readonly b: Dim;
  readonly h: Dim;
  readonly i: Dim;
  readonly k: Dim;
  readonly heads: number;
  readonly groups: number;
}

/** The attention around a Softmax; undefined where it reads no cache, a refusal where it does but is not understood. */
export function writtenAttention(node: Node, around: Surroundings): CachedAttention | Refusal | undefined {
  if (node.op.name !== "Softmax" || node.inputs[0] === undefined) return undefined;
  const sunk = sinkScores(node.inputs[0], around.index);
  const scores = sunk?.scores ?? node.inputs[0];
  const shape = scores.fact?.shape;
  if (shape === undefined || shape.length < 3) return undefined;
  const axis = node.attrs["axis"] as number;
  if (axis !== -1 && axis !== shape.length - 1) return undefined;
  const indices = indicesFor(shape, around);
  if (indices === undefined) return undefined;
  const { elements, i, k } = indices;
  const lead = leadIndex(shape, indices);
  if (lead === undefined) return undefined;
  const element = elements.of(scores, [...lead, i, k]);
  const isProduct = (part: Element): boolean => part.kind === "read" && productOf(part.from, elements) !== undefined;
  if (!mentions(element, isProduct)) return undefined;
  const refuse = (reason: string): Refusal => ({ node, reason });
  const split = splitScores(element, isProduct);
  if (typeof split === "string") return readsCache(element, around, indices) ? refuse(split) : undefined;
  const product = productOf(split.product.from, elements)!;
  const keys = keysOf(product, split.product.index, indices, around);
  if (typeof keys === "string") return readsCache(split.product, around, indices) ? refuse(keys) : undefined;
  const query = queryOf(product, split.product.index, indices);
  if (query === undefined)
    return refuse(`the queries "${product.left.name}" are laid out in a way that is not understood`);
  const values = valuesOf(node, [...lead, i, k], indices, around);
  if (typeof values === "string") return refuse(values);
  const precision = scores.fact?.type;
  return {
    node,
    query,
    result: values.result,
    heads: indices.heads,
    groups: indices.groups,
    keys: keys.read,
    values: values.read,
    scale: split.scale * product.factor * keys.factor,
    softcap: split.softcap,
    sinks: sunk?.sinks,
    precision: precision === query.type ? undefined : precision,
    blindIsZero: false,
    mask: meaningOf(split, { query: i, key: k, past: around.past }),
    index: { batch: indices.b, head: indices.h, query: i, key: k },
  };
}

/** Indices for scores of a shape: [batch, heads, …], [batch, groups, heads of a group, …] or [batch · heads, …]. */
function indicesFor(shape: Shape, { graph, assumptions, trails }: Surroundings): Indices | undefined {
  const samples = trails[0]?.past.fact?.shape?.[0] ?? batch;
  const lead = shape.slice(0, -2);
  const heads = lead.length === 1 ? divideExactly(lead[0], samples) : lead.slice(1).reduce<Dim>(multiplyDims, 1);
  if (heads === undefined || !isKnown(heads) || lead.length > 3) return undefined;
  const ranges = new Ranges(positiveSizes);
  const b = ranges.variable("%b", samples);
  const h = ranges.variable("%h", heads);
  const i = ranges.variable("%i", shape.at(-2)!);
  const k = ranges.variable("%k", shape.at(-1)!);
  const groups = lead.length === 3 && isKnown(lead[1]) ? lead[1] : heads;
  const closed = new Set([...(assumptions.closed ?? []), ...trails.map(({ written }) => written)]);
  return { ranges, elements: new Elements(graph, ranges, { ...assumptions, closed }), b, h, i, k, heads, groups };
}

/** The index of a head in the dimensions before a tensor's last two; undefined where they hold none. */
function leadIndex(shape: Shape, { b, h, heads, groups, ranges }: Indices): Dim[] | undefined {
  const lead = shape.slice(0, -2);
  if (lead.length === 1) return [addDims(multiplyDims(b, heads), h)];
  if (lead.length === 2) return sameDim(lead[1], heads) ? [b, h] : undefined;
  if (lead.length !== 3 || lead[1] !== groups) return undefined;
  const { quotient, rest } = ranges.divide(h, heads / groups);
  return [b, quotient, rest];
}

/** A product of two tensors that are both computed. */
interface Product {
  readonly node: Node;
  readonly left: Value;
  readonly right: Value;
  readonly factor: number;
  readonly turnsRight: boolean;
}

function productOf(value: Value, elements: Elements): Product | undefined {
  const node = elements.producerOf(value);
  const [left, right] = node?.inputs ?? [];
  if (node === undefined || left === undefined || right === undefined) return undefined;
  if ((left.fact?.constant ?? left.initializer ?? right.fact?.constant ?? right.initializer) !== undefined)
    return undefined;
  if (node.op.name === "MatMul" && node.op.domain === "") return { node, left, right, factor: 1, turnsRight: false };
  if (node.op.name !== "FusedMatMul" || node.op.domain !== "com.microsoft") return undefined;
  const { transA, transB, transBatchA, transBatchB, alpha } = node.attrs;
  if (Boolean(transA) || Boolean(transBatchA) || Boolean(transBatchB)) return undefined;
  return { node, left, right, factor: Number(alpha), turnsRight: Boolean(transB) };
}

/** The index of an operand's matrix, from the index of the product's. */
function operandLead(operand: Value, lead: readonly Dim[]): Dim[] | undefined {
  const own = operand.fact?.shape?.slice(0, -2);
  if (own === undefined || own.length > lead.length) return undefined;
  const skipped = lead.length - own.length;
  return own.map((dim, axis) => (dim === 1 ? 0 : lead[skipped + axis]));
}

const sizeOf = ({ left, right, turnsRight }: Product): Dim | undefined =>
  left.fact?.shape?.at(-1) ?? right.fact?.shape?.at(turnsRight ? -1 : -2);

function keysOf(
  product: Product,
  index: readonly Dim[],
  indices: Indices,
  { trails }: Surroundings,
): { readonly read: CachedAttention["keys"]; readonly factor: number } | string {
  const { ranges, elements, b, h, k, heads } = indices;
  const lead = operandLead(product.right, index.slice(0, -2));
  const size = sizeOf(product);
  if (lead === undefined || size === undefined) return `the shapes of ${product.node.label} are not known`;
  if (!sameDim(index.at(-1)!, k)) return `${product.node.label} does not have one column for each key`;
  const d = ranges.variable("%d", size);
  const found = scaledRead(elements.of(product.right, [...lead, ...(product.turnsRight ? [k, d] : [d, k])]));
  if (found === undefined)
    return `the keys "${product.right.name}" are computed from the cache in a way that is not understood`;
  const read = cacheReadOf(found.read, trails, { batch: b, head: h, headCount: heads, row: k, value: d, size }, ranges);
  return typeof read === "string" ? read : { read, factor: found.factor };
}

/** The queries, in the nearest place where they lie as Attention takes them. */
function queryOf(product: Product, index: readonly Dim[], indices: Indices): Laid | undefined {
  const { ranges, elements, i } = indices;
  const lead = operandLead(product.left, index.slice(0, -2));
  const size = sizeOf(product);
  if (lead === undefined || size === undefined || !sameDim(index.at(-2)!, i)) return undefined;
  const d = ranges.variable("%d", size);
  let at: { readonly value: Value; readonly index: readonly Dim[] } | undefined = {
    value: product.left,
    index: [...lead, i, d],
  };
  let first: Laid | undefined;
  for (let step = 0; at !== undefined && step < 8; step++) {
    const form = formOf(at.index, d, size, indices);
    if (form === "heads") return laid(at.value, form);
    if (form !== undefined) first ??= laid(at.value, form);
    at = elements.before(at.value, at.index);
  }
  return first;
}

const laid = (value: Value, form: Form): Laid => ({ name: value.name, type: value.fact!.type, form });

/** How a tensor lies whose element at `index` is value `d` of head h at query i. */
function formOf(
  index: readonly Dim[],
  d: Dim,
  size: Dim,
  { b, h, i, heads, groups, ranges }: Indices,
): Form | undefined {
  const merged = addDims(multiplyDims(b, heads), h);
  const group = ranges.divide(h, heads / groups);
  if (sameIndex(index, [b, h, i, d])) return "heads";
  if (sameIndex(index, [b, i, addDims(multiplyDims(h, size), d)])) return "packed";
  if (sameIndex(index, [b, group.quotient, group.rest, i, d])) return "grouped";
  return sameIndex(index, [merged, i, d]) ? "merged" : undefined;
}

/** Operators between Softmax and the product with the values. */
const between = new Set(["Cast", "Dropout", "Identity", "IsNaN", "Reshape", "Slice", "Where"]);

/** The product of the weights with a cache of values. */
function valuesOf(
  softmax: Node,
  index: readonly Dim[],
  indices: Indices,
  around: Surroundings,
): { readonly read: CachedAttention["values"]; readonly result: Laid } | string {
  const weights = softmax.outputs[0]!;
  const pending: Value[] = [weights];
  let reason = `nothing multiplies the weights of ${softmax.label} with a cache of values`;
  for (const value of pending) {
    for (const reader of around.index.readersOf(value)) {
      if (reader.op.domain === "" && between.has(reader.op.name) && pending.length < 8)
        pending.push(reader.outputs[0]!);
      const product = reader.outputs[0] && productOf(reader.outputs[0], indices.elements);
      if (product?.node !== reader || product.left !== value) continue;
      const found = weighted(product, weights, index, indices, around);
      if (typeof found !== "string") return found;
      reason = found;
    }
  }
  return reason;
}

function weighted(
  product: Product,
  weights: Value,
  index: readonly Dim[],
  indices: Indices,
  { trails }: Surroundings,
): { readonly read: CachedAttention["values"]; readonly result: Laid } | string {
  const { elements, ranges, b, h, i, k, heads } = indices;
  const result = product.node.outputs[0]!;
  const shape = result.fact?.shape;
  const lead = shape && leadIndex(shape, indices);
  const size = shape?.at(-1);
  const left = lead && operandLead(product.left, lead);
  const right = lead && operandLead(product.right, lead);
  if (size === undefined || left === undefined || right === undefined || product.factor !== 1)
    return `the shapes of ${product.node.label} are not understood`;
  if (!isWeight(elements.of(product.left, [...left, i, k]), weights, index))
    return `${product.node.label} does not multiply by the weights of Softmax as they are`;
  const d = ranges.variable("%e", size);
  const found = scaledRead(elements.of(product.right, [...right, ...(product.turnsRight ? [d, k] : [k, d])]));
  if (found?.factor !== 1)
    return `the values "${product.right.name}" are computed from the cache in a way that is not understood`;
  const read = cacheReadOf(found.read, trails, { batch: b, head: h, headCount: heads, row: k, value: d, size }, ranges);
  if (typeof read === "string") return read;
  const form = formOf([...lead!, i, d], d, size, indices);
  return form === undefined
    ? `${product.node.label} gives a result that is laid out in another way`
    : { read, result: laid(result, form) };
}

/** True for a weight of Softmax, or 0 where that is no number. */
function isWeight(element: Element, weights: Value, index: readonly Dim[]): boolean {
  if (element.kind === "read") return element.from === weights && sameIndex(element.index, index);
  if (element.kind !== "choose" || constantOf(element.yes) !== 0) return false;
  const { when, no } = element;
  return (
    when.kind === "call" && when.node.op.name === "IsNaN" && sameElement(when.of[0], no) && isWeight(no, weights, index)
  );
}

/** True if a product under an element has a cache behind it. */
function readsCache(element: Element, { trails }: Surroundings, { elements }: Indices): boolean {
  const caches = new Set(trails.map(({ written }) => written));
  return mentions(element, (part) => {
    if (part.kind !== "read") return false;
    const pending = [part.from];
    for (const value of pending) {
      if (caches.has(value)) return true;
      const node = elements.producerOf(value);
      if (node === undefined || pending.length > 200 || (value !== part.from && node.op.name === "MatMul")) continue;
      for (const operand of node.inputs) if (operand !== undefined && !pending.includes(operand)) pending.push(operand);
    }
    return false;
  });
}
