// Tensors compared: bit for bit, but for NaNs, whose bits are nobody's promise; or by value; or about.
import { readNumbers } from "../../src/tensor/access.js";
import { type ElementType, traitsOf } from "../../src/tensor/element-type.js";
import { Tensor } from "../../src/tensor/tensor.js";

export type Tensors = Record<string, Tensor>;

const bytesOf = (tensor: Tensor): Uint8Array => {
  const data = tensor.data as Uint8Array;
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
};

/** A copy that shares nothing with the tensor. */
export const copyOf = (tensor: Tensor): Tensor => new Tensor(tensor.type, tensor.data.slice() as never, tensor.dims);

/** How equal two tensors are to be. */
export type Likeness = "bits" | "values" | "about";

/** Where two tensors differ, in words; nothing where they do not. */
export function difference(actual: Tensor, expected: Tensor, likeness: Likeness = "bits"): string {
  if (String(actual) !== String(expected)) return `got ${actual}, expected ${expected}`;
  const [a, b] = [actual.data, expected.data];
  if (!Array.isArray(a)) {
    const [x, y] = [bytesOf(actual), bytesOf(expected)];
    let at = 0;
    while (at < y.length && x[at] === y[at]) at++;
    if (at === y.length) return "";
  }
  if (likeness === "about" && areAbout(actual, expected)) return "";
  const kind = traitsOf(actual.type).kind;
  for (let at = 0; at < b.length; at++) {
    const [x, y] = [a[at], b[at]] as [number, number];
    if (Object.is(x, y)) continue;
    if (kind !== "string" && likeness === "values" && (x === y || bothNaN(actual.type, x, y))) continue;
    if (kind === "float" && bothNaN(actual.type, x, y)) continue;
    return `element ${at} of ${b.length}: got ${String(x)}, expected ${String(y)}\n  got      ${a.slice(0, 32).join(" ")}\n  expected ${b.slice(0, 32).join(" ")}`;
  }
  return "";
}

/** A NaN's bits are nobody's promise. */
function bothNaN(type: ElementType, x: number, y: number): boolean {
  if (type === "float16") return (x & 0x7fff) > 0x7c00 && (y & 0x7fff) > 0x7c00;
  if (type === "bfloat16") return (x & 0x7fff) > 0x7f80 && (y & 0x7fff) > 0x7f80;
  return Number.isNaN(x) && Number.isNaN(y);
}

/** True if computed values differ by no more than the order of sums can explain. */
function areAbout(actual: Tensor, expected: Tensor): boolean {
  const [a, b] = [actual, expected].map((tensor) => Float64Array.from(readNumbers(tensor.toView())));
  const largest = b.reduce((most, number) => Math.max(most, Math.abs(number)), 1);
  const tolerance = (expected.type === "float16" ? 0.15 : 1e-4) * largest; // large scores in float16 lie far apart
  return a.every((number, at) => Math.abs(number - b[at]) <= tolerance || Object.is(number, b[at]));
}

/** Throws where two tensors differ. */
export function equal(what: string, actual: Tensor, expected: Tensor, likeness: Likeness = "bits"): void {
  const problem = difference(actual, expected, likeness);
  if (problem !== "") throw new Error(`${what}: ${problem}`);
}

/** Throws where two values are not the same; of tensors, where they are not one and the same. */
export function same(what: string, actual: unknown, expected: unknown): void {
  if (actual === expected) return;
  const [got, wanted] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (actual instanceof Tensor || got !== wanted) throw new Error(`${what}: got ${got}, expected ${wanted}`);
}
