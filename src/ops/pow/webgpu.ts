/** Pow on WebGPU: floats to powers of any type, int32 to whole powers. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { isFloat } from "../shared/webgpu/types.js";
import { Pow } from "./op.js";

/** X^Y. */
export const power: WebgpuKernel = elementwiseKernel([Pow], ({ inputs: { X: x, Y: y }, outputs: { Z: output } }) => {
  const inputs = { x, y };
  if (isFloat(x.type)) return { name: "power", output, inputs, expression: "power(x, f32(y))", calls: ["power"] };
  if (isFloat(y.type) || y.type === "uint32") return `${x.type} to the power of ${y.type} is computed exactly`;
  return {
    name: "power",
    output,
    inputs,
    expression: "wholePowerOfInteger(x, i32(y))",
    calls: ["wholePowerOfInteger"],
  };
});
