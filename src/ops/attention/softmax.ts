/** Softmax of one row in the precision of a type: every step is rounded to it, as if it were stored between steps. */
import type { ElementType } from "../../tensor/element-type.js";
import { rounder } from "./rounding.js";

/**
 * The softmax of `logits`, computed in `type`. `first` is where the row starts within a longer one whose other elements are −∞. A sink is a logit
 * more that takes part and has no weight of its own.
 */
export function softmaxRow(logits: ArrayLike<number>, type: ElementType, first = 0, sink = -Infinity): Float64Array {
  const round = rounder(type);
  const weights = Float64Array.from(logits, round);
  const greatest = weights.reduce((a, b) => Math.max(a, b), round(sink));
  for (let i = 0; i < weights.length; i++) weights[i] = round(Math.exp(round(weights[i] - greatest)));
  const beside = sink === -Infinity ? 0 : round(Math.exp(round(round(sink) - greatest)));
  const sum = round(sumOf(weights, type, first) + beside);
  for (let i = 0; i < weights.length; i++) weights[i] = round(weights[i] / sum);
  return weights;
}

/**
 * ONNX's reference adds bfloat16 one by one in bfloat16, and its cases compare finer than the type resolves: runs of eight are
 * added that way. Beyond, the sum would stop growing at 256 times its parts, so runs are joined exactly. Other types add exactly.
 */
function sumOf(weights: Float64Array, type: ElementType, first: number): number {
  if (type !== "bfloat16") return weights.reduce((a, b) => a + b, 0);
  const round = rounder(type);
  let total = 0;
  let run = 0;
  weights.forEach((weight, i) => {
    if ((first + i) % 8 === 0) [total, run] = [total + run, 0];
    run = round(run + weight);
  });
  return total + run;
}
