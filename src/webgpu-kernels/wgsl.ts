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
  /** The element at index `i` of what `at` reads items of. */
  read(at: (item: string) => string, i: string): string;
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
    read: (at, i) => `bitcast<f32>(${at(i)})`,
    pack: ([value]) => `bitcast<u32>(${value})`,
  },
  float16: {
    scalar: "f32",
    perWord: 2,
    read: (at, i) => `unpack2x16float(${at(`(${i}) >> 1u`)})[(${i}) & 1u]`,
    pack: ([low, high]) => `packHalves(vec2f(${low}, ${high}))`,
  },
  bfloat16: {
    scalar: "f32",
    perWord: 2,
    read: (at, i) => `bitcast<f32>((${at(`(${i}) >> 1u`)} >> (16u * ((${i}) & 1u))) << 16u)`,
    pack: ([low, high]) => `(bfloat(${low}) | (bfloat(${high}) << 16u))`,
  },
  int32: {
    scalar: "i32",
    perWord: 1,
    read: (at, i) => `bitcast<i32>(${at(i)})`,
    pack: ([value]) => `bitcast<u32>(${value})`,
  },
  uint32: { scalar: "u32", perWord: 1, read: (at, i) => at(i), pack: ([value]) => value },
  int16: {
    scalar: "i32",
    perWord: 2,
    read: (at, i) => `extractBits(bitcast<i32>(${at(`(${i}) >> 1u`)}), 16u * ((${i}) & 1u), 16u)`,
    pack: (values) => halves(values, (value) => `bitcast<u32>(${value})`),
  },
  uint16: {
    scalar: "u32",
    perWord: 2,
    read: (at, i) => `extractBits(${at(`(${i}) >> 1u`)}, 16u * ((${i}) & 1u), 16u)`,
    pack: (values) => halves(values, (value) => value),
  },
  int8: {
    scalar: "i32",
    perWord: 4,
    read: (at, i) => `extractBits(bitcast<i32>(${at(`(${i}) >> 2u`)}), 8u * ((${i}) & 3u), 8u)`,
    pack: (values) => bytes(values, (value) => `bitcast<u32>(${value})`),
  },
  uint8: {
    scalar: "u32",
    perWord: 4,
    read: (at, i) => `extractBits(${at(`(${i}) >> 2u`)}, 8u * ((${i}) & 3u), 8u)`,
    pack: (values) => bytes(values, (value) => value),
  },
  bool: {
    scalar: "u32",
    perWord: 4,
    read: (at, i) => `extractBits(${at(`(${i}) >> 2u`)}, 8u * ((${i}) & 3u), 8u)`,
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

/** An array by its name, or something that says itself how an item is read. */
type ArrayLike = string | { at(index: string): string };

const itemOf =
  (array: ArrayLike) =>
  (index: string): string =>
    typeof array === "string" ? `${array}[${index}]` : array.at(index);

/** The element of an array at an index. */
export const read = (type: ElementType, array: ArrayLike, index: string): string =>
  formOf(type).read(itemOf(array), `(${index})`);

/** An index that an array of int32 or int64 holds. */
export const readIndex = (type: ElementType, array: ArrayLike, index: string): string =>
  `bitcast<i32>(${itemOf(array)(type === "int64" ? `2u * (${index})` : index)})`;

/** A word of elements. */
export const pack = (type: ElementType, values: readonly string[]): string => formOf(type).pack(values);

/** The float types that shaders read and write. */
export type FloatType = "float32" | "float16" | "bfloat16";

/** How four neighbouring elements lie: one load of a buffer. */
interface Four {
  /** The WGSL type of their words. */
  readonly element: string;
  /** A vec4f of the words. */
  readonly unpack: (words: string) => string;
  /** The words of a vec4f; it needs `packing`. */
  readonly pack: (value: string) => string;
}

const fours: Readonly<Record<FloatType, Four>> = {
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

/** True for the float types that shaders read and write. */
export const isFloatType = (type: ElementType): type is FloatType => type in fours;

/** True for types that can be read by fours as vec4f. */
export const isFourType = (type: ElementType): boolean => isFloatType(type) || type === "int8";

/** How four elements of a type lie. What is not float is read, not packed; bytes that are no int8 are moved, not read. */
export function fourOf(type: ElementType): Four {
  if (isFloatType(type)) return fours[type];
  return {
    element: ["", "vec4<u32>", "vec2<u32>", "", "u32"][perWord(type)],
    unpack: (words) => `vec4f(unpack4xI8(${words}))`,
    pack: () => {
      throw new RangeError(`${type} is no float`);
    },
  };
}

/** The four elements at an index that is a multiple of four, each by itself, of an array of fours. `words` names what is loaded. */
export function readFour(
  type: ElementType,
  array: ArrayLike,
  index: string,
  words: string,
): { readonly load: string; readonly elements: readonly string[] } {
  const loaded = itemOf(array)(`(${index}) >> 2u`);
  return {
    load: `let ${words} = ${perWord(type) === 4 ? `vec2<u32>(${loaded}, 0u)` : loaded};`,
    elements: range(4).map((at) => read(type, words, `${at}u`)),
  };
}

/** The words of four elements, each by itself. */
export function packFour(type: ElementType, values: readonly string[]): string {
  const size = perWord(type);
  if (size === 4) return pack(type, values);
  const words = range(4 / size).map((at) => pack(type, values.slice(at * size, (at + 1) * size)));
  return `${fourOf(type).element}(${words.join(", ")})`;
}

/** The numbers below a count. */
export const range = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);

/** A line for each number below a count. */
export const unrolled = (count: number, line: (at: number) => string, between = "\n"): string =>
  range(count).map(line).join(between);

/** What the invocations of a workgroup divide among themselves, `count` of it: a line for each that one of them has, by an index. */
export const divided = (
  count: number,
  invocations: number,
  line: (index: string, at: number) => string,
  between = "\n",
): string =>
  unrolled(
    Math.ceil(count / invocations),
    (at) => {
      const index = at === 0 ? "local" : `(local + ${at * invocations}u)`;
      const text = line(index, at);
      return (at + 1) * invocations <= count ? text : `if (${index} < ${count}u) { ${text} }`;
    },
    between,
  );

/** Variables for what an invocation has of it: `name0`, `name1`, … */
export const registersFor = (count: number, invocations: number, name: string, type: string): string =>
  unrolled(Math.ceil(count / invocations), (at) => `var ${name}${at}: ${type};`, " ");

/** The power of two that is not below a number. */
export const powerOfTwo = (least: number): number => 2 ** Math.ceil(Math.log2(Math.max(1, least)));

/**
 * Functions that `pack` needs. Halves are rounded to the nearest, ties to even, which WGSL's own packing leaves to the device; those too large
 * for float16 become infinite, as ONNX's casts do.
 */
export const packing: { readonly code: string } = {
  code: `
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
fn packHalves(values: vec2f) -> u32 { return halfBits(values.x) | (halfBits(values.y) << 16u); }`,
};

/** The part with a function that rounds a float to what elements of a type hold. */
export function roundingTo(
  name: string,
  type: ElementType,
): { readonly code: string; readonly uses: readonly (typeof packing)[] } {
  const rounded: Partial<Record<ElementType, string>> = {
    float16: "unpack2x16float(halfBits(x)).x",
    bfloat16: "bitcast<f32>(bfloat(x) << 16u)",
  };
  return { code: `fn ${name}(x: f32) -> f32 { return ${rounded[type] ?? "x"}; }`, uses: [packing] };
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
