/** The writes behind the scattering operators. Every index is read and checked before the first element is written. */
import type { CallContext } from "../../graph/op.js";
import { contiguous } from "../../tensor/copy.js";
import { readIntegers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { readIndices } from "../shared/rules/indices.js";
import { apartFrom, copyUnlessShared } from "../shared/loops/share.js";
import { combinerOf, type Reduction } from "./reduction.js";

/** What a scattering operator reads. */
interface ScatterOperands {
  readonly data: View;
  readonly indices: View;
  readonly updates: View;
}

/** Writes each update to the element at its own coordinates, with the index along `axisGiven`; duplicates come in order. */
export function scatterElements(
  call: CallContext,
  { data, indices, updates }: ScatterOperands,
  output: View,
  axisGiven: number,
  reduction: Reduction,
): void {
  const axis = axisGiven < 0 ? axisGiven + data.rank : axisGiven;
  const places = readIndices(call, "indices", indices, () => data.shape[axis]);
  const source = contiguous(apartFrom(updates, output));
  copyUnlessShared(data, output);
  const combine = combinerOf(reduction, source, output);
  const { shape } = updates;
  const counter = shape.map(() => 0);
  let base = output.offset; // of the coordinates, the axis left out
  for (let position = 0; position < source.size; position++) {
    combine(source.offset + position, base + places[position] * output.strides[axis], 1);
    for (let at = shape.length - 1; at >= 0; at--) {
      const step = at === axis ? 0 : output.strides[at];
      base += step;
      if (++counter[at] < shape[at]) break;
      base -= step * shape[at];
      counter[at] = 0;
    }
  }
}

/** Writes each run of updates where its row of indices points; duplicates come in order. */
export function scatterRuns(
  call: CallContext,
  { data, indices, updates }: ScatterOperands,
  output: View,
  reduction: Reduction,
): void {
  const width = indices.shape.at(-1)!;
  const places = readIndices(call, "indices", indices, (position) => data.shape[position % width]);
  const source = contiguous(apartFrom(updates, output));
  copyUnlessShared(data, output);
  const combine = combinerOf(reduction, source, output);
  const run = data.shape.slice(width).reduce((size, dim) => size * dim, 1);
  const rows = places.length / width;
  for (let row = 0; row < rows; row++) {
    let start = output.offset;
    for (let at = 0; at < width; at++) start += places[row * width + at] * output.strides[at];
    combine(source.offset + row * run, start, run);
  }
}

/** The slices along an axis that indices name, each once: they hold every element that ScatterElements writes. */
export function writtenSlices(indices: View, output: View, axisGiven: number): View[] {
  const axis = axisGiven < 0 ? axisGiven + output.rank : axisGiven;
  const size = output.shape[axis];
  const named = new Set(readIntegers(indices).map((index) => (index < 0 ? index + size : index)));
  return [...named].map((index) => output.slice(axis, index, index + 1));
}

/** The runs that rows of indices point at, each once: what ScatterND writes. */
export function writtenRuns(indices: View, output: View): View[] {
  const width = indices.shape.at(-1)!;
  const rest = output.shape.slice(width);
  const places = readIntegers(indices);
  const offsets = new Set<number>();
  for (let row = 0; row * width < places.length; row++) {
    let offset = output.offset;
    for (let axis = 0; axis < width; axis++) {
      const index = places[row * width + axis];
      offset += (index < 0 ? index + output.shape[axis] : index) * output.strides[axis];
    }
    offsets.add(offset);
  }
  return [...offsets].map((offset) => new View(output.type, rest, output.data, offset, output.strides.slice(width)));
}
