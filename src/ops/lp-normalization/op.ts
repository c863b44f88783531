/** LpNormalization: divides by the L1 or L2 norm along an axis. */
import { int } from "../../graph/attribute.js";
import { reuse } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import { mapRows } from "../shared/loops/rows.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";

/** input / ‖input‖ₚ along `axis`; rows whose norm is 0 stay 0. ONNX's own reference sums signed values for p = 1; a norm sums absolute ones. */
export const LpNormalization = defineOp({
  name: "LpNormalization",
  since: 1,
  types: { T: floats },
  inputs: { input: tensor("T") },
  outputs: { output: tensor("T") },
  attrs: { axis: int(-1), p: int(2) },
  effects: { output: reuse("input") },

  infer(call) {
    const { shape } = call.inputs.input;
    const { axis, p } = call.attrs;
    call.check(p === 1 || p === 2, `p must be 1 or 2, got ${p}`, "invalid-argument");
    if (shape !== undefined) normalizeAxis(call, axis, shape.length);
    return { output: { shape } };
  },

  reference(call) {
    const { input } = call.inputs;
    const axis = normalizeAxis(call, call.attrs.axis, input.rank);
    mapRows(input, call.outputs.output, [axis], (values, start, length, result) => {
      let sum = 0;
      for (let i = start; i < start + length; i++)
        sum += call.attrs.p === 1 ? Math.abs(values[i]) : values[i] * values[i];
      const norm = call.attrs.p === 1 ? sum : Math.sqrt(sum);
      for (let i = start; i < start + length; i++) result[i] = norm === 0 ? 0 : values[i] / norm;
    });
  },
});
