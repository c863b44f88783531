/** Where on WebGPU: elements of a word and less are handed on as they are. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { asBits } from "../shared/webgpu/types.js";
import { Where } from "./op.js";

/** X where the condition holds, else Y. */
export const where: WebgpuKernel = elementwiseKernel(
  [Where],
  ({ inputs: { condition, X, Y }, outputs: { output: Z } }) => {
    const [x, y, output] = [asBits(X), asBits(Y), asBits(Z)];
    if (x === undefined || y === undefined || output === undefined) return `${Z.type} does not fit a word`;
    return { name: "where", output, inputs: { condition, x, y }, expression: "select(y, x, condition != 0u)" };
  },
);
