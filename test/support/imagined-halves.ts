// Float16 where no device has it: shaders of attention that enable it compute in float32 instead, and each sum, and what is packed, is rounded to float16. Subnormal numbers are
// zero, as WGSL allows devices to have it.
import { deviceOf, proxied } from "./gpu.js";

const functions = `
fn unpackFour(words: vec2u) -> vec4f { return vec4f(unpack2x16float(words.x), unpack2x16float(words.y)); }
fn packFour(values: vec4f) -> vec2u {
  let halves = vec4f(asHalves(values.xy), asHalves(values.zw));
  let infinite = (bitcast<vec4u>(halves) & vec4u(0x7fffffffu)) == vec4u(0x7f800000u);
  let bits = select(vec4u(), ((bitcast<vec4u>(halves) >> vec4u(16u)) & vec4u(0x8000u)) | vec4u(0x7c00u), infinite);
  let packed = vec2u(pack2x16float(halves.xy), pack2x16float(halves.zw));
  let words = select(vec4u(packed.x & 0xffffu, packed.x >> 16u, packed.y & 0xffffu, packed.y >> 16u), bits, infinite);
  return vec2u(words.x | (words.y << 16u), words.z | (words.w << 16u));
}
fn asHalves(values: vec2f) -> vec2f {
  let sizes = abs(values);
  let finite = select(quantizeToF16(values), vec2f(), sizes < vec2f(0.00006103515625));
  return select(finite, values * 3.4e38, sizes >= vec2f(65520.0));
}
fn fmaHalves(a: vec2f, b: vec2f, c: vec2f) -> vec2f { return asHalves(fma(a, b, c)); }
fn asHalf(value: f32) -> f32 { return asHalves(vec2f(value, 0.0)).x; }`;

/** WGSL without float16. */
function withoutHalves(code: string): string {
  if (!code.includes("enable f16;")) return code;
  const replaced = code
    .replace("enable f16;", "")
    .replaceAll("bitcast<vec2<f16>>(", "unpack2x16float(")
    .replaceAll("bitcast<vec4<f16>>(", "unpackFour(")
    .replaceAll("bitcast<vec2u>(vec4<f16>(", "packFour((")
    .replaceAll("bitcast<vec2u>(unpackFour", "packFour(unpackFour")
    .replaceAll("vec4<f16>", "vec4f")
    .replaceAll("vec2<f16>", "vec2f")
    .replaceAll(/\bf16\(/g, "f32(")
    .replaceAll(/\bfma\(/g, "fmaHalves(")
    .replaceAll(/\bf32\((?=h\d)/g, "asHalf(");
  return replaced + functions;
}

/** The machine's GPU, with such float16 and limits below its own. */
export const gpuWithHalves = (
  limits: Partial<Record<keyof GPUSupportedLimits, number>> = {},
): (() => Promise<GPU | string>) =>
  deviceOf((device) =>
    proxied(device, {
      limits: proxied(device.limits, limits),
      features: new Set([...device.features, "shader-f16"]),
      createShaderModule: (given: GPUShaderModuleDescriptor) =>
        device.createShaderModule({ ...given, code: withoutHalves(given.code) }),
    }),
  );
