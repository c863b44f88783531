/** onnxruntime's Gelu family on WASM. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { scaledSigmoid } from "../shared/wasm/activations.js";
import { apply, elementwise, operand } from "../shared/wasm/elementwise.js";
import { BiasGelu, FastGelu, MicrosoftGelu, QuickGelu } from "./op.js";

/** ½ · x · (1 + erf(x / √2)). */
export const microsoftGelu: WasmKernel = elementwise([MicrosoftGelu], ({ inputs: { X }, outputs: { Y } }) => ({
  output: Y,
  value: apply("gelu", operand(X)),
}));

/** Gelu of A + B. */
export const biasGelu: WasmKernel = elementwise([BiasGelu], ({ inputs: { A, B }, outputs: { C } }) => ({
  output: C,
  value: apply("gelu", apply("add", operand(A), operand(B))),
}));

/** Gelu's approximation by tanh, of X or of X + bias. */
export const fastGelu: WasmKernel = elementwise([FastGelu], ({ inputs: { X, bias }, outputs: { Y } }) => ({
  output: Y,
  value: apply("geluTanh", bias === undefined ? operand(X) : apply("add", operand(X), operand(bias))),
}));

/** x · sigmoid(alpha · x). */
export const quickGelu: WasmKernel = elementwise(
  [QuickGelu],
  ({ inputs: { X }, outputs: { Y }, attrs: { alpha } }) => ({
    output: Y,
    value: scaledSigmoid(operand(X), alpha),
  }),
);
