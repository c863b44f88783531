/** Pipelines by their code: compiled once for a device, in parallel, and shared by all programs of its sessions. */
import { InsituError } from "../../base/error.js";
import type { Dispatch, Parameter } from "../../webgpu-kernels/webgpu-kernel.js";
import type { Device } from "./device.js";

/** A dispatch's shader, whole: features, bindings, parameters, then its own code. */
export function shaderOf({ code, bindings, parameters, fixed = false }: Dispatch, device: Device): string {
  const { traits } = device;
  const enables = [
    ...(traits.subgroup !== undefined && /\bsubgroup[A-Z]/.test(code) ? ["enable subgroups;"] : []),
    ...(traits.f16 && /\bf16\b/.test(code) ? ["enable f16;"] : []),
    ...(traits.subgroupMatrix !== undefined && /\bsubgroup_matrix_/.test(code)
      ? ["enable chromium_experimental_subgroup_matrix;"]
      : []),
  ];
  const names = Object.entries(parameters);
  const members = names.map(([name, value]) => `${name}: ${typeof value === "number" ? "u32" : "f32"}`);
  return [
    ...enables,
    ...bindings.map(
      ({ name, element = "u32", writes = false }, at) =>
        `@group(0) @binding(${at}) var<storage, ${writes ? "read_write" : "read"}> ${name}: array<${element}>;`,
    ),
    ...(names.length === 0
      ? []
      : [
          `struct Parameters { ${members.join(", ")} }`,
          fixed
            ? `const p = Parameters(${names.map(([, value]) => literal(value)).join(", ")});`
            : `@group(0) @binding(${bindings.length}) var<uniform> p: Parameters;`,
        ]),
    code,
  ].join("\n");
}

/** A parameter as WGSL writes it: whole numbers as their 32 bits, others so that they round to the same float. */
const literal = (value: Parameter): string =>
  typeof value === "number" ? `${value >>> 0}u` : `bitcast<f32>(${floatBits(value.float)}u)`;

const floatBits = (number: number): number => new Uint32Array(Float32Array.of(number).buffer)[0];

/** The bytes of a dispatch's parameters. */
export function parameterBytes(parameters: Readonly<Record<string, Parameter>>): ArrayBuffer {
  const values = Object.values(parameters);
  const bytes = new DataView(new ArrayBuffer(4 * values.length));
  values.forEach((value, at) => {
    if (typeof value !== "number") bytes.setFloat32(4 * at, value.float, true);
    else if (Number.isInteger(value) && value >= -(2 ** 31) && value < 2 ** 32) bytes.setInt32(4 * at, value, true);
    else throw new InsituError("internal", `parameter ${Object.keys(parameters)[at]} is no 32-bit integer: ${value}`);
  });
  return bytes.buffer;
}

const compiled = new WeakMap<Device, Map<string, Promise<GPUComputePipeline>>>();

/** The pipeline of a shader. */
export function pipelineFor(device: Device, name: string, shader: string): Promise<GPUComputePipeline> {
  const known = compiled.get(device) ?? new Map<string, Promise<GPUComputePipeline>>();
  compiled.set(device, known);
  let pipeline = known.get(shader);
  if (pipeline === undefined) {
    pipeline = compile(device, name, shader);
    known.set(shader, pipeline);
  }
  return pipeline;
}

/** How many pipelines a device has compiled. */
export const pipelineCount = (device: Device): number => compiled.get(device)?.size ?? 0;

async function compile(device: Device, name: string, code: string): Promise<GPUComputePipeline> {
  device.check();
  const { gpu } = device;
  gpu.pushErrorScope("validation");
  const module = gpu.createShaderModule({ label: name, code });
  const failure = gpu.popErrorScope();
  try {
    return await gpu.createComputePipelineAsync({
      label: name,
      layout: "auto",
      compute: { module, entryPoint: "main" },
    });
  } catch (cause) {
    const { messages } = await module.getCompilationInfo();
    const told = messages.map(({ lineNum, message }) => `line ${lineNum}: ${message}`).join("; ");
    throw new InsituError("internal", `shader ${name} does not compile: ${told || String(cause)}`, { cause });
  } finally {
    await failure;
  }
}
