/** Quantized integers ("levels") of 4 and 8 bits in WGSL: those of 4 bits lie two to a byte, the first in the lower half. */
import type { ElementType } from "../../../tensor/element-type.js";
import { isShaderType, read } from "../../../webgpu-kernels/wgsl.js";

/** Bits of a type whose elements lie two to a byte, and whether they are signed. */
const halves: Readonly<Partial<Record<ElementType, "i32" | "u32">>> = { int4: "i32", uint4: "u32" };

/** True for types that `readLevel` reads. */
export const isLevelType = (type: ElementType): boolean => halves[type] !== undefined || isShaderType(type);

/** The element of an array at an index. */
export function readLevel(type: ElementType, array: { at(index: string): string }, index: string): string {
  const scalar = halves[type];
  if (scalar === undefined) return read(type, array, index);
  return `extractBits(bitcast<${scalar}>(${array.at(`(${index}) >> 3u`)}), 4u * ((${index}) & 7u), 4u)`;
}
