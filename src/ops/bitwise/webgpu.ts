/** Operations on the bits of whole numbers on WebGPU. */
import { traitsOf } from "../../tensor/element-type.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { BitShift, BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor } from "./op.js";

const bitwise = (op: typeof BitwiseAnd, name: string, sign: string): WebgpuKernel =>
  elementwiseKernel([op], ({ inputs: { A: a, B: b }, outputs: { C: output } }) => ({
    name,
    output,
    inputs: { a, b },
    expression: `a ${sign} b`,
  }));

/** The bits that both operands have. */
export const bitwiseAnd: WebgpuKernel = bitwise(BitwiseAnd, "bitwiseAnd", "&");

/** The bits that either operand has. */
export const bitwiseOr: WebgpuKernel = bitwise(BitwiseOr, "bitwiseOr", "|");

/** The bits in which the operands differ. */
export const bitwiseXor: WebgpuKernel = bitwise(BitwiseXor, "bitwiseXor", "^");

/** Every bit flipped. */
export const bitwiseNot: WebgpuKernel = elementwiseKernel(
  [BitwiseNot],
  ({ inputs: { X: x }, outputs: { Y: output } }) => ({ name: "bitwiseNot", output, inputs: { x }, expression: "~x" }),
);

/** X shifted by Y bits; a shift by a negative amount, or by all the bits there are, leaves the fill alone. */
export const bitShift: WebgpuKernel = elementwiseKernel(
  [BitShift],
  ({ inputs: { X: x, Y: y }, outputs: { Z: output }, attrs: { direction } }) => {
    const { bits, signed } = traitsOf(x.type);
    const right = direction === "RIGHT";
    const fill = signed ? (right ? "x >> 31u" : "0") : "0u";
    const outside = signed ? `y < 0 || y >= ${bits}` : `y >= ${bits}u`;
    return {
      name: "bitShift",
      output,
      inputs: { x, y },
      expression: `select(x ${right ? ">>" : "<<"} (u32(y) & 31u), ${fill}, ${outside})`,
    };
  },
);
