/** Activation functions on WASM, on floats. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { apply, elementwise, type Expression, number, operand, type Operation } from "../wasm-elementwise.js";
import { scaledSigmoid } from "../wasm-activations.js";

const unary = (op: string, operation: Operation): WasmKernel =>
  elementwise(op, ({ inputs: [x] }) => apply(operation, operand(x!)));

/** max(0, min(1, alpha·x + beta)). */
const hardSigmoidOf = (x: Expression, alpha: number, beta: number): Expression =>
  apply(
    "maximum",
    apply("minimum", apply("add", apply("multiply", x, number(alpha)), number(beta)), number(1)),
    number(0),
  );

/** max(0, x). */
export const relu: WasmKernel = unary("Relu", "relu");

/** 1 / (1 + e^(−x)). */
export const sigmoid: WasmKernel = unary("Sigmoid", "sigmoid");

/** ln(1 + e^x). */
export const softplus: WasmKernel = unary("Softplus", "softplus");

/** x·Φ(x), or its approximation by tanh. */
export const gelu: WasmKernel = elementwise("Gelu", ({ inputs: [x], attrs }) =>
  apply(attrs["approximate"] === "tanh" ? "geluTanh" : "gelu", operand(x!)),
);

/** x·sigmoid(alpha·x). */
export const swish: WasmKernel = elementwise("Swish", ({ inputs: [x], attrs }) =>
  scaledSigmoid(operand(x!), attrs["alpha"] as number),
);

/** A·sigmoid(alpha·A)·B. */
export const swiglu: WasmKernel = elementwise("SwiGLU", ({ inputs: [a, b], attrs }) =>
  apply("multiply", scaledSigmoid(operand(a!), attrs["alpha"] as number), operand(b!)),
);

/** max(0, min(1, alpha·x + beta)). */
export const hardSigmoid: WasmKernel = elementwise("HardSigmoid", ({ inputs: [x], attrs }) =>
  hardSigmoidOf(operand(x!), attrs["alpha"] as number, attrs["beta"] as number),
);

/** x·max(0, min(1, x/6 + ½)). */
export const hardSwish: WasmKernel = elementwise("HardSwish", ({ inputs: [input] }) => {
  const x = operand(input!);
  return apply("multiply", x, hardSigmoidOf(x, 1 / 6, 0.5));
});

/** x·tanh(softplus(x)). */
export const mish: WasmKernel = elementwise("Mish", ({ inputs: [input] }) => {
  const x = operand(input!);
  return apply("multiply", x, apply("tanh", apply("softplus", x)));
});

/** x / (1 + |x|). */
export const softsign: WasmKernel = elementwise("Softsign", ({ inputs: [input] }) => {
  const x = operand(input!);
  return apply("divide", x, apply("add", apply("absolute", x), number(1)));
});
