/** Functions of one operand on WASM: floats in float32 where that is enough, else exactly. */
import type { CallOf, Operand } from "../../graph/kernel.js";
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { elements, type ElementsCall, kindOf } from "../shared/wasm/elements.js";
import { apply, type Assignment, elementwise, operand, type Operation } from "../shared/wasm/elementwise.js";
import { Abs, Ceil, Cos, Erf, Exp, Floor, Neg, Reciprocal, Round, Sign, Sin, Sqrt, Tanh } from "./op.js";

interface Mapping {
  readonly x: Operand;
  readonly y: Operand;
}

/** ONNX names operand and result of some X and Y, of others input and output. */
const capital = ({ inputs: { X }, outputs: { Y } }: CallOf<typeof Abs>): Mapping => ({ x: X, y: Y });
const small = ({ inputs: { input }, outputs: { output } }: CallOf<typeof Tanh>): Mapping => ({ x: input, y: output });

const inFloats = ({ x, y }: Mapping, operation: Operation): Assignment => ({
  output: y,
  value: apply(operation, operand(x)),
});

const exactly = ({ x, y }: Mapping, operation: ElementsCall["operation"]): ElementsCall => ({
  operation,
  kind: kindOf(x.type),
  inputs: [x],
  output: y,
});

/** By the kernel's own sine, which is as exact as float32 asks. */
const angular = ({ x, y }: Mapping, operation: "sine" | "cosine"): ElementsCall | string =>
  x.type === "float64" ? "there is no kernel for float64" : { operation, kind: "double", inputs: [x], output: y };

/** |X|. */
export const absolute: readonly WasmKernel[] = [
  elementwise([Abs], (call) => inFloats(capital(call), "absolute")),
  elements([Abs], (call) => exactly(capital(call), "absolute")),
];

/** −X. */
export const negate: readonly WasmKernel[] = [
  elementwise([Neg], (call) => inFloats(capital(call), "negate")),
  elements([Neg], (call) => exactly(capital(call), "negate")),
];

/** −1, 0 or 1. */
export const sign: WasmKernel = elements([Sign], (call) => exactly(small(call), "sign"));

/** The greatest integer that is not above. */
export const floor: WasmKernel = elements([Floor], (call) => exactly(capital(call), "floor"));

/** The least integer that is not below. */
export const ceiling: WasmKernel = elements([Ceil], (call) => exactly(capital(call), "ceiling"));

/** The nearest integer, ties to even. */
export const round: WasmKernel = elements([Round], (call) => exactly(capital(call), "round"));

/** Sine. */
export const sine: WasmKernel = elements([Sin], (call) => angular(small(call), "sine"));

/** Cosine. */
export const cosine: WasmKernel = elements([Cos], (call) => angular(small(call), "cosine"));

/** 1 / X. */
export const reciprocal: WasmKernel = elementwise([Reciprocal], (call) => inFloats(capital(call), "reciprocal"));

/** Square root. */
export const squareRoot: WasmKernel = elementwise([Sqrt], (call) => inFloats(capital(call), "squareRoot"));

/** Exponential. */
export const exponential: WasmKernel = elementwise([Exp], (call) => inFloats(small(call), "exponential"));

/** Hyperbolic tangent. */
export const tanh: WasmKernel = elementwise([Tanh], (call) => inFloats(small(call), "tanh"));

/** The error function. */
export const errorFunction: WasmKernel = elementwise([Erf], (call) => inFloats(small(call), "errorFunction"));
