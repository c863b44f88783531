/** The four operations on WebGPU: floats in float32, whole numbers of 32 bits and less as they wrap. */
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { acceptsElementwise, elementwise } from "../shared/webgpu/elementwise.js";
import { Add, Div, Mul, Sub } from "./op.js";

const arithmetic = (op: typeof Add, name: string, sign: string): WebgpuKernel =>
  webgpuKernel([op], {
    accepts: ({ inputs: { A, B }, outputs: { C } }) => acceptsElementwise({ output: C, inputs: { A, B } }),
    record({ inputs: { A: a, B: b }, outputs: { C: output } }, recorder) {
      if (output.place.size === 0) return;
      recorder.dispatch(elementwise({ name, output, inputs: { a, b }, expression: `a ${sign} b` }, recorder.device));
    },
  });

/** A + B. */
export const add: WebgpuKernel = arithmetic(Add, "add", "+");

/** A − B. */
export const subtract: WebgpuKernel = arithmetic(Sub, "subtract", "-");

/** A · B. */
export const multiply: WebgpuKernel = arithmetic(Mul, "multiply", "*");

/** A / B. */
export const divide: WebgpuKernel = arithmetic(Div, "divide", "/");
