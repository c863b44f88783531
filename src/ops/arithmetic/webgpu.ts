/** The four operations on WebGPU: floats in float32, whole numbers of 32 bits and less as they wrap. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { Add, Div, Mul, Sub } from "./op.js";

const arithmetic = (op: typeof Add, name: string, sign: string): WebgpuKernel =>
  elementwiseKernel([op], ({ inputs: { A: a, B: b }, outputs: { C: output } }) => ({
    name,
    output,
    inputs: { a, b },
    expression: `a ${sign} b`,
  }));

/** A + B. */
export const add: WebgpuKernel = arithmetic(Add, "add", "+");

/** A − B. */
export const subtract: WebgpuKernel = arithmetic(Sub, "subtract", "-");

/** A · B. */
export const multiply: WebgpuKernel = arithmetic(Mul, "multiply", "*");

/** A / B. */
export const divide: WebgpuKernel = arithmetic(Div, "divide", "/");
