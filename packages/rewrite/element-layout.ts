/**
 * Where an output's element lies in an operand, for operators that move elements and do not change them. Indices that cannot be shown
 * to lie inside their operand are not followed.
 */
import {
  addDims,
  type Dim,
  divideExactly,
  isKnown,
  multiplyDims,
  sameDim,
  type Shape,
  subtractDims,
} from "#insitu/graph/dim.js";
import { integersOf } from "#insitu/graph/fact.js";
import type { Node, Value } from "#insitu/graph/graph.js";
import { traitsOf } from "#insitu/tensor/element-type.js";
import { atLeastZero, choose, type Element, mentions } from "./element.js";
import type { Question, Rule } from "./elements.js";
import type { Ranges } from "./ranges.js";

const shapeOf = (value: Value | undefined): Shape | undefined => value?.fact?.shape;

const dimsIn = (value: Value | undefined): readonly Dim[] | undefined => integersOf(value?.fact);

/** The axis counted from the front. */
const axisOf = (axis: number, rank: number): number => (axis < 0 ? axis + rank : axis);

/** Axes from an operand or, in older opsets, an attribute. */
function axesOf(node: Node, position: number, rank: number): number[] | undefined {
  const given =
    node.inputs[position] === undefined
      ? (node.attrs["axes"] as readonly number[] | undefined)
      : dimsIn(node.inputs[position]);
  return given?.every((axis) => isKnown(axis)) ? given.map((axis) => axisOf(Number(axis), rank)) : undefined;
}

/** The operand's own index behind an index of what it broadcasts to; undefined where that is not certain. */
export function broadcastIndex(
  shape: Shape | undefined,
  whole: Shape | undefined,
  index: readonly Dim[],
): Dim[] | undefined {
  if (shape === undefined || whole === undefined || shape.length > index.length) return undefined;
  const skipped = index.length - shape.length;
  const certain = shape.every((dim, axis) => dim === 1 || sameDim(dim, whole[skipped + axis]));
  return certain ? shape.map((dim, axis) => (dim === 1 ? 0 : index[skipped + axis])) : undefined;
}

const same: Rule = ({ node, index, of }) => of(node.inputs[0]!, index);

const transpose: Rule = ({ node, index, of }) => {
  const given = node.attrs["perm"] as readonly number[] | undefined;
  const order = given === undefined || given.length === 0 ? index.map((_, axis) => index.length - 1 - axis) : given;
  const source: Dim[] = [];
  order.forEach((axis, at) => (source[axis] = index[at]));
  return of(node.inputs[0]!, source);
};

const unsqueeze: Rule = ({ node, index, of }) => {
  const axes = axesOf(node, 1, index.length);
  return (
    axes &&
    of(
      node.inputs[0]!,
      index.filter((_, axis) => !axes.includes(axis)),
    )
  );
};

const squeeze: Rule = ({ node, index, of }) => {
  const shape = shapeOf(node.inputs[0]);
  if (shape === undefined) return undefined;
  const rank = shape.length;
  const listed = node.inputs[1] !== undefined || node.attrs["axes"] !== undefined;
  const axes = listed ? axesOf(node, 1, rank) : shape.flatMap((dim, axis) => (dim === 1 ? [axis] : []));
  if (axes === undefined || rank - axes.length !== index.length) return undefined;
  const left = [...index];
  return of(
    node.inputs[0]!,
    shape.map((_, axis) => (axes.includes(axis) ? 0 : left.shift()!)),
  );
};

const reshape: Rule = ({ node, output, index, ranges, of }) => {
  const source = regroup(shapeOf(output), shapeOf(node.inputs[0]), index, ranges);
  return source && of(node.inputs[0]!, source);
};

/**
 * The index in `to` of the element that has `index` in `from`, both read row by row. Runs of dimensions with the same product are
 * matched with one another, so that most dimensions keep their index.
 */
function regroup(
  from: Shape | undefined,
  to: Shape | undefined,
  index: readonly Dim[],
  ranges: Ranges,
): Dim[] | undefined {
  if (from === undefined || to === undefined || from.length !== index.length) return undefined;
  const result: Dim[] = to.map(() => 0);
  const sources = from.flatMap((dim, axis) => (dim === 1 ? [] : [axis]));
  const targets = to.flatMap((dim, axis) => (dim === 1 ? [] : [axis]));
  while (sources.length > 0 || targets.length > 0) {
    const [own, other] = [sources.splice(0, 1), targets.splice(0, 1)];
    if (own.length === 0 || other.length === 0) return undefined;
    let [left, right] = [from[own[0]], to[other[0]]];
    while (!sameDim(left, right)) {
      const takesSource = divideExactly(right, left) !== undefined;
      const [rest, group] = takesSource ? [sources, own] : [targets, other];
      const next = rest.shift();
      if (next === undefined) return undefined;
      group.push(next);
      if (takesSource) left = multiplyDims(left, from[next]);
      else right = multiplyDims(right, to[next]);
    }
    const flat = own.reduce<Dim>((sum, axis) => addDims(multiplyDims(sum, from[axis]), index[axis]), 0);
    let rest = flat;
    for (const axis of other.toReversed().slice(0, -1)) {
      const divided = ranges.divide(rest, to[axis]);
      result[axis] = divided.rest;
      rest = divided.quotient;
    }
    result[other[0]] = rest;
  }
  return result;
}

const expand: Rule = ({ node, output, index, of }) => {
  const source = broadcastIndex(shapeOf(node.inputs[0]), shapeOf(output), index);
  return source && of(node.inputs[0]!, source);
};

const tile: Rule = ({ node, index, ranges, of }) => {
  const shape = shapeOf(node.inputs[0]);
  const repeats = dimsIn(node.inputs[1]);
  if (shape === undefined || repeats?.length !== shape.length) return undefined;
  return of(
    node.inputs[0]!,
    index.map((at, axis) => (repeats[axis] === 1 ? at : shape[axis] === 1 ? 0 : ranges.divide(at, shape[axis]).rest)),
  );
};

/** A list of whole numbers, from facts or element by element. */
function listIn(value: Value | undefined, of: Question["of"]): readonly Dim[] | undefined {
  const known = dimsIn(value);
  const count = shapeOf(value)?.[0];
  if (known !== undefined || value === undefined || count === undefined || !isKnown(count)) return known;
  const found = Array.from({ length: count }, (_, at) => of(value, [at]));
  return found.every((element) => element.kind === "integer") ? found.map((element) => element.value) : undefined;
}

const slice: Rule = ({ node, index, ranges, of }) => {
  const shape = shapeOf(node.inputs[0]);
  const [starts, given, steps] = [listIn(node.inputs[1], of), dimsIn(node.inputs[3]), dimsIn(node.inputs[4])];
  if (shape === undefined || starts === undefined) return undefined;
  if ((node.inputs[3] !== undefined && given === undefined) || (node.inputs[4] !== undefined && steps === undefined))
    return undefined;
  const source = [...index];
  for (const [at, start] of starts.entries()) {
    const axis = given === undefined ? at : isKnown(given[at]) ? axisOf(given[at], shape.length) : undefined;
    const step = steps === undefined ? 1 : steps[at];
    if (axis === undefined || !isKnown(step)) return undefined;
    const size = shape[axis];
    let first: Dim;
    if (ranges.isNeverNegative(start)) first = start;
    else if (isKnown(start) && start < -(2 ** 31)) first = 0;
    else if (ranges.isNeverNegative(subtractDims(-1, start)) && ranges.isNeverNegative(addDims(size, start)))
      first = addDims(size, start);
    else return undefined;
    if (step < 0) {
      if (!isKnown(start) || !(start === -1 || start >= 2 ** 31 - 1)) return undefined;
      first = subtractDims(size, 1);
    }
    source[axis] = addDims(first, multiplyDims(index[axis], step));
    if (!ranges.isLookup(source[axis], size)) return undefined;
  }
  return of(node.inputs[0]!, source);
};

/** The index that an element names in a dimension: negative ones count from its end. */
function namedIndex(element: Element, size: Dim, ranges: Ranges): Dim | undefined {
  if (element.kind !== "integer") return undefined;
  const { value } = element;
  if (ranges.isLookup(value, size)) return value;
  const fromEnd = addDims(value, size);
  return ranges.isNeverNegative(subtractDims(-1, value)) && ranges.isIndex(fromEnd, size) ? fromEnd : undefined;
}

const gather: Rule = ({ node, index, ranges, of }) => {
  const [data, indices] = node.inputs;
  const [shape, rank] = [shapeOf(data), shapeOf(indices)?.length];
  if (shape === undefined || rank === undefined) return undefined;
  const axis = axisOf(node.attrs["axis"] as number, shape.length);
  const named = of(indices!, index.slice(axis, axis + rank));
  const at = namedIndex(named, shape[axis], ranges);
  const around = (place: Dim): readonly Dim[] => [...index.slice(0, axis), place, ...index.slice(axis + rank)];
  if (at !== undefined) return of(data!, around(at));
  const isTable = (data?.fact?.constant ?? data?.initializer) !== undefined && isKnown(shape[axis]);
  // A place that is found by arithmetic on indices alone; what tensors decide stays with the node that looks it up.
  if (!isTable || named.kind === "integer" || mentions(named, ({ kind }) => kind === "read")) return undefined;
  return { kind: "lookup", from: data!, axis, at: named, index: around(0) };
};

const gatherElements: Rule = ({ node, index, ranges, of }) => {
  const [data, indices] = node.inputs;
  const shape = shapeOf(data);
  if (shape === undefined) return undefined;
  const axis = axisOf(node.attrs["axis"] as number, shape.length);
  const at = namedIndex(of(indices!, index), shape[axis], ranges);
  return at === undefined ? undefined : of(data!, index.with(axis, at));
};

const gatherNd: Rule = ({ node, index, ranges, of }) => {
  const [data, indices] = node.inputs;
  const [shape, listed] = [shapeOf(data), shapeOf(indices)];
  const width = listed?.at(-1);
  const batched = node.attrs["batch_dims"] as number;
  if (shape === undefined || listed === undefined || width === undefined || !isKnown(width)) return undefined;
  const lead = index.slice(0, listed.length - 1);
  const source: Dim[] = lead.slice(0, batched);
  for (let at = 0; at < width; at++) {
    const named = namedIndex(of(indices!, [...lead, at]), shape[batched + at], ranges);
    if (named === undefined) return undefined;
    source.push(named);
  }
  return of(data!, [...source, ...index.slice(listed.length - 1)]);
};

/** 0, 0, s, s, 2·s, …: the step and how often each number is there; undefined for other lists. */
export function stairsOf(list: readonly number[]): { readonly step: number; readonly width: number } | undefined {
  const width = list.findIndex((number) => number !== list[0]);
  if (width < 1) return undefined;
  const step = list[width] - list[0];
  const follows = list.every((number, at) => number - list[0] === step * Math.floor(at / width));
  return follows ? { step, width } : undefined;
}

/** Parts of one size that lie in one tensor at even distances: heads cut out one by one, and joined again in groups. */
function inStairs(
  parts: readonly { readonly value: Value; readonly start: Dim; readonly end: Dim }[],
  at: Dim,
  element: (part: (typeof parts)[number]) => Element,
  ranges: Ranges,
): Element | undefined {
  const size = parts[0]?.end;
  if (parts.length < 2 || size === undefined || isKnown(at)) return undefined;
  if (!parts.every(({ start, end }) => sameDim(subtractDims(end, start), size))) return undefined;
  const { quotient, rest } = ranges.divide(at, size);
  // Each part is asked at the same index inside it.
  const reads = parts.map((part) => element({ ...part, start: subtractDims(at, rest) }));
  const [first] = reads;
  if (first.kind !== "read") return undefined;
  const shifts: number[][] = [];
  for (const one of reads) {
    if (one.kind !== "read" || one.from !== first.from || one.index.length !== first.index.length) return undefined;
    const shift = one.index.map((dim, axis) => subtractDims(dim, first.index[axis]));
    if (!shift.every((dim) => isKnown(dim))) return undefined;
    shifts.push(shift);
  }
  const moving = first.index.flatMap((_, axis) => (shifts.some((shift) => shift[axis] !== 0) ? [axis] : []));
  const stairs = moving.length === 1 ? stairsOf(shifts.map((shift) => shift[moving[0]])) : undefined;
  if (stairs === undefined) return undefined;
  const climbed = multiplyDims(ranges.divide(quotient, stairs.width).quotient, stairs.step);
  return { ...first, index: first.index.with(moving[0], addDims(first.index[moving[0]], climbed)) };
}

const concat: Rule = ({ node, index, ranges, of }) => {
  const rank = index.length;
  const axis = axisOf(node.attrs["axis"] as number, rank);
  const parts: { readonly value: Value; readonly start: Dim; readonly end: Dim }[] = [];
  let start: Dim = 0;
  for (const value of node.inputs) {
    const size = shapeOf(value)?.[axis];
    if (value === undefined || size === undefined) return undefined;
    const end = addDims(start, size);
    if (size !== 0) parts.push({ value, start, end });
    start = end;
  }
  const at = index[axis];
  const element = (part: (typeof parts)[number]): Element =>
    of(part.value, index.with(axis, subtractDims(at, part.start)));
  // The same operand over and over is one that repeats.
  if (parts.length > 1 && parts.every(({ value }) => value === parts[0].value))
    return of(parts[0].value, index.with(axis, ranges.divide(at, parts[0].end).rest));
  const repeated = inStairs(parts, at, element, ranges);
  if (repeated !== undefined) return repeated;
  const inside = parts.find((part) => ranges.isIndex(subtractDims(at, part.start), subtractDims(part.end, part.start)));
  if (inside !== undefined) return element(inside);
  const last = parts.at(-1);
  if (last === undefined) return undefined;
  return parts
    .slice(0, -1)
    .reduceRight<Element>(
      (rest, part) => choose(atLeastZero(subtractDims(subtractDims(part.end, at), 1), ranges), element(part), rest),
      element(last),
    );
};

const split: Rule = ({ node, output, index, of }) => {
  const axis = axisOf(node.attrs["axis"] as number, index.length);
  let start: Dim = 0;
  for (const value of node.outputs) {
    if (value === output) return of(node.inputs[0]!, index.with(axis, addDims(index[axis], start)));
    const size = shapeOf(value)?.[axis];
    if (size === undefined) return undefined;
    start = addDims(start, size);
  }
  return undefined;
};

/** A Cast that leaves every number what it is. */
const cast: Rule = ({ node, output, index, of }: Question) => {
  const [from, to] = [node.inputs[0]?.fact?.type, output.fact?.type];
  if (from === undefined || to === undefined) return undefined;
  return traitsOf(from).kind === "float" && traitsOf(to).kind === "float" ? of(node.inputs[0]!, index) : undefined;
};

/** Rules by operator. */
export const layoutRules: Readonly<Record<string, Rule | undefined>> = {
  Cast: cast,
  CastLike: cast,
  Concat: concat,
  Dropout: same,
  Expand: expand,
  Flatten: reshape,
  Gather: gather,
  GatherElements: gatherElements,
  GatherND: gatherNd,
  Identity: same,
  Reshape: reshape,
  Slice: slice,
  Split: split,
  Squeeze: squeeze,
  Tile: tile,
  Transpose: transpose,
  Unsqueeze: unsqueeze,
};
