/**
 * How an attention reads a cache: which axis of the cache holds the heads and which the values of a head, shown from one element of what
 * the attention multiplies with. Heads that were repeated for their group of query heads are seen through.
 */
import { addDims, type Dim, isKnown, multiplyDims, sameDim, subtractDims } from "#insitu/graph/dim.js";
import { constantOf, type Element } from "./element.js";
import type { Ranges } from "./ranges.js";
import { cacheAxis } from "./roles.js";
import type { Trail } from "./trail.js";

/** Where the parts of a key or value lie in its cache. */
export interface CacheRead {
  readonly trail: Trail;
  /** The axis of the sequence. */
  readonly rows: number;
  /** The axis of the heads; undefined where heads and their values share the last axis of three. */
  readonly heads: number | undefined;
  /** The axis of a head's values. */
  readonly values: number;
  readonly headCount: number;
  readonly headSize: Dim;
  /** Where on the axis of values they begin, and how many there are, in a cache that holds others beside them. */
  readonly part?: { readonly start: number; readonly end: number };
}

/** The indices that elements of a cache are asked with. */
interface ReadIndex {
  readonly batch: Dim;
  readonly head: Dim;
  readonly headCount: number;
  readonly row: Dim;
  readonly value: Dim;
  readonly size: Dim;
}

/** The factor in front of an element that is read, and the read. */
export function scaledRead(
  element: Element,
): { readonly factor: number; readonly read: Element & { readonly kind: "read" } } | undefined {
  if (element.kind === "read") return { factor: 1, read: element };
  if (element.kind !== "call" || element.node.op.domain !== "" || element.of.length !== 2) return undefined;
  const [left, right] = element.of;
  const divides = element.node.op.name === "Div";
  if (!divides && element.node.op.name !== "Mul") return undefined;
  const [inner, number] =
    constantOf(right) !== undefined
      ? [left, constantOf(right)!]
      : divides
        ? [right, undefined]
        : [right, constantOf(left)];
  const found = number === undefined ? undefined : scaledRead(inner);
  return found && { ...found, factor: divides ? found.factor / number! : found.factor * number! };
}

/** The layout behind an element of a cache; a sentence where it is none that Attention can read. */
export function cacheReadOf(
  found: Element & { readonly kind: "read" },
  trails: readonly Trail[],
  index: ReadIndex,
  ranges: Ranges,
): CacheRead | string {
  const trail = trails.find(({ written }) => written === found.from);
  if (trail === undefined) return `"${found.from.name}" is no cache`;
  const rows = cacheAxis(trail);
  const shape = trail.past.fact?.shape;
  if (rows === undefined || shape === undefined) return `the shape of "${trail.past.name}" is not known`;
  const at: Dim[] = [];
  trail.order.forEach((axis, own) => (at[axis] = found.index[own]));
  const refuse = (what: string): string =>
    `${what} of cache "${trail.past.name}", read at [${at.map(String).join(", ")}]`;
  if (!sameDim(at[0], index.batch)) return refuse("the first axis is not the batch");
  if (!sameDim(at[rows], index.row)) return refuse(`axis ${rows} is not read row by row`);
  const rest = at.flatMap((_, axis) => (axis === 0 || axis === rows ? [] : [axis]));
  const base = { trail, rows };
  if (rest.length === 1) {
    const [axis] = rest;
    const found = joinedHeads(at[axis], shape[axis], index, ranges);
    if (found === undefined) return refuse("heads are not read one after another");
    return { ...base, heads: undefined, values: axis, headSize: index.size, ...found };
  }
  if (rest.length !== 2) return refuse(`${shape.length} dimensions are no layout`);
  for (const [heads, values] of [rest, rest.toReversed()]) {
    const headCount = shape[heads];
    const start = subtractDims(at[values], index.value);
    if (!isKnown(headCount) || !isKnown(start)) continue;
    const head = sharedHead(index, headCount, ranges);
    if (head === undefined || !sameDim(at[heads], head)) continue;
    const part = partOf(start, index.size, shape[values]);
    if (part !== undefined) return { ...base, heads, values, headCount, headSize: index.size, ...part };
  }
  return refuse("heads are shared in another way than Attention does");
}

/** Heads side by side on one axis: how many they are, and where they begin. */
function joinedHeads(
  at: Dim,
  width: Dim,
  index: ReadIndex,
  ranges: Ranges,
): Pick<CacheRead, "headCount" | "part"> | undefined {
  // The most heads first: with one alone, there is nothing to tell them apart by.
  for (let headCount = index.headCount; headCount >= 1; headCount--) {
    const head = sharedHead(index, headCount, ranges);
    if (head === undefined) continue;
    const start = subtractDims(at, addDims(multiplyDims(head, index.size), index.value));
    const part = isKnown(start) ? partOf(start, multiplyDims(index.size, headCount), width) : undefined;
    if (part !== undefined) return { headCount, ...part };
  }
  return undefined;
}

/** Values from `start` on; nothing to say where they are all there is, undefined where they do not fit. */
function partOf(start: number, count: Dim, width: Dim): Pick<CacheRead, "part"> | undefined {
  if (start === 0 && sameDim(count, width)) return {};
  if (!isKnown(count) || !isKnown(width) || start < 0 || start + count > width) return undefined;
  return { part: { start, end: start + count } };
}

/** The key head that a query head reads: neighbours share one. */
function sharedHead({ head, headCount }: ReadIndex, heads: number, ranges: Ranges): Dim | undefined {
  return headCount % heads === 0 ? ranges.divide(head, headCount / heads).quotient : undefined;
}
