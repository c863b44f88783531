/** Reading index tensors: negative indices counted from the end, every index checked before anything is written. */
import type { CallContext } from "../graph/op.js";
import { isWide, readBigInts, readNumbers } from "../tensor/access.js";
import type { View } from "../tensor/view.js";

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
