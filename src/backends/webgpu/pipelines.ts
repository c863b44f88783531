/** Pipelines by the keys of their code: compiled once for a device, in parallel, and shared by all programs of its sessions. */
import { InsituError } from "../../base/error.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import type { Dispatch, Parameter } from "../../webgpu-kernels/webgpu-kernel.js";
import { openOf } from "../../webgpu-kernels/wgsl.js";
import type { Device } from "./device.js";

/** A dispatch's shader, whole: what is declared in front, then its own code. */
export const shaderOf = (dispatch: Dispatch): string => `${headOf(dispatch)}\n${dispatch.code}`;

/** What is declared in front of a dispatch's code: extensions, bindings, parameters. */
function headOf({ extensions, bindings, parameters, fixed = false, open = [] }: Omit<Dispatch, "code">): string {
  const names = Object.entries(parameters).filter(([name]) => !fixed || !open.includes(name));
  const typeOf = (value: Parameter): string => (typeof value === "number" ? "u32" : "f32");
  const members = names.map(([name, value]) => `${name}: ${typeOf(value)}`);
  const declared = bindings.map(
    ({ name, element = "u32", writes = false }, at) =>
      `@group(0) @binding(${at}) var<storage, ${writes ? "read_write" : "read"}> ${name}: array<${element}>;`,
  );
  const at = bindings.length;
  if (names.length > 0)
    declared.push(
      `struct Parameters { ${members.join(", ")} }`,
      fixed
        ? `const p = Parameters(${names.map(([, value]) => literal(value)).join(", ")});`
        : `@group(0) @binding(${at}) var<uniform> p: Parameters;`,
    );
  if (open.length > 0) {
    const opened = open.map((name) => ({ name, type: typeOf(parameters[name]) }));
    if (fixed)
      declared.push(
        `struct Opened { ${opened.map(({ name, type }) => `${name}: ${type}`).join(", ")} }`,
        `@group(0) @binding(${at}) var<uniform> opened: Opened;`,
      );
    for (const { name, type } of opened)
      declared.push(`fn ${openOf(name)} -> ${type} { return ${fixed ? "opened" : "p"}.${name}; }`);
  }
  return [...extensions.map((name) => `enable ${name};`), ...declared].join("\n");
}

/** A parameter as WGSL writes it: whole numbers as their 32 bits, others so that they round to the same float. */
const literal = (value: Parameter): string =>
  typeof value === "number" ? `${value >>> 0}u` : `bitcast<f32>(${floatBits(value.float)}u)`;

const floatBits = (number: number): number => new Uint32Array(Float32Array.of(number).buffer)[0];

/** The pipelines of one device, by their dispatches' keys and what is declared in front. */
class Pipelines {
  readonly #device: Device;
  readonly #known = new Map<string, { readonly name: string; readonly pipeline: Promise<GPUComputePipeline> }>();
  /** Those that wait for their turn. */
  readonly #waiting: (() => void)[] = [];
  #compiling = 0;

  constructor(device: Device) {
    this.#device = device;
  }

  /** How many each kernel has, by its name. */
  get counts(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { name } of this.#known.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
    return counts;
  }

  get(dispatch: Dispatch, isAhead: boolean): Promise<GPUComputePipeline> {
    const key = `${dispatch.key}\n${headOf(dispatch)}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known.pipeline;
    const { name } = dispatch;
    const compiled = (): Promise<GPUComputePipeline> => this.#compile(name, shaderOf(dispatch));
    // What fails while nobody needs it, and memory is short, is tried once more.
    const pipeline = isAhead ? compiled().catch(compiled) : compiled();
    // Whoever asked is told, and the next one asks the device again; one that gave up in between is not waited for.
    pipeline.catch(() => this.#known.delete(key));
    this.#known.set(key, { name, pipeline });
    return pipeline;
  }

  async #compile(name: string, shader: string): Promise<GPUComputePipeline> {
    if (this.#compiling >= keeping.mostCompilations) await new Promise<void>((go) => this.#waiting.push(go));
    this.#compiling++;
    try {
      return await compile(this.#device, name, shader);
    } finally {
      this.#compiling--;
      this.#waiting.shift()?.();
    }
  }
}

const ofDevices = new WeakMap<Device, Pipelines>();

function pipelinesOf(device: Device): Pipelines {
  const known = ofDevices.get(device) ?? new Pipelines(device);
  ofDevices.set(device, known);
  return known;
}

/**
 * The pipeline of a dispatch: it is compiled from the first call on, and everybody who asks for the same shader gets the same one. `isAhead`: nobody waits
 * for it yet.
 */
export const pipelineFor = (device: Device, dispatch: Dispatch, isAhead = false): Promise<GPUComputePipeline> =>
  pipelinesOf(device).get(dispatch, isAhead);

/** How many pipelines a device has, by the names of their kernels. */
export const pipelineCounts = (device: Device): ReadonlyMap<string, number> => pipelinesOf(device).counts;

async function compile(device: Device, name: string, code: string): Promise<GPUComputePipeline> {
  device.check();
  const { gpu } = device;
  gpu.pushErrorScope("validation");
  const module = gpu.createShaderModule({ label: name, code });
  const failure = gpu.popErrorScope();
  try {
    return await device.awaiting(
      gpu.createComputePipelineAsync({ label: name, layout: "auto", compute: { module, entryPoint: "main" } }),
    );
  } catch (cause) {
    const { messages } = await module.getCompilationInfo().catch((lost: unknown) => device.meaningOf(lost));
    const told = messages.map(({ lineNum, message }) => `line ${lineNum}: ${message}`).join("; ");
    if (told === "") await device.meaningOf(cause).catch(() => undefined);
    device.check();
    throw new InsituError(
      "internal",
      `shader ${name} does not compile on ${device.description}: ${told || String(cause)}; webgpu: { subgroups: false, f16: false } does without features that drivers get wrong, another backend without the GPU`,
      { cause },
    );
  } finally {
    await failure.catch(() => undefined);
  }
}
