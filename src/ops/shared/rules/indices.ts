/** Reading index tensors: negative indices counted from the end, every index checked before anything is written. */
import { isKnown, type Shape, shapeText } from "../../../graph/dim.js";
import { type Fact, knownView } from "../../../graph/fact.js";
import type { CallContext } from "../../../graph/op.js";
import { isWide, readBigInts, readNumbers } from "../../../tensor/access.js";
import type { ByteStorage } from "../../../tensor/element-type.js";
import type { View } from "../../../tensor/view.js";

/** `[1,0]`: the coordinates of a row-major position. */
function coordinates(shape: readonly number[], position: number): string {
  const result: number[] = [];
  let rest = position;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    result.unshift(rest % shape[axis]);
    rest = Math.floor(rest / shape[axis]);
  }
  return `[${result.join(",")}]`;
}

/** Fails for indices, an index an element, that have another rank than the data or are longer along another axis than theirs. */
export function checkIndexShape(call: CallContext, indices: Shape, data: Shape, axis: number): void {
  call.check(
    data.length === indices.length,
    () => `data ${shapeText(data)} and indices ${shapeText(indices)} must have the same rank`,
  );
  indices.forEach((dim, at) => {
    const size = data[at];
    call.check(
      at === axis || !isKnown(dim) || !isKnown(size) || dim <= size,
      () => `indices ${shapeText(indices)} must not exceed data ${shapeText(data)} in dimension ${at}`,
    );
  });
}

/** Fails where `readIndices` would, as far as the indices are known. `sizes` are those of the dimensions they point into, by turns. */
export function checkIndices(call: CallContext, name: string, indices: Fact, sizes: readonly number[]): void {
  const view = knownView(indices);
  if (view === undefined || lieWithin(view, sizes)) return;
  readIndices(call, name, view, (position) => sizes[position % sizes.length]);
}

/** True if it is plain from the bytes alone that all indices are in range: what is asked before every run, without an allocation. */
function lieWithin(view: View, sizes: readonly number[]): boolean {
  if ((view.type !== "int64" && view.type !== "int32") || !view.contiguous) return false;
  const { buffer, byteOffset } = view.data as ByteStorage;
  const step = view.type === "int64" ? 2 : 1;
  const words = new Int32Array(buffer, byteOffset + view.offset * step * 4, view.size * step);
  for (let at = 0, axis = 0; at < words.length; at += step) {
    const value = words[at];
    // Of two words the lower one comes first; what does not fit into it is out of range.
    if ((step === 2 && words[at + 1] !== value >> 31) || value < -sizes[axis] || value >= sizes[axis]) return false;
    if (++axis === sizes.length) axis = 0;
  }
  return true;
}

/**
 * The indices of a view in row-major order, each counted from the front. `boundOf` tells the size of the dimension that the
 * index at a position points into. Fails for the first index outside [−bound, bound).
 */
export function readIndices(
  call: CallContext,
  name: string,
  view: View,
  boundOf: (position: number) => number,
): Float64Array {
  const source = isWide(view.type) ? readBigInts(view) : readNumbers(view);
  const result = new Float64Array(view.size);
  for (let position = 0; position < result.length; position++) {
    const bound = boundOf(position);
    const index = Number(source[position]);
    const normalized = index < 0 ? index + bound : index;
    if (!(normalized >= 0 && normalized < bound)) {
      const range = bound === 0 ? "point into a dimension that has elements" : `lie in [${-bound}, ${bound - 1}]`;
      call.fail(
        `${name}${coordinates(view.shape, position)} must ${range}, got ${source[position]}`,
        "invalid-argument",
      );
    }
    result[position] = normalized;
  }
  return result;
}
