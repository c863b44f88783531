/**
 * Pieces that WGSL kernels are made of: elements of every type that a device can hold, read and written as 32-bit words, and places of
 * elements from shapes and strides. Buffers are arrays of u32; an invocation writes whole words, so that no two write the same one.
 */
import type { ElementType } from "../tensor/element-type.js";
import type { Parameter } from "./webgpu-kernel.js";

/** The WGSL type that elements are computed in. */
type Scalar = "f32" | "i32" | "u32";

/** How elements of a type are read from words and packed into them; undefined for types that shaders do not know. */
interface Form {
  readonly scalar: Scalar;
  /** Elements in a word; for types of two words 0.5. */
  readonly perWord: number;
  /** The element at index `i` of the array `a`. */
  read(a: string, i: string): string;
  /** A word of elements, given one expression for each. */
  pack(values: readonly string[]): string;
}

const bytes = (values: readonly string[], bits: (value: string) => string): string =>
  values.map((value, at) => `((${bits(value)} & 0xffu) << ${8 * at}u)`).join(" | ");

const halves = (values: readonly string[], bits: (value: string) => string): string =>
  values.map((value, at) => `((${bits(value)} & 0xffffu) << ${16 * at}u)`).join(" | ");

const forms: Readonly<Partial<Record<ElementType, Form>>> = {
  float32: {
    scalar: "f32",
    perWord: 1,
    read: (a, i) => `bitcast<f32>(${a}[${i}])`,
    pack: ([value]) => `bitcast<u32>(${value})`,
  },
  float16: {
    scalar: "f32",
    perWord: 2,
    read: (a, i) => `unpack2x16float(${a}[(${i}) >> 1u])[(${i}) & 1u]`,
    pack: ([low, high]) => `packHalves(vec2f(${low}, ${high}))`,
  },
  bfloat16: {
    scalar: "f32",
    perWord: 2,
    read: (a, i) => `bitcast<f32>((${a}[(${i}) >> 1u] >> (16u * ((${i}) & 1u))) << 16u)`,
    pack: ([low, high]) => `(bfloat(${low}) | (bfloat(${high}) << 16u))`,
  },
  int32: {
    scalar: "i32",
    perWord: 1,
    read: (a, i) => `bitcast<i32>(${a}[${i}])`,
    pack: ([value]) => `bitcast<u32>(${value})`,
  },
  uint32: { scalar: "u32", perWord: 1, read: (a, i) => `${a}[${i}]`, pack: ([value]) => value },
  int16: {
    scalar: "i32",
    perWord: 2,
    read: (a, i) => `extractBits(bitcast<i32>(${a}[(${i}) >> 1u]), 16u * ((${i}) & 1u), 16u)`,
    pack: (values) => halves(values, (value) => `bitcast<u32>(${value})`),
  },
  uint16: {
    scalar: "u32",
    perWord: 2,
    read: (a, i) => `extractBits(${a}[(${i}) >> 1u], 16u * ((${i}) & 1u), 16u)`,
    pack: (values) => halves(values, (value) => value),
  },
  int8: {
    scalar: "i32",
    perWord: 4,
    read: (a, i) => `extractBits(bitcast<i32>(${a}[(${i}) >> 2u]), 8u * ((${i}) & 3u), 8u)`,
    pack: (values) => bytes(values, (value) => `bitcast<u32>(${value})`),
  },
  uint8: {
    scalar: "u32",
    perWord: 4,
    read: (a, i) => `extractBits(${a}[(${i}) >> 2u], 8u * ((${i}) & 3u), 8u)`,
    pack: (values) => bytes(values, (value) => value),
  },
  bool: {
    scalar: "u32",
    perWord: 4,
    read: (a, i) => `extractBits(${a}[(${i}) >> 2u], 8u * ((${i}) & 3u), 8u)`,
    pack: (values) => bytes(values, (value) => value),
  },
};

/** True for types whose elements shaders read and write. */
export const isShaderType = (type: ElementType): boolean => forms[type] !== undefined;

/** True for integers that shaders read as indices: of int64 the low half, which the checks on data have found to be all of it. */
export const isIndexType = (type: ElementType): boolean => type === "int64" || type === "int32";

function formOf(type: ElementType): Form {
  const form = forms[type];
  if (form === undefined) throw new RangeError(`${type} is no type of shaders`);
  return form;
}

export const scalarOf = (type: ElementType): Scalar => formOf(type).scalar;

/** Elements that one word holds: what an invocation writes. */
export const perWord = (type: ElementType): number => formOf(type).perWord;

/** The element of an array at an index. */
export const read = (type: ElementType, array: string, index: string): string => formOf(type).read(array, `(${index})`);

/** An index that an array of int32 or int64 holds. */
export const readIndex = (type: ElementType, array: string, index: string): string =>
  type === "int64" ? `bitcast<i32>(${array}[2u * (${index})])` : `bitcast<i32>(${array}[${index}])`;

/** A word of elements. */
export const pack = (type: ElementType, values: readonly string[]): string => formOf(type).pack(values);

/** What a binding is an array of, where each load takes the words of four elements. */
export const quadElement = (type: ElementType): string => ["", "vec4<u32>", "vec2<u32>", "", "u32"][perWord(type)];

/** The four elements at an index that is a multiple of four, each by itself, of an array of `quadElement`. `words` names what is loaded. */
export function readQuad(
  type: ElementType,
  array: string,
  index: string,
  words: string,
): { readonly load: string; readonly elements: readonly string[] } {
  const loaded = `${array}[(${index}) >> 2u]`;
  return {
    load: `let ${words} = ${perWord(type) === 4 ? `vec2<u32>(${loaded}, 0u)` : loaded};`,
    elements: [0, 1, 2, 3].map((at) => read(type, words, `${at}u`)),
  };
}

/** The words of four elements. */
export function packQuad(type: ElementType, values: readonly string[]): string {
  const size = perWord(type);
  if (size === 4) return pack(type, values);
  const words = Array.from({ length: 4 / size }, (_, at) => pack(type, values.slice(at * size, (at + 1) * size)));
  return `${quadElement(type)}(${words.join(", ")})`;
}

/**
 * Functions that `pack` needs. Halves are rounded to the nearest, ties to even, which WGSL's own packing leaves to the device; those too large
 * for float16 become infinite, as ONNX's casts do.
 */
export const packing = `
fn bfloat(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0x7fc0u; }
  return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}
fn halfBits(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  let sign = (bits >> 16u) & 0x8000u;
  let size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) { return 0x7e00u; }
  if (size >= 0x477ff000u) { return sign | 0x7c00u; }
  if (size < 0x38800000u) { return sign | u32(round(bitcast<f32>(size) * 16777216.0)); }
  return sign | ((size + 0xfffu + ((size >> 13u) & 1u) - 0x38000000u) >> 13u);
}
fn packHalves(values: vec2f) -> u32 { return halfBits(values.x) | (halfBits(values.y) << 16u); }`;

/** A function of WGSL that rounds a float to what elements of a type hold; it needs `packing`. */
export function roundingTo(name: string, type: ElementType): string {
  const rounded: Partial<Record<ElementType, string>> = {
    float16: "unpack2x16float(halfBits(x)).x",
    bfloat16: "bitcast<f32>(bfloat(x) << 16u)",
  };
  return `fn ${name}(x: f32) -> f32 { return ${rounded[type] ?? "x"}; }`;
}

/** The words that so many elements take. */
export const wordsOf = (type: ElementType, count: number): number => Math.ceil(count / perWord(type));

/** Workgroups for so many invocations of `size`, in two dimensions where one does not suffice: `flatIndex` puts them together again. */
export function workgroupsFor(invocations: number, size: number, most: number): readonly [number, number] {
  const groups = Math.max(1, Math.ceil(invocations / size));
  if (groups <= most) return [groups, 1];
  const rows = Math.ceil(groups / most);
  return [Math.ceil(groups / rows), rows];
}

/** An entry that computes `index`, the number of the invocation, for a grid of `workgroupsFor`. */
export const entry = (size: number, body: string): string => `
@compute @workgroup_size(${size}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32,
) {
  let index = (group.y * groups.x + group.x) * ${size}u + local;
${body}
}`;

/** An open parameter, as a shader reads it. */
export const openOf = (name: string): string => `open_${name}()`;

/** Parameters that describe a shape or strides: `name0`, `name1`, … */
export const listed = (name: string, numbers: readonly number[]): Readonly<Record<string, Parameter>> =>
  Object.fromEntries(numbers.map((number, at) => [`${name}${at}`, number]));
