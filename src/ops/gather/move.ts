/** The moves behind the gathering operators. Indices are counted from the front and lie in range. */
import { contiguous, elementCopier } from "../../tensor/copy.js";
import { rowMajorStrides, type View } from "../../tensor/view.js";

const product = (dims: readonly number[]): number => dims.reduce((size, dim) => size * dim, 1);

/** Copies slice `indices[i]` of `data` along `axis` to slice i of `output`, which has `indices` in the place of the axis. */
export function gatherSlices(data: View, output: View, axis: number, indices: ArrayLike<number>): void {
  const source = contiguous(data);
  const outer = product(data.shape.slice(0, axis));
  const inner = product(data.shape.slice(axis + 1));
  const size = data.shape[axis];
  const copy = elementCopier(source, output);
  let target = output.offset;
  for (let row = 0; row < outer; row++) {
    for (let i = 0; i < indices.length; i++, target += inner) {
      copy(source.offset + (row * size + indices[i]) * inner, target, inner);
    }
  }
}

/** Copies to each place of `output` the element of `data` at the same coordinates, with the index along `axis`. */
export function gatherElements(data: View, output: View, axis: number, indices: ArrayLike<number>): void {
  const { shape } = output;
  const copy = elementCopier(data, output);
  const counter = shape.map(() => 0);
  let base = data.offset; // of the coordinates, the axis left out
  for (let position = 0; position < output.size; position++) {
    copy(base + indices[position] * data.strides[axis], output.offset + position, 1);
    for (let at = shape.length - 1; at >= 0; at--) {
      const step = at === axis ? 0 : data.strides[at];
      base += step;
      if (++counter[at] < shape[at]) break;
      base -= step * shape[at];
      counter[at] = 0;
    }
  }
}

/** Copies the run of elements that each row of `width` indices points at, after `batch` dimensions that go along. */
export function gatherRuns(data: View, output: View, batch: number, width: number, indices: ArrayLike<number>): void {
  const source = contiguous(data);
  const strides = rowMajorStrides(data.shape);
  const run = product(data.shape.slice(batch + width));
  const rows = indices.length / width;
  const rowsPerSample = rows / product(data.shape.slice(0, batch));
  const sampleSize = product(data.shape.slice(batch));
  const copy = elementCopier(source, output);
  for (let row = 0; row < rows; row++) {
    let start = source.offset + Math.floor(row / rowsPerSample) * sampleSize;
    for (let at = 0; at < width; at++) start += indices[row * width + at] * strides[batch + at];
    copy(start, output.offset + row * run, run);
  }
}
