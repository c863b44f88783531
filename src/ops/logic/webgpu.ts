/** Logic on WebGPU: anything but 0 is true. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { And, Not, Or, Xor } from "./op.js";

const logic = (op: typeof And, name: string, test: string): WebgpuKernel =>
  elementwiseKernel([op], ({ inputs: { A: a, B: b }, outputs: { C: output } }) => ({
    name,
    output,
    inputs: { a, b },
    expression: `select(0u, 1u, ${test})`,
  }));

/** A and B. */
export const and: WebgpuKernel = logic(And, "and", "a != 0u && b != 0u");

/** A or B. */
export const or: WebgpuKernel = logic(Or, "or", "(a | b) != 0u");

/** Either A or B. */
export const xor: WebgpuKernel = logic(Xor, "xor", "(a != 0u) != (b != 0u)");

/** Not X. */
export const not: WebgpuKernel = elementwiseKernel([Not], ({ inputs: { X: x }, outputs: { Y: output } }) => ({
  name: "not",
  output,
  inputs: { x },
  expression: "select(0u, 1u, x == 0u)",
}));
