// Float16 where no device has it: shaders that enable it compute in float32 instead, and are rounded where they pack elements or end a run of sums. To see that they are right, not how exact.
import { deviceOf, proxied } from "./gpu.js";

const functions = `
fn unpackFour(words: vec2u) -> vec4f { return vec4f(unpack2x16float(words.x), unpack2x16float(words.y)); }
fn packFour(values: vec4f) -> vec2u { return vec2u(pack2x16float(values.xy), pack2x16float(values.zw)); }
fn asHalf(value: f32) -> f32 {
  var infinite = 0x7f800000u;
  if (abs(value) >= 65520.0) { return bitcast<f32>(infinite | (bitcast<u32>(value) & 0x80000000u)); }
  return unpack2x16float(pack2x16float(vec2f(value, 0.0))).x;
}`;

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
