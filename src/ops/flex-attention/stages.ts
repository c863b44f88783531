/** The stages of FlexAttention between its subgraphs, on dense arrays. */
import type { Numbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { View } from "../../tensor/view.js";
import { readRows } from "../attention/heads.js";
import { rounder } from "../attention/rounding.js";
import { softmaxRow } from "../attention/softmax.js";

/** Zeros, or an error where there is no memory for them. */
const zeros = (shape: readonly number[]): Float64Array => View.allocate("float64", shape).data as Float64Array;

/** √scale·Q · (√scale·K)ᵀ, [batch, heads, queries, keys], rounded to the type of Q. Query heads share key heads in groups. */
export function scaledProducts(Q: View, K: View, scale: number): Float64Array {
  const [batch, heads, queries, size] = Q.shape;
  const [, kvHeads, keys] = K.shape;
  const round = rounder(Q.type);
  const root = round(Math.sqrt(Math.abs(scale)));
  const products = zeros([batch, heads, queries, keys]);
  let at = 0;
  for (let sample = 0; sample < batch; sample++) {
    for (let head = 0; head < heads; head++) {
      const kvHead = Math.floor((head * kvHeads) / heads);
      const q = readRows([Q], sample, head, { from: 0, to: queries }).map((x) => round(x * root) * Math.sign(scale));
      const k = readRows([K], sample, kvHead, { from: 0, to: keys }).map((x) => round(x * root));
      for (let query = 0; query < queries; query++) {
        for (let key = 0; key < keys; key++) {
          let sum = 0;
          for (let i = 0; i < size; i++) sum += q[query * size + i] * k[key * size + i];
          products[at++] = round(sum);
        }
      }
    }
  }
  return products;
}

/** Softmax of each row of `keys` scores, in `type`; a row of −∞ alone has none and gives NaN. */
export function softmaxRows(scores: Numbers, keys: number, type: ElementType): Float64Array {
  const weights = zeros([scores.length]);
  for (let start = 0; start < scores.length; start += keys) {
    weights.set(softmaxRow(scores.subarray(start, start + keys), type), start);
  }
  return weights;
}

/** weights·V, [batch, heads, queries, value size], of weights [batch, heads, queries, keys]. */
export function weighedValues(weights: Numbers, V: View, shape: readonly number[]): Float64Array {
  const [batch, heads, queries, keys] = shape;
  const [, kvHeads, , size] = V.shape;
  const result = zeros([batch, heads, queries, size]);
  for (let sample = 0, row = 0; sample < batch; sample++) {
    for (let head = 0; head < heads; head++) {
      const v = readRows([V], sample, Math.floor((head * kvHeads) / heads), { from: 0, to: keys });
      for (let query = 0; query < queries; query++, row++) {
        for (let key = 0; key < keys; key++) {
          for (let i = 0; i < size; i++) result[row * size + i] += weights[row * keys + key] * v[key * size + i];
        }
      }
    }
  }
  return result;
}
