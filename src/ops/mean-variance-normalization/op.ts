/** MeanVarianceNormalization: zero mean and unit variance over some axes. */
import { ints } from "../../graph/attribute.js";
import { reuse } from "../../graph/effect.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { mapRows, moments } from "../shared/loops/rows.js";
import { normalizeAxes } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";

/** What ONNX adds to the deviation, so that a constant row does not divide by 0. */
const epsilon = Math.fround(1e-9);

/** The axes, where none at all mean every one, as in ReduceMean. */
const chosen = (call: CallContext, axes: readonly number[], rank: number): number[] =>
  axes.length === 0 ? Array.from({ length: rank }, (_, axis) => axis) : normalizeAxes(call, axes, rank);

/** (X − mean) / (deviation + 1e-9) over `axes`. */
export const MeanVarianceNormalization = defineOp({
  name: "MeanVarianceNormalization",
  since: 9,
  types: { T: floats },
  inputs: { X: tensor("T") },
  outputs: { Y: tensor("T") },
  attrs: { axes: ints([0, 2, 3]) },
  effects: { Y: reuse("X") },

  infer(call) {
    const { shape } = call.inputs.X;
    if (shape !== undefined) chosen(call, call.attrs.axes, shape.length);
    return { Y: { shape } };
  },

  reference(call) {
    const { X } = call.inputs;
    mapRows(X, call.outputs.Y, chosen(call, call.attrs.axes, X.rank), (values, start, length, result) => {
      const { mean, variance } = moments(values, start, length);
      const deviation = Math.sqrt(variance) + epsilon;
      for (let i = start; i < start + length; i++) result[i] = (values[i] - mean) / deviation;
    });
  },
});
