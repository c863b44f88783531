/** onnxruntime's Gelu family on WebGPU. */
import type { Operand } from "../../graph/kernel.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { type Elementwise, elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { BiasGelu, FastGelu, MicrosoftGelu, QuickGelu } from "./op.js";

/** Work on x, or on x + bias where there is one. */
const activated = (
  x: Operand,
  bias: Operand | undefined,
  output: Operand,
  apply: (sum: string) => string,
): Elementwise => ({
  name: "gelu",
  output,
  inputs: bias === undefined ? { x } : { x, bias },
  expression: apply(bias === undefined ? "x" : "x + bias"),
});

/** ½ · x · (1 + erf(x / √2)). */
export const microsoftGelu: WebgpuKernel = elementwiseKernel([MicrosoftGelu], ({ inputs: { X }, outputs: { Y } }) =>
  activated(X, undefined, Y, (x) => `gelu(${x})`),
);

/** Gelu of A + B. */
export const biasGelu: WebgpuKernel = elementwiseKernel([BiasGelu], ({ inputs: { A, B }, outputs: { C } }) =>
  activated(A, B, C, (x) => `gelu(${x})`),
);

/** Gelu's approximation by tanh. */
export const fastGelu: WebgpuKernel = elementwiseKernel([FastGelu], ({ inputs: { X, bias }, outputs: { Y } }) =>
  activated(X, bias, Y, (x) => `geluByTangent(${x})`),
);

/** x · sigmoid(alpha · x). */
export const quickGelu: WebgpuKernel = elementwiseKernel(
  [QuickGelu],
  ({ inputs: { X }, outputs: { Y }, attrs: { alpha } }) => ({
    ...activated(X, undefined, Y, (x) => `${x} * sigmoid(p.alpha * ${x})`),
    parameters: { alpha: { float: alpha } },
  }),
);
