/** Functions of one operand on WASM: floats in float32 where that is enough, else exactly. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { elements, type ElementsCall, kindOf } from "../wasm-elements.js";
import { apply, elementwise, operand, type Operation } from "../wasm-elementwise.js";

const unary = (op: string, operation: Operation): WasmKernel =>
  elementwise(op, ({ inputs: [x] }) => apply(operation, operand(x!)));

const exactly = (op: string, operation: ElementsCall["operation"]): WasmKernel =>
  elements(op, ({ inputs: [x], outputs: [y] }) => ({ operation, kind: kindOf(x!.type), inputs: [x!], output: y! }));

/** By the kernel's own sine, which is as exact as float32 asks. */
const angular = (op: string, operation: "sine" | "cosine"): WasmKernel =>
  elements(op, ({ inputs: [x], outputs: [y] }) =>
    x!.type === "float64" ? "there is no kernel for float64" : { operation, kind: "double", inputs: [x!], output: y! },
  );

/** |X|. */
export const absolute: WasmKernel = unary("Abs", "absolute");

/** |X| of integers and float64. */
export const absoluteExactly: WasmKernel = exactly("Abs", "absolute");

/** −X. */
export const negate: WasmKernel = unary("Neg", "negate");

/** −X of integers and float64. */
export const negateExactly: WasmKernel = exactly("Neg", "negate");

/** −1, 0 or 1. */
export const sign: WasmKernel = exactly("Sign", "sign");

/** The greatest integer that is not above. */
export const floor: WasmKernel = exactly("Floor", "floor");

/** The least integer that is not below. */
export const ceiling: WasmKernel = exactly("Ceil", "ceiling");

/** The nearest integer, ties to even. */
export const round: WasmKernel = exactly("Round", "round");

/** Sine. */
export const sine: WasmKernel = angular("Sin", "sine");

/** Cosine. */
export const cosine: WasmKernel = angular("Cos", "cosine");

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
