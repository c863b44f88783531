/** Cast and CastLike on WebGPU, among the types of shaders. */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type ElementType, traitsOf } from "../../tensor/element-type.js";
import { isShaderType, scalarOf } from "../../webgpu-kernels/wgsl.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { type Elementwise, elementwiseKernel } from "../shared/webgpu/elementwise.js";
import { asBits, isFloat } from "../shared/webgpu/types.js";
import { Cast, Cast19, Cast6, CastLike, CastLike15, CastLike19 } from "./op.js";

/** A value x of one type as a value of the scalar of another; what is stored keeps the bits that fit. */
function converted(source: ElementType, target: ElementType): string {
  if (traitsOf(target).kind === "bool")
    return isFloat(source)
      ? "select(0u, 1u, (bitcast<u32>(x) & 0x7fffffffu) != 0u)"
      : `select(0u, 1u, bitcast<u32>(x) != 0u)`;
  if (isFloat(target)) {
    if (isFloat(source)) return "x";
    // Devices may cut off what does not fit: halves do, and their sum is rounded once.
    const mask = scalarOf(source) === "i32" ? "0xffff" : "0xffffu";
    return traitsOf(source).bits < 32 ? "f32(x)" : `f32(x >> 16u) * 65536.0 + f32(x & ${mask})`;
  }
  const bits = isFloat(source) ? "truncated(x)" : "bitcast<u32>(x)";
  return scalarOf(target) === "i32" ? `bitcast<i32>(${bits})` : bits;
}

function casting(input: Operand, output: Operand): Elementwise | string {
  const name = "cast";
  if (input.type === output.type) {
    const [x, same] = [asBits(input), asBits(output)];
    if (x !== undefined && same !== undefined) return { name, output: same, inputs: { x }, expression: "x" };
  }
  for (const { type } of [input, output]) if (!isShaderType(type)) return `${type} is no type of shaders`;
  if (traitsOf(input.type).bits === 32 && !isFloat(input.type) && output.type === "bfloat16")
    return "it would be rounded twice";
  const calls = isFloat(input.type) && !isFloat(output.type) && output.type !== "bool" ? (["truncated"] as const) : [];
  return { name, output, inputs: { x: input }, expression: converted(input.type, output.type), calls };
}

const castOf = ({
  inputs: { input },
  outputs: { output },
}: CallOf<typeof Cast6 | typeof Cast19 | typeof Cast | typeof CastLike15 | typeof CastLike19 | typeof CastLike>):
  | Elementwise
  | string => casting(input, output);

/** Casts to the type `to`. */
export const cast: WebgpuKernel = elementwiseKernel([Cast6, Cast19, Cast], castOf);

/** Casts to the type of `target_type`. */
export const castLike: WebgpuKernel = elementwiseKernel([CastLike15, CastLike19, CastLike], castOf);
