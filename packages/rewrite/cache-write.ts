/**
 * The rows that a writer adds to a cache, and where they go. A join puts them behind the old ones; a scatter is understood where its
 * indices are shown to be one row after another, for all samples alike.
 */
import { type Dim, isKnown, sameDim, subtractDims } from "#insitu/graph/dim.js";
import type { Graph, Value } from "#insitu/graph/graph.js";
import { type Assumptions, Elements } from "./elements.js";
import { Ranges } from "./ranges.js";
import { past, positiveSizes } from "./role-words.js";
import { writtenAxis } from "./roles.js";
import type { Trail } from "./trail.js";

/** New rows of a cache. */
export interface CacheWrite {
  readonly rows: Value;
  /** For each axis of the cache, the axis of `rows` that it is. */
  readonly perm: readonly number[];
  /** The row that the first one goes to, as the graph counts: `past`, or 0 where it only ever begins. */
  readonly start: Dim;
}

/** The write of a trail that is no operator's; a sentence where it is not understood. */
export function cacheWriteOf(trail: Trail, graph: Graph, assumptions: Assumptions): CacheWrite | string {
  const { writer, kind } = trail;
  const place = (own: readonly number[]): number[] => trail.order.map((_, axis) => own[trail.order.indexOf(axis)]);
  if (kind === "join") {
    const rows = writer.inputs[1]!;
    const before = trail.past.fact?.shape?.[trail.order[writtenAxis(trail)!]];
    if (before !== undefined && isKnown(before))
      return `it always holds ${before} rows, and ${writer.label} joins more to them`;
    return { rows, perm: place(trail.order.map((_, axis) => axis)), start: past };
  }
  const found =
    writer.op.name === "ScatterElements"
      ? scatteredElements(trail, graph, assumptions)
      : scatteredSlices(trail, graph, assumptions);
  if (typeof found === "string") return found;
  if (found.axis !== writtenAxis(trail))
    return `${writer.label} writes rows along another axis than the last that its indices name`;
  return { rows: found.rows, perm: place(found.perm), start: found.start };
}

interface Scattered {
  readonly rows: Value;
  /** For each axis of what is written, the axis of `rows`. */
  readonly perm: readonly number[];
  readonly start: Dim;
  /** The axis that rows are counted along. */
  readonly axis: number;
}

/** Indices of the updates' axes, and the elements of the indices' tensor. */
function asked(
  updates: Value,
  graph: Graph,
  assumptions: Assumptions,
): { readonly index: Dim[]; readonly elements: Elements } {
  const ranges = new Ranges(positiveSizes);
  const index = updates.fact!.shape!.map((dim, axis) => ranges.variable(`%${axis}`, dim));
  return { index, elements: new Elements(graph, ranges, assumptions) };
}

function scatteredSlices({ writer, written }: Trail, graph: Graph, assumptions: Assumptions): Scattered | string {
  const [, indices, updates] = writer.inputs;
  const [shape, data] = [indices?.fact?.shape, written.fact?.shape];
  const width = shape?.at(-1);
  if (
    updates?.fact?.shape === undefined ||
    shape === undefined ||
    data === undefined ||
    width === undefined ||
    !isKnown(width)
  )
    return `the shapes of ${writer.label} are not known`;
  if (reduces(writer.attrs)) return `${writer.label} combines rows in place of writing them`;
  const { index, elements } = asked(updates, graph, assumptions);
  const lead = index.slice(0, shape.length - 1);
  const target: Dim[] = [];
  for (let at = 0; at < width; at++) {
    const element = elements.of(indices!, [...lead, at]);
    if (element.kind !== "integer") return `the rows that ${writer.label} writes to are not understood`;
    target.push(element.value);
  }
  return placed(writer.label, updates, [...target, ...index.slice(shape.length - 1)], index, data);
}

function scatteredElements({ writer, written }: Trail, graph: Graph, assumptions: Assumptions): Scattered | string {
  const [, indices, updates] = writer.inputs;
  const data = written.fact?.shape;
  if (updates?.fact?.shape === undefined || data === undefined) return `the shapes of ${writer.label} are not known`;
  if (reduces(writer.attrs)) return `${writer.label} combines rows in place of writing them`;
  const { index, elements } = asked(updates, graph, assumptions);
  const element = elements.of(indices!, index);
  if (element.kind !== "integer") return `the rows that ${writer.label} writes to are not understood`;
  const axis = writer.attrs["axis"] as number;
  return placed(writer.label, updates, index.with(axis < 0 ? axis + index.length : axis, element.value), index, data);
}

const reduces = (attrs: Readonly<Record<string, unknown>>): boolean =>
  attrs["reduction"] !== undefined && attrs["reduction"] !== "none";

/** Matches the axes of the updates with those they are written to: one counts rows, the others are whole. */
function placed(
  label: string,
  updates: Value,
  target: readonly Dim[],
  index: readonly Dim[],
  data: readonly Dim[],
): Scattered | string {
  const shape = updates.fact!.shape!;
  const perm: number[] = new Array<number>(target.length).fill(-1);
  let counted: { readonly start: Dim; readonly axis: number } | undefined;
  target.forEach((dim, axis) => {
    const own = index.findIndex(
      (variable, at) => sameDim(variable, dim) && sameDim(shape[at], data[axis]) && !perm.includes(at),
    );
    if (own >= 0) perm[axis] = own;
  });
  for (const [axis, dim] of target.entries()) {
    if (perm[axis] >= 0) continue;
    const own = index.findIndex((variable, at) => !perm.includes(at) && startOf(dim, variable) !== undefined);
    if (own < 0 || counted !== undefined)
      return `${label} writes to [${target.map(String).join(", ")}], not to one row after another`;
    perm[axis] = own;
    counted = { start: startOf(dim, index[own])!, axis };
  }
  return counted === undefined ? `${label} writes the whole cache` : { rows: updates, perm, ...counted };
}

/** Where rows begin that are numbered start + variable. */
function startOf(dim: Dim, variable: Dim): Dim | undefined {
  const start = subtractDims(dim, variable);
  return start === 0 || sameDim(start, past) ? start : undefined;
}
