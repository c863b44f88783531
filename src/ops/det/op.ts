/** Det: determinants of square matrices. */
import { defineOp, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { unifyDims } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";
import { eachWithEach } from "../shared/rules/work.js";

/** The determinant of each matrix in X [..., M, M]. */
export const Det = defineOp({
  name: "Det",
  since: 11,
  types: { T: floats },
  inputs: { X: tensor("T") },
  outputs: { Y: tensor("T") },

  infer(call) {
    const { shape } = call.inputs.X;
    if (shape === undefined) return {};
    call.check(shape.length >= 2, `X must have at least 2 dimensions, got ${shape.length}`);
    unifyDims(call, shape.at(-2)!, shape.at(-1)!, "the matrices of X must be square");
    return { Y: { shape: shape.slice(0, -2) } };
  },

  work: ({ inputs: { X } }) => eachWithEach(X) * Math.max(1, Number(X.shape?.at(-1))),

  reference({ inputs, outputs }) {
    const size = inputs.X.shape.at(-1)!;
    const values = float64Scratch(inputs.X.size);
    values.set(readNumbers(inputs.X));
    const results = float64Scratch(outputs.Y.size);
    for (let i = 0; i < results.length; i++) {
      results[i] = determinant(values.subarray(i * size * size, (i + 1) * size * size), size);
    }
    writeNumbers(outputs.Y, results);
  },
});

/** Gaussian elimination with row pivots; destroys the matrix [size,size]. */
function determinant(matrix: Float64Array, size: number): number {
  let result = 1;
  for (let column = 0; column < size; column++) {
    let pivot = column;
    for (let row = column + 1; row < size; row++) {
      if (Math.abs(matrix[row * size + column]) > Math.abs(matrix[pivot * size + column])) pivot = row;
    }
    if (pivot !== column) {
      result = -result;
      for (let i = column; i < size; i++) {
        [matrix[pivot * size + i], matrix[column * size + i]] = [matrix[column * size + i], matrix[pivot * size + i]];
      }
    }
    const head = matrix[column * size + column];
    result *= head;
    if (head === 0) return result;
    for (let row = column + 1; row < size; row++) {
      const factor = matrix[row * size + column] / head;
      for (let i = column + 1; i < size; i++) matrix[row * size + i] -= factor * matrix[column * size + i];
    }
  }
  return result;
}
