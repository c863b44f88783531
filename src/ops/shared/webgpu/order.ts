/** The order of elements in WGSL: each as a key of 32 bits, so that keys compare as the elements do. */
import type { ElementType } from "../../../tensor/element-type.js";
import { scalarOf } from "../../../webgpu-kernels/wgsl.js";

/** Where NaN stands among the keys: above all, or below. */
type NanPlace = "first" | "last";

/**
 * A function `keyOf(x)`: the larger, the nearer to the front. Zeros are equal, whatever their sign. NaN comes to the front, or to the back.
 */
export function keyFunction(type: ElementType, largest: boolean, nan: NanPlace): string {
  const turned = largest ? "key" : "~key";
  switch (scalarOf(type)) {
    case "u32":
      return `fn keyOf(x: u32) -> u32 { let key = x; return ${turned}; }`;
    case "i32":
      return `fn keyOf(x: i32) -> u32 { let key = bitcast<u32>(x) ^ 0x80000000u; return ${turned}; }`;
    case "f32":
      return `fn keyOf(x: f32) -> u32 {
  let bits = select(bitcast<u32>(x), 0u, x == 0.0);
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return ${nan === "first" ? "0xffffffffu" : "0u"}; }
  let key = select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
  return ${turned};
}`;
  }
}

/** The best of each invocation's key and index becomes that of the workgroup: the larger key, of equal ones the index that comes first. */
export const bestOfWorkgroup = (size: number, lastOfEquals: boolean): string => `
var<workgroup> keys: array<u32, ${size}>;
var<workgroup> places: array<u32, ${size}>;
fn isBetter(key: u32, place: u32, than: u32, thanPlace: u32) -> bool {
  return key > than || (key == than && place ${lastOfEquals ? ">" : "<"} thanPlace);
}
fn best(key: u32, place: u32, local: u32) -> vec2u {
  keys[local] = key;
  places[local] = place;
  workgroupBarrier();
  for (var half = ${size / 2}u; half > 0u; half >>= 1u) {
    if (local < half && isBetter(keys[local + half], places[local + half], keys[local], places[local])) {
      keys[local] = keys[local + half];
      places[local] = places[local + half];
    }
    workgroupBarrier();
  }
  let found = vec2u(keys[0], places[0]);
  workgroupBarrier();
  return found;
}`;
