/** Four neighbouring floats at a time: how WGSL reads them from a buffer as one load and packs them for one store. Alignment is the caller's to check. */
import type { Operand } from "../../../graph/kernel.js";
import type { ElementType } from "../../../tensor/element-type.js";

/** The float types that shaders read and write. */
type FloatType = "float32" | "float16" | "bfloat16";

/** True for the float types that shaders read and write. */
export const isFloatType = (type: ElementType): type is FloatType =>
  type === "float32" || type === "float16" || type === "bfloat16";

/** How four elements lie. */
interface Quads {
  /** The WGSL type of four elements in a buffer. */
  readonly element: string;
  /** A vec4f of a word vector. */
  unpack(words: string): string;
  /** A word vector of a vec4f; needs `packing`. */
  pack(value: string): string;
}

const quads: Readonly<Record<FloatType, Quads>> = {
  float32: {
    element: "vec4<u32>",
    unpack: (words) => `bitcast<vec4f>(${words})`,
    pack: (value) => `bitcast<vec4u>(${value})`,
  },
  float16: {
    element: "vec2<u32>",
    unpack: (words) => `vec4f(unpack2x16float(${words}.x), unpack2x16float(${words}.y))`,
    pack: (value) => `vec2u(packHalves(${value}.xy), packHalves(${value}.zw))`,
  },
  bfloat16: {
    element: "vec2<u32>",
    unpack: (words) =>
      `bitcast<vec4f>(vec4u(${words}.x << 16u, ${words}.x & 0xffff0000u, ${words}.y << 16u, ${words}.y & 0xffff0000u))`,
    pack: (value) =>
      `vec2u(bfloat(${value}.x) | (bfloat(${value}.y) << 16u), bfloat(${value}.z) | (bfloat(${value}.w) << 16u))`,
  },
};

/** How four elements of a type lie. */
export const quadsOf = (type: FloatType): Quads => quads[type];

/** True if an operand without gaps can be read and written by fours: it begins and ends at one. */
export const hasQuads = ({ contiguous, place }: Operand): boolean =>
  contiguous && place.offset % 4 === 0 && place.size % 4 === 0;
