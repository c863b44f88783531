/** The GPU beside insitu's own use of it: what buffers and pipelines are made while something runs, and how fast the device copies. */
import { InsituError } from "#insitu/base/error.js";
import { nodePlatform } from "#insitu/platform/node.js";

/** What was made on devices so far. */
export interface Made {
  readonly buffers: number;
  readonly bytes: number;
  readonly pipelines: number;
}

async function adapter(): Promise<GPUAdapter> {
  const gpu = await nodePlatform.gpu?.();
  const found =
    gpu === undefined || typeof gpu === "string"
      ? null
      : await (gpu as GPU).requestAdapter({ powerPreference: "high-performance" });
  if (found === null)
    throw new InsituError(
      "invalid-argument",
      `insitu bench: there is no WebGPU to be measured: ${typeof gpu === "string" ? gpu : "no adapter was found"}`,
    );
  return found;
}

let counting: Promise<() => Made> | undefined;

/** Counts from now on what is made on any device of this process; the function tells how much it was so far. */
export const countMade = (): Promise<() => Made> => (counting ??= startCounting());

async function startCounting(): Promise<() => Made> {
  const device = await (await adapter()).requestDevice();
  // Devices have what they do from one object, whose functions can be put aside.
  const kind = Object.getPrototypeOf(device) as object;
  const watch = (name: string, seen: (descriptor: { readonly size?: number }) => void): void => {
    const original = Reflect.get(kind, name) as (this: object, descriptor: object) => unknown;
    Reflect.set(kind, name, function (this: object, descriptor: { readonly size?: number }) {
      seen(descriptor);
      return original.call(this, descriptor);
    });
  };
  let [buffers, bytes, pipelines] = [0, 0, 0];
  watch("createBuffer", ({ size = 0 }) => {
    buffers++;
    bytes += size;
  });
  watch("createComputePipeline", () => pipelines++);
  watch("createComputePipelineAsync", () => pipelines++);
  device.destroy();
  return () => ({ buffers, bytes, pipelines });
}

/** True where a program plays the GPU: its times mean nothing, and some runtimes do without it. */
export const isSoftware = async (): Promise<boolean> => /swiftshader|llvmpipe/i.test(await deviceName());

/** The device's name, and its driver's. */
export async function deviceName(): Promise<string> {
  const { device, description, vendor, architecture } = (await adapter()).info;
  const either = (...texts: readonly string[]): string => texts.filter((text) => text !== "").join(", ");
  return either(device, description) || either(vendor, architecture) || "unnamed";
}

const copying = `
@group(0) @binding(0) var<storage, read> source: array<vec4u>;
@group(0) @binding(1) var<storage, read_write> target_: array<vec4u>;
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  for (var at = id.x; at < arrayLength(&source); at += groups.x * 256u) { target_[at] = source[at]; }
}`;

/** A device that copies one buffer to another by a shader. */
export interface Copier {
  /** Milliseconds of one copy: what more of them take longer in one pass. */
  run(): Promise<number>;
  /** Bytes that one copy reads and writes. */
  readonly bytes: number;
  stop(): void;
}

export async function startCopier(size: number): Promise<Copier> {
  const found = await adapter();
  const { maxBufferSize, maxStorageBufferBindingSize } = found.limits;
  const device = await found.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } });
  const storage = 128;
  const buffers = [0, 1].map(() => device.createBuffer({ size, usage: storage }));
  const module = device.createShaderModule({ code: copying });
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: { module } });
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
  const time = async (copies: number): Promise<number> => {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let copy = 0; copy < copies; copy++) pass.dispatchWorkgroups(Math.min(16_384, Math.ceil(size / 4096)));
    pass.end();
    const start = performance.now();
    device.queue.submit([encoder.finish()]);
    await device.queue.onSubmittedWorkDone();
    return performance.now() - start;
  };
  const [few, many] = [2, 12];
  return {
    run: async () => {
      const first = await time(few);
      return Math.max(0, (await time(many)) - first) / (many - few);
    },
    bytes: 2 * size,
    stop: () => device.destroy(),
  };
}
