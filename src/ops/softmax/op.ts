/** Softmax and LogSoftmax. Before opset 13 a row is everything from `axis` on; since then it lies along one axis. */
import { int } from "../../graph/attribute.js";
import { reuse } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import type { ElementType } from "../../tensor/element-type.js";
import { softmaxRow as steppedSoftmax } from "../attention/softmax.js";
import { classicFloats } from "../shared/rules/plain-types.js";
import { mapRows, type RowRule } from "../shared/loops/rows.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";

/** The row's greatest element, taken away before the exponentials so that none overflows. */
function greatestOf(values: ArrayLike<number>, start: number, length: number): number {
  let greatest = -Infinity;
  for (let i = start; i < start + length; i++) greatest = Math.max(greatest, values[i]);
  return greatest;
}

/** exp(x) / Σ exp(x) */
const softmaxRow: RowRule = (values, start, length, result) => {
  const greatest = greatestOf(values, start, length);
  let sum = 0;
  for (let i = start; i < start + length; i++) sum += result[i] = Math.exp(values[i] - greatest);
  for (let i = start; i < start + length; i++) result[i] /= sum;
};

/**
 * The same for 16-bit floats: every step is stored in the type, as in the function that ONNX defines Softmax by, so that
 * Attention and its expansion agree.
 */
const steppedRow =
  (type: ElementType): RowRule =>
  (values, start, length, result) =>
    result.set(steppedSoftmax(values.subarray(start, start + length), type), start);

const softmaxRule = (type: ElementType): RowRule =>
  type === "float16" || type === "bfloat16" ? steppedRow(type) : softmaxRow;

/** x − log Σ exp(x) */
const logSoftmaxRow: RowRule = (values, start, length, result) => {
  const greatest = greatestOf(values, start, length);
  let sum = 0;
  for (let i = start; i < start + length; i++) sum += Math.exp(values[i] - greatest);
  const log = Math.log(sum);
  for (let i = start; i < start + length; i++) result[i] = values[i] - greatest - log;
};

/** One of the family; `coerced` joins all axes from `axis` on to a row. */
function family(name: string, since: number, coerced: boolean, ruleOf: (type: ElementType) => RowRule) {
  return defineOp({
    name,
    since,
    // bfloat16 came with the version that no longer joins axes.
    types: { T: coerced ? classicFloats : floats },
    inputs: { input: tensor("T") },
    outputs: { output: tensor("T") },
    attrs: { axis: int(coerced ? 1 : -1) },
    effects: { output: reuse("input") },

    infer(call) {
      const { shape } = call.inputs.input;
      if (shape !== undefined) {
        call.check(shape.length > 0, "input must have at least 1 dimension, got a scalar");
        normalizeAxis(call, call.attrs.axis, shape.length);
      }
      return { output: { shape } };
    },

    reference(call) {
      const { input } = call.inputs;
      const axis = normalizeAxis(call, call.attrs.axis, input.rank);
      const axes = coerced ? Array.from({ length: input.rank - axis }, (_, i) => axis + i) : [axis];
      mapRows(input, call.outputs.output, axes, ruleOf(input.type));
    },
  });
}

/** Softmax over everything from `axis` on. */
export const Softmax1 = family("Softmax", 1, true, softmaxRule);
/** Softmax along `axis`. */
export const Softmax13 = family("Softmax", 13, false, softmaxRule);
/** The logarithm of softmax over everything from `axis` on. */
export const LogSoftmax1 = family("LogSoftmax", 1, true, () => logSoftmaxRow);
/** The logarithm of softmax along `axis`. */
export const LogSoftmax13 = family("LogSoftmax", 13, false, () => logSoftmaxRow);
