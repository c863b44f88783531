/** LpNormalization on WebGPU. */
import type { Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import { acceptsRows, mapRows, type RowWork } from "../shared/webgpu/row-phases.js";
import { LpNormalization } from "./op.js";

/** What a row is divided by before it is summed, so that squares stay in range: its largest element, unless that is infinite. */
const scale = "select(m0, 1.0, m0 > 3.4e38 || m0 == 0.0)";

const normalized = (input: Operand, output: Operand, axis: number, power: number): RowWork => ({
  name: "lpNormalization",
  input,
  output,
  axes: [fromFront(axis, input.shape)],
  phases: [
    { initial: "0.0", term: "abs(x)", combine: (a, b) => `max(${a}, ${b})` },
    {
      initial: "0.0",
      term: power === 1 ? `abs(x / ${scale})` : `(x / ${scale}) * (x / ${scale})`,
      combine: (a, b) => `${a} + ${b}`,
    },
  ],
  result: `select(x / ${scale} / ${power === 1 ? "m1" : "sqrt(m1)"}, 0.0, m1 == 0.0)`,
});

/** input / ‖input‖ₚ along `axis`; rows whose norm is 0 stay 0. */
export const lpNormalization: WebgpuKernel = webgpuKernel([LpNormalization], {
  accepts: ({ inputs: { input }, outputs: { output }, attrs: { axis, p } }) =>
    output.place.size === 0 ? true : acceptsRows(normalized(input, output, axis, p)),
  record({ inputs: { input }, outputs: { output }, attrs: { axis, p } }, recorder) {
    if (output.place.size > 0) mapRows(normalized(input, output, axis, p), recorder);
  },
});
