/** onnxruntime's Gelu family on WASM. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { scaledSigmoid } from "../wasm-activations.js";
import { apply, elementwise, type Expression, operand } from "../wasm-elementwise.js";

const domain = "com.microsoft";

/** X, with the bias added where there is one. */
const biased = ({ inputs: [x, bias] }: KernelCall): Expression =>
  bias === undefined ? operand(x!) : apply("add", operand(x!), operand(bias));

/** ½ · x · (1 + erf(x / √2)). */
export const microsoftGelu: WasmKernel = elementwise("Gelu", (call) => apply("gelu", biased(call)), domain);

/** Gelu of A + B. */
export const biasGelu: WasmKernel = elementwise("BiasGelu", (call) => apply("gelu", biased(call)), domain);

/** Gelu's approximation by tanh. */
export const fastGelu: WasmKernel = elementwise("FastGelu", (call) => apply("geluTanh", biased(call)), domain);

/** x · sigmoid(alpha · x). */
export const quickGelu: WasmKernel = elementwise(
  "QuickGelu",
  ({ inputs: [x], attrs }) => scaledSigmoid(operand(x!), attrs["alpha"] as number),
  domain,
);
