/** Functions of one operand on WASM, on floats. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { apply, elementwise, operand, type Operation } from "../wasm-elementwise.js";

const unary = (op: string, operation: Operation): WasmKernel =>
  elementwise(op, ({ inputs: [x] }) => apply(operation, operand(x!)));

/** |X|. */
export const absolute: WasmKernel = unary("Abs", "absolute");

/** −X. */
export const negate: WasmKernel = unary("Neg", "negate");

/** 1 / X. */
export const reciprocal: WasmKernel = unary("Reciprocal", "reciprocal");

/** Square root. */
export const squareRoot: WasmKernel = unary("Sqrt", "squareRoot");

/** Exponential. */
export const exponential: WasmKernel = unary("Exp", "exponential");

/** Hyperbolic tangent. */
export const tanh: WasmKernel = unary("Tanh", "tanh");

/** The error function. */
export const errorFunction: WasmKernel = unary("Erf", "errorFunction");
