/** onnxruntime's Gelu family on WebGPU. */
import type { Operand } from "../../graph/kernel.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { type Elementwise, elementwiseKernel } from "../shared/webgpu/elementwise.js";
import type { FunctionName } from "../shared/webgpu/functions.js";
import { BiasGelu, FastGelu, MicrosoftGelu, QuickGelu } from "./op.js";

/** Work on x, or on x + bias where there is one. */
const activated = (
  x: Operand,
  bias: Operand | undefined,
  output: Operand,
  call: FunctionName,
  apply: (sum: string) => string = (sum) => `${call}(${sum})`,
): Elementwise => ({
  name: "gelu",
  output,
  inputs: bias === undefined ? { x } : { x, bias },
  calls: [call],
  expression: apply(bias === undefined ? "x" : "x + bias"),
});

/** ½ · x · (1 + erf(x / √2)). */
export const microsoftGelu: WebgpuKernel = elementwiseKernel([MicrosoftGelu], ({ inputs: { X }, outputs: { Y } }) =>
  activated(X, undefined, Y, "gelu"),
);

/** Gelu of A + B. */
export const biasGelu: WebgpuKernel = elementwiseKernel([BiasGelu], ({ inputs: { A, B }, outputs: { C } }) =>
  activated(A, B, C, "gelu"),
);

/** Gelu's approximation by tanh. */
export const fastGelu: WebgpuKernel = elementwiseKernel([FastGelu], ({ inputs: { X, bias }, outputs: { Y } }) =>
  activated(X, bias, Y, "geluByTangent"),
);

/** x · sigmoid(alpha · x). */
export const quickGelu: WebgpuKernel = elementwiseKernel(
  [QuickGelu],
  ({ inputs: { X }, outputs: { Y }, attrs: { alpha } }) => ({
    ...activated(X, undefined, Y, "sigmoid", (x) => `${x} * sigmoid(p.alpha * ${x})`),
    parameters: { alpha: { float: alpha } },
  }),
);
