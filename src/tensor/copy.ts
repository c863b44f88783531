/** Moving elements between views without looking at them: every type, packed and strings included. */
import { unreachable } from "../base/error.js";
import {
  type ByteStorage,
  byteLengthOf,
  type ElementType,
  isPacked,
  storageLengthOf,
  traitsOf,
} from "./element-type.js";
import { bytesBetween, copyPacked } from "./packed.js";
import { forEachIndexPair, View } from "./view.js";

/** Runs up to this many entries are copied one by one: cheaper than the views that a bulk copy makes. */
const shortRun = 24;

/** A function that copies `count` consecutive elements from one storage index to another; the places may overlap. */
export function elementCopier(from: View, to: View): (source: number, target: number, count: number) => void {
  const type: ElementType = from.type;
  if (to.type !== type) unreachable(`elements of ${from} copied into ${to}`);
  const { bits, kind } = traitsOf(type);
  if (kind === "string") {
    const source = from.data as string[];
    const target = to.data as string[];
    return (start, at, count) => {
      const rows = source.slice(start, start + count);
      for (let i = 0; i < count; i++) target[at + i] = rows[i];
    };
  }
  if (isPacked(type)) {
    const source = from.data as Uint8Array;
    const target = to.data as Uint8Array;
    return (start, at, count) => copyPacked(source, start, target, at, count, bits);
  }
  // Both arrays are of one class, whichever it is, since the types agree.
  const source = words(from.data as ByteStorage) as Int32Array;
  const target = words(to.data as ByteStorage) as Int32Array;
  const width = storageLengthOf(type, 1) * ((from.data as ByteStorage).BYTES_PER_ELEMENT / source.BYTES_PER_ELEMENT);
  const between = bytesBetween(source, target) / source.BYTES_PER_ELEMENT;
  return (start, at, count) => {
    const first = start * width;
    const place = at * width;
    const entries = count * width;
    if (entries > shortRun) target.set(source.subarray(first, first + entries), place);
    else if (between + place > first) for (let i = entries - 1; i >= 0; i--) target[place + i] = source[first + i];
    else for (let i = 0; i < entries; i++) target[place + i] = source[first + i];
  };
}

/** Floats as words of four bytes: reading a float may change the bits of a NaN. Other elements as they are. */
const words = (data: ByteStorage): ByteStorage =>
  data instanceof Float32Array || data instanceof Float64Array
    ? new Int32Array(data.buffer, data.byteOffset, data.byteLength / 4)
    : data;

/** Copies all elements of `from` into `to`; shapes must agree, layouts may differ, and the places may overlap. */
export function copyView(from: View, to: View): void {
  if (from.size !== to.size) unreachable(`${from} copied into ${to}`);
  if (from.size === 0) return; // an empty view may begin past the end of its storage
  // A whole number: positions and lengths, which every run is fed.
  if (from.size === 1 && from.data instanceof BigInt64Array && to.data instanceof BigInt64Array) {
    to.data[to.offset] = from.data[from.offset];
    return;
  }
  const copy = elementCopier(from, to);
  if (from.contiguous && to.contiguous) return copy(from.offset, to.offset, from.size);
  let { run, source, target } = splitRuns(from, to);
  if (overlaps(from, to)) {
    // Between two ascending views of one layout every element moves equally far: the farthest ones in that direction go first.
    if (!sameStrides(from, to) || !isAscending(from)) return copyView(cloneView(from), to);
    const distance = startOf(to) - startOf(from);
    if (distance === 0) return;
    if (distance > 0) [source, target] = [backwards(source), backwards(target)];
  }
  forEachIndexPair(source, target, (index, place) => copy(index, place, run));
}

/** Splits off the longest trailing part that is contiguous in both views, to be copied as one run. */
function splitRuns(from: View, to: View): { run: number; source: View; target: View } {
  let axis = from.shape.length;
  let run = 1;
  while (axis > 0 && isStep(from, axis - 1, run) && isStep(to, axis - 1, run)) run *= from.shape[--axis];
  const head = from.shape.slice(0, axis);
  const source = new View(from.type, head, from.data, from.offset, from.strides.slice(0, axis));
  const target = new View(to.type, head, to.data, to.offset, to.strides.slice(0, axis));
  return { run, source, target };
}

const isStep = (view: View, axis: number, step: number): boolean =>
  view.strides[axis] === step || view.shape[axis] === 1;

/** Where an element lies: in bits from the start of the buffer, or in strings from the start of the array. */
function startOf(view: View, index: number = view.offset): number {
  if (Array.isArray(view.data)) return index;
  return view.data.byteOffset * 8 + index * traitsOf(view.type).bits;
}

/** True if the views lie in one storage and what lies between their first and last elements overlaps. */
function overlaps(from: View, to: View): boolean {
  if (Array.isArray(from.data)) {
    if (from.data !== to.data) return false;
  } else if (from.data.buffer !== (to.data as ByteStorage).buffer) return false;
  const [low, high] = [edgeOf(from, Math.min), edgeOf(from, Math.max)];
  return low <= edgeOf(to, Math.max) && edgeOf(to, Math.min) <= high;
}

/** Where the first (`Math.min`) or the last (`Math.max`) element of a view in storage order lies. */
function edgeOf(view: View, pick: (a: number, b: number) => number): number {
  return startOf(
    view,
    view.strides.reduce((index, stride, axis) => index + pick(0, stride * (view.shape[axis] - 1)), view.offset),
  );
}

const sameStrides = (from: View, to: View): boolean =>
  from.shape.every((dim, axis) => dim === 1 || from.strides[axis] === to.strides[axis]);

/** True if row-major order is storage order, no element twice. */
function isAscending(view: View): boolean {
  let extent = 0;
  for (let axis = view.shape.length - 1; axis >= 0; axis--) {
    if (view.shape[axis] === 1) continue;
    if (view.strides[axis] <= extent) return false;
    extent += view.strides[axis] * (view.shape[axis] - 1);
  }
  return true;
}

/** The same elements from the last to the first. */
function backwards(view: View): View {
  const last = view.strides.reduce((index, stride, axis) => index + stride * (view.shape[axis] - 1), view.offset);
  return new View(
    view.type,
    view.shape,
    view.data,
    last,
    view.strides.map((stride) => -stride),
  );
}

/** The view itself if it is contiguous, else a contiguous copy. */
export const contiguous = (view: View): View => (view.contiguous ? view : cloneView(view));

/** A contiguous copy that shares nothing with the view. */
export function cloneView(view: View): View {
  const { type, shape, data, offset, size } = view;
  // Whole numbers: positions and lengths, which every run is fed.
  if (view.contiguous && (data instanceof BigInt64Array || data instanceof Int32Array))
    return new View(type, shape, data.slice(offset, offset + size));
  const copy = View.allocate(view.type, view.shape);
  copyView(view, copy);
  return copy;
}

/** True if two views of one shape and type have the same elements, to the bit. Of views with gaps, and of strings, false where it is not plain. */
export function sameElements(a: View, b: View): boolean {
  if (a.buffer === b.buffer && a.offset === b.offset && sameStrides(a, b)) return true;
  if (!a.contiguous || !b.contiguous || Array.isArray(a.data) || Array.isArray(b.data) || isPacked(a.type))
    return false;
  const [first, second] = [bytesOf(a), bytesOf(b)];
  return first.every((byte, at) => byte === second[at]);
}

/** The bytes of a contiguous view. */
function bytesOf(view: View): Uint8Array {
  const { buffer, byteOffset } = view.data as ByteStorage;
  return new Uint8Array(buffer, byteOffset + byteLengthOf(view.type, view.offset), view.byteLength);
}
