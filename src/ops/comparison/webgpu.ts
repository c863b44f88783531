/** Comparisons on WebGPU. NaN is neither equal, less nor greater. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { Equal, Greater, GreaterOrEqual, Less, LessOrEqual } from "./op.js";

const comparison = (op: typeof Equal, name: string, sign: string): WebgpuKernel =>
  elementwiseKernel([op], ({ inputs: { A: a, B: b }, outputs: { C: output } }) => ({
    name,
    output,
    inputs: { a, b },
    expression: `select(0u, 1u, a ${sign} b)`,
  }));

/** A = B. */
export const equal: WebgpuKernel = comparison(Equal, "equal", "==");

/** A > B. */
export const greater: WebgpuKernel = comparison(Greater, "greater", ">");

/** A ≥ B. */
export const greaterOrEqual: WebgpuKernel = comparison(GreaterOrEqual, "greaterOrEqual", ">=");

/** A < B. */
export const less: WebgpuKernel = comparison(Less, "less", "<");

/** A ≤ B. */
export const lessOrEqual: WebgpuKernel = comparison(LessOrEqual, "lessOrEqual", "<=");
