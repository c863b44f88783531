/** Moving elements between views without looking at them: every type, packed and strings included. */
import { unreachable } from "../base/error.js";
import { type ByteStorage, type ElementType, traitsOf } from "./element-type.js";
import { packedBits, setPackedBits } from "./access.js";
import { forEachIndex, View } from "./view.js";

/** A function that copies `count` consecutive elements from one storage index to another. Overlap is right when both are the same storage. */
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
  if (bits < 8) {
    const source = from.data as Uint8Array;
    const target = to.data as Uint8Array;
    const perByte = 8 / bits;
    return (start, at, count) => {
      if (start % perByte === 0 && at % perByte === 0 && count % perByte === 0) {
        target.set(source.subarray(start / perByte, (start + count) / perByte), at / perByte);
      } else if (source === target && at > start) {
        for (let i = count - 1; i >= 0; i--) setPackedBits(target, bits, at + i, packedBits(source, bits, start + i));
      } else {
        for (let i = 0; i < count; i++) setPackedBits(target, bits, at + i, packedBits(source, bits, start + i));
      }
    };
  }
  const source = from.data as ByteStorage;
  const target = to.data as ByteStorage;
  const width = kind === "complex" ? 2 : 1;
  return (start, at, count) => {
    // Both arrays are of one class, since the types agree; `set` handles overlap.
    const rows = source.subarray(start * width, (start + count) * width);
    (target as { set(rows: ByteStorage, at: number): void }).set(rows, at * width);
  };
}

/** Copies all elements of `from` into `to`; shapes must agree, layouts may differ. */
export function copyView(from: View, to: View): void {
  if (from.size !== to.size) unreachable(`${from} copied into ${to}`);
  const copy = elementCopier(from, to);
  if (from.contiguous && to.contiguous) return copy(from.offset, to.offset, from.size);
  const { run, outer, fromInner, toInner } = splitRuns(from, to);
  const targets: number[] = [];
  forEachIndex(toInner, (index) => targets.push(index));
  if (outer === 0) return;
  forEachIndex(fromInner, (index, position) => copy(index, targets[position], run));
}

/** Splits off the longest trailing part that is contiguous in both views: it is copied as one run. */
function splitRuns(from: View, to: View): { run: number; outer: number; fromInner: View; toInner: View } {
  let axis = from.shape.length;
  let run = 1;
  while (axis > 0 && isStep(from, axis - 1, run) && isStep(to, axis - 1, run)) run *= from.shape[--axis];
  const head = from.shape.slice(0, axis);
  const fromInner = new View(from.type, head, from.data, from.offset, from.strides.slice(0, axis));
  const toInner = new View(to.type, head, to.data, to.offset, to.strides.slice(0, axis));
  return { run, outer: fromInner.size, fromInner, toInner };
}

const isStep = (view: View, axis: number, step: number): boolean => view.strides[axis] === step || view.shape[axis] === 1;

/** The view itself if it is contiguous, else a contiguous copy. */
export function contiguous(view: View): View {
  if (view.contiguous) return view;
  const copy = View.allocate(view.type, view.shape);
  copyView(view, copy);
  return copy;
}

/** A contiguous copy that shares nothing with the view. */
export function cloneView(view: View): View {
  const copy = View.allocate(view.type, view.shape);
  copyView(view, copy);
  return copy;
}
