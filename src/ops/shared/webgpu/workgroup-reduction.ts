/** Sums and maxima over a workgroup: by subgroups where they have one size, else by a tree in workgroup memory. */
import type { ShaderPart } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits } from "../../../webgpu-kernels/webgpu-kernel.js";

const kinds = {
  sum: { subgroup: "subgroupAdd", join: (a: string, b: string) => `${a} + ${b}` },
  maximum: { subgroup: "subgroupMax", join: (a: string, b: string) => `max(${a}, ${b})` },
} as const;

/**
 * The part with a function `name(local, value) -> f32` for workgroups of `size` invocations, a power of two: what all hand in, put together. Every invocation
 * must call it; the result is uniform, so that barriers may depend on it.
 */
export function workgroupReduction(
  name: string,
  kind: keyof typeof kinds,
  size: number,
  { subgroup }: Pick<DeviceTraits, "subgroup">,
): ShaderPart {
  const { subgroup: alone, join } = kinds[kind];
  if (subgroup !== undefined && subgroup <= size)
    return {
      extensions: ["subgroups"],
      code: `
var<workgroup> ${name}Parts: array<f32, ${size / subgroup}>;
fn ${name}(local: u32, value: f32) -> f32 {
  let own = ${alone}(value);
  if (local % ${subgroup}u == 0u) { ${name}Parts[local / ${subgroup}u] = own; }
  let parts = workgroupUniformLoad(&${name}Parts);
  var whole = parts[0];
  for (var at = 1u; at < ${size / subgroup}u; at++) { whole = ${join("whole", "parts[at]")}; }
  return whole;
}`,
    };
  return {
    code: `
var<workgroup> ${name}Parts: array<f32, ${size}>;
fn ${name}(local: u32, value: f32) -> f32 {
  ${name}Parts[local] = value;
  workgroupBarrier();
  for (var half = ${size / 2}u; half > 0u; half >>= 1u) {
    if (local < half) { ${name}Parts[local] = ${join(`${name}Parts[local]`, `${name}Parts[local + half]`)}; }
    workgroupBarrier();
  }
  return workgroupUniformLoad(&${name}Parts[0]);
}`,
  };
}
