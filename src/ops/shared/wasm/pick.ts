/** Gathering and scattering by index as jobs: what the fast paths of both families share. Runs of whole bytes, of any type. */
import type { Operand } from "../../../graph/kernel.js";
import type { Recorder } from "../../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf, traitsOf } from "../../../tensor/element-type.js";
import { rowMajorStrides } from "../../../tensor/view.js";
import { pointsInto } from "./indices.js";
import { productOf } from "../rules/layout.js";
import { partsFor } from "./work.js";

/** The operands of a move by index. */
export interface Picking {
  /** What indices point into. */
  readonly data: Operand;
  readonly indices: Operand;
  /** What lies in the order of the indices. */
  readonly other: Operand;
  /** True where `other` is written into `data`; false where it is gathered from there. */
  readonly scatters: boolean;
}

/** True if all operands lie together and runs of `elements` are whole bytes, else why not. */
export function pickable({ data, indices, other }: Picking, elements: number): true | string {
  const { type } = data;
  if (type === "string") return "strings live outside the memory";
  if (!data.contiguous || !indices.contiguous || !other.contiguous) return "data or indices have gaps";
  return (elements * traitsOf(type).bits) % 8 === 0 ? true : `runs of ${elements} ${type} are not whole bytes`;
}

/** Runs that tuples of indices point at, after dimensions that go along. */
export interface Runs {
  /** Dimensions of data that go along. */
  readonly batch: number;
  /** Dimensions that a tuple points into. */
  readonly depth: number;
  /** True if every sample has tuples of its own. */
  readonly own: boolean;
}

/** Elements of one run. */
export const runElementsOf = ({ shape }: Operand, { batch, depth }: Runs): number =>
  productOf(shape.slice(batch + depth));

/** Queues the move of runs; indices that point outside are left to the reference implementation. */
export function recordRuns(recorder: Recorder, { data, indices, other, scatters }: Picking, runs: Runs): void {
  const { batch, depth, own } = runs;
  const sizes = data.shape.slice(batch, batch + depth);
  if (other.view.size === 0) return;
  const width = byteLengthOf(data.type, runElementsOf(data, runs));
  const strides = rowMajorStrides(sizes).map((stride) => stride * width);
  const samples = productOf(data.shape.slice(0, batch));
  const rows = indices.view.size / depth / (own ? samples : 1);
  recorder.run(
    scatters ? "scatterRuns" : "gatherRuns",
    {
      data: recorder.address(data),
      indices: recorder.address(indices),
      output: recorder.address(other),
      indexBytes: byteLengthOf(indices.type, 1),
      width,
      batch: samples,
      rows,
      depth,
      layout: recorder.words([...sizes, ...strides].map((word) => ({ word }))),
      dataSample: productOf(sizes) * width,
      indexSample: own ? rows : 0,
    },
    scatters ? 1 : partsFor(recorder, samples * rows * (5 + 2 * depth + width * 0.1)),
  );
}

/** Tests before each run that the indices of runs point into the data. */
export const testRuns = (recorder: Recorder, { data, indices }: Picking, { batch, depth }: Runs): void =>
  recorder.when(pointsInto(indices, data.shape.slice(batch, batch + depth)));

/** Queues the move of single elements, at the coordinates of their index but for the axis. */
export function recordAlong(recorder: Recorder, { data, indices, other, scatters }: Picking, axis: number): void {
  if (other.view.size === 0) return;
  const width = byteLengthOf(data.type, 1);
  const strides = data.strides.map((stride, at) => (at === axis ? 0 : stride * width));
  recorder.run(
    scatters ? "scatterAlong" : "gatherAlong",
    {
      data: recorder.address(data),
      indices: recorder.address(indices),
      output: recorder.address(other),
      indexBytes: byteLengthOf(indices.type, 1),
      width,
      rank: other.shape.length,
      layout: recorder.words([...other.shape, ...strides].map((word) => ({ word }))),
      rows: productOf(other.shape.slice(0, -1)),
      axisSize: data.shape[axis],
      axisStride: data.strides[axis] * width,
    },
    scatters ? 1 : partsFor(recorder, other.view.size * 2),
  );
}

/** Tests before each run that indices along an axis point into the data. */
export const testAlong = (recorder: Recorder, { data, indices }: Picking, axis: number): void =>
  recorder.when(pointsInto(indices, [data.shape[axis]]));
