/**
 * How a program would run on a GPU, told without one: its steps are bound as ever, on a device that holds nothing and runs nothing. It is taken to
 * be without subgroups and float16, and large enough; what only data tell is not foreseen.
 */
import { isKnownShape } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import type { KernelTable } from "../../graph/kernel.js";
import type { Plan } from "../../plan/plan.js";
import { compileProgram } from "../../plan/program.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { Placed } from "../../tensor/placed.js";
import { elementCount, View } from "../../tensor/view.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import type { Forecast } from "../backend.js";
import { foresee } from "./binding.js";
import { Device } from "./device.js";
import { WebgpuSession } from "./session.js";

/** How a plan would run for inputs of these types and shapes. */
export function forecastPlan(plan: Plan, inputs: readonly Fact[], kernels: KernelTable<WebgpuKernel>): Forecast {
  const program = compileProgram(plan, inputs, { resultsInArena: true, apart: true });
  const session = new WebgpuSession(imaginaryDevice(), kernels, "host", {});
  const caches = new Set(plan.pairs.map(({ past }) => past));
  const places = plan.graph.inputs.map((value): Placed => {
    const { type, shape } = program.facts.get(value) ?? value.fact!;
    if (!isKnownShape(shape)) return new View(type, [0], new Uint8Array(0));
    // Caches are a state's; everything else is fed.
    if (!caches.has(value)) return new View(type, shape, new Uint8Array(0));
    const bytes = type === "string" ? 0 : byteLengthOf(type, elementCount(shape));
    return new Placed(type, shape, session.memory.allocate(bytes, value.name));
  });
  return { accounts: foresee(session, program, places), program };
}

/** A device that takes everything and does nothing. */
function imaginaryDevice(): Device {
  const most = 2 ** 40;
  const limits: Partial<GPUSupportedLimits> = {
    maxBufferSize: most,
    maxStorageBufferBindingSize: most,
    maxStorageBuffersPerShaderStage: 8,
    maxComputeWorkgroupsPerDimension: 65535,
    maxComputeWorkgroupStorageSize: 16384,
    maxComputeInvocationsPerWorkgroup: 256,
    maxComputeWorkgroupSizeX: 256,
    minUniformBufferOffsetAlignment: 256,
  };
  const never = <T>(): Promise<T> => new Promise<T>(() => undefined);
  const nothing = (): undefined => undefined;
  const queue: Partial<GPUQueue> = { writeBuffer: nothing };
  const buffer: Partial<GPUBuffer> = { destroy: nothing };
  const gpu: Partial<GPUDevice> = {
    limits: limits as GPUSupportedLimits,
    features: new Set() as GPUSupportedFeatures,
    queue: queue as GPUQueue,
    lost: never(),
    addEventListener: nothing,
    pushErrorScope: nothing,
    popErrorScope: async () => null,
    createBuffer: () => buffer as GPUBuffer,
    createShaderModule: () => ({}) as GPUShaderModule,
    createComputePipelineAsync: never,
  };
  const info: Partial<GPUAdapterInfo> = { vendor: "a GPU", architecture: "", description: "" };
  const adapter: Partial<GPUAdapter> = { info: info as GPUAdapterInfo };
  return new Device(gpu as GPUDevice, adapter as GPUAdapter, {}, false, {}, true);
}
