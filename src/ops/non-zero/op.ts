/** NonZero: where a tensor is not zero. */
import { unknownDim } from "../../graph/dim.js";
import { defineOp, tensor } from "../../graph/op.js";
import { isWide, readBigInts, readNumbers, readStrings } from "../../tensor/access.js";
import { contiguous } from "../../tensor/copy.js";
import { traitsOf } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import { plainTypes } from "../shared/rules/plain-types.js";

/** Tells of a row-major position whether the element there is other than zero, false or the empty string. NaN is. */
function nonZeroTest(view: View): (position: number) => boolean {
  if (isWide(view.type)) {
    const values = readBigInts(view);
    return (position) => values[position] !== 0n;
  }
  const { kind } = traitsOf(view.type);
  if (kind === "string") {
    const values = readStrings(view);
    return (position) => values[position] !== "";
  }
  if (kind === "complex") {
    const plain = contiguous(view);
    const pairs = plain.data as Float32Array | Float64Array;
    return (position) => pairs[2 * (plain.offset + position)] !== 0 || pairs[2 * (plain.offset + position) + 1] !== 0;
  }
  const values = readNumbers(view);
  return (position) => values[position] !== 0;
}

/** The coordinates of elements that are not zero, one row a dimension of `X`. A scalar has none: [0, 1] or [0, 0]. */
export const NonZero = defineOp({
  name: "NonZero",
  since: 9,
  types: { T: plainTypes },
  inputs: { X: tensor("T") },
  outputs: { Y: tensor("int64") },
  infer({ inputs }) {
    const { shape } = inputs.X;
    return { Y: { shape: [shape?.length ?? unknownDim(), unknownDim()] } };
  },
  reference(call) {
    const { X } = call.inputs;
    const test = nonZeroTest(X);
    let count = 0;
    for (let position = 0; position < X.size; position++) if (test(position)) count++;
    const output = call.allocate("Y", [X.rank, count]);
    const found = output.data as BigInt64Array;
    for (let position = 0, column = 0; position < X.size; position++) {
      if (!test(position)) continue;
      for (let axis = X.rank - 1, rest = position; axis >= 0; axis--) {
        found[output.offset + axis * count + column] = BigInt(rest % X.shape[axis]);
        rest = Math.floor(rest / X.shape[axis]);
      }
      column++;
    }
  },
});
