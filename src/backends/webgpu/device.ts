/**
 * A GPU device: chosen once and shared by all sessions that ask alike, destroyed with the last of them. Its features and limits are asked for
 * and never needed. Failures that WebGPU reports behind one's back (lost device, no memory) come out here as errors.
 */
import { InsituError } from "../../base/error.js";
import type { Platform } from "../../base/platform.js";
import type { DeviceTraits, SubgroupMatrix } from "../../webgpu-kernels/webgpu-kernel.js";
import { keeping, tuningFor } from "../../webgpu-kernels/tuning.js";
import { Commons } from "../common.js";
import { Unavailable } from "../unavailable.js";
import type { WebgpuSettings } from "./settings.js";

/** WebGPU's numbers for what a buffer is used for. */
export const usage = { mapRead: 1, copySource: 4, copyTarget: 8, uniform: 64, storage: 128 } as const;

/** WebGPU's number for reading what is mapped. */
export const mapToRead = 1;

/** Milliseconds in which a browser that ended a call tells that the device is gone. */
const mostWaitForLoss = 500;

/** Buffers that were asked for, and whether there was memory for them. */
export interface MadeBuffers {
  readonly result: readonly GPUBuffer[];
  readonly settled: Promise<void>;
}

/** A device that is open. */
export class Device {
  readonly gpu: GPUDevice;
  readonly queue: GPUQueue;
  readonly traits: DeviceTraits;
  readonly description: string;
  /** True for one that forecasts are made on: it holds nothing, and nothing is brought there. */
  readonly isImaginary: boolean;
  /** True for one that is no GPU but a program. */
  readonly isSoftware: boolean;
  /** What sessions hold once. */
  readonly common: Commons<MadeBuffers> = new Commons();
  #lost: string | undefined;
  /** What WebGPU refused when nobody was listening: results since then are nobody's. */
  #refused: string | undefined;
  /** Resolves once `check` throws. */
  readonly gone: Promise<void>;
  /** Waits for what takes long, as the platform does. */
  readonly awaiting: <T>(coming: Promise<T>) => Promise<T>;

  constructor(
    gpu: GPUDevice,
    adapter: GPUAdapter,
    settings: WebgpuSettings,
    dots: boolean,
    { awaitGpu = (coming) => coming }: Pick<Platform, "awaitGpu"> = {},
    isImaginary = false,
  ) {
    this.gpu = gpu;
    this.awaiting = awaitGpu;
    this.isImaginary = isImaginary;
    this.queue = gpu.queue;
    const { subgroupMinSize, subgroupMaxSize, vendor, architecture, description } = adapter.info;
    const sized = gpu.features.has("subgroups") && subgroupMinSize === subgroupMaxSize;
    const subgroup = sized && settings.subgroups !== false ? subgroupMinSize : undefined;
    const f16 = gpu.features.has("shader-f16") && settings.f16 !== false;
    this.traits = {
      subgroup,
      f16,
      dots,
      subgroupMatrix:
        subgroup !== undefined && f16 && settings.subgroupMatrices !== false
          ? subgroupMatrixOf(gpu, adapter.info)
          : undefined,
      mostWorkgroups: gpu.limits.maxComputeWorkgroupsPerDimension,
      workgroupBytes: gpu.limits.maxComputeWorkgroupStorageSize,
      mostBindings: gpu.limits.maxStorageBuffersPerShaderStage,
      mostBindingBytes: Math.min(gpu.limits.maxBufferSize, gpu.limits.maxStorageBufferBindingSize),
      tuning: tuningFor(adapter.info),
      mostInvocations: Math.min(gpu.limits.maxComputeInvocationsPerWorkgroup, gpu.limits.maxComputeWorkgroupSizeX),
    };
    this.description = [description || vendor, architecture].filter((text) => text !== "").join(" ") || "unnamed";
    this.isSoftware = adapter.info.isFallbackAdapter;
    this.gone = new Promise((resolve) => {
      gpu.addEventListener("uncapturederror", (event) => {
        event.preventDefault();
        this.#refused ??= event.error.message;
        resolve();
      });
      void gpu.lost.then(({ reason, message }) => {
        if (reason === "destroyed") return;
        this.#lost = message || "no reason was given";
        resolve();
      });
    });
  }

  /** True once nothing more is to be asked of it. */
  get isLost(): boolean {
    return this.#lost !== undefined || this.#refused !== undefined;
  }

  /** Gives back what the device has; one that went away by itself has nothing, and is not asked: bindings end the process then. */
  destroy(): void {
    if (this.#lost === undefined) this.gpu.destroy();
  }

  /** Throws once the device is gone, or what it computes cannot be vouched for. */
  check(): void {
    if (this.#lost !== undefined)
      throw new InsituError(
        "device-lost",
        `the GPU ${this.description} was lost, and all that lay on it: ${this.#lost}; create a new session`,
      );
    if (this.#refused !== undefined) throw this.refusal(this.#refused);
  }

  /** What it means that WebGPU rejected a promise: browsers tell that before they tell that the device is gone. */
  async meaningOf(cause: unknown): Promise<never> {
    await Promise.race([this.gone, new Promise((resolve) => setTimeout(resolve, mostWaitForLoss))]);
    this.check();
    throw cause;
  }

  /** What is said once WebGPU refused what it should not have: our own mistake, or the driver's. */
  refusal(reason: string): InsituError {
    return new InsituError(
      "internal",
      `internal: the GPU ${this.description} refused what it was given, and what lies there cannot be vouched for: ${reason}; create a new session, on another backend if it comes again`,
    );
  }

  /** Does work whose failures WebGPU tells only afterwards: the result at once, and a promise that rejects with the failure. */
  attempt<T>(what: string, work: () => T): { readonly result: T; readonly settled: Promise<void> } {
    this.check();
    this.gpu.pushErrorScope("out-of-memory");
    this.gpu.pushErrorScope("validation");
    let result: T;
    let errors: Promise<GPUError | null>[] = [];
    try {
      result = work();
    } finally {
      errors = [this.gpu.popErrorScope(), this.gpu.popErrorScope()];
    }
    const asked = Promise.all(errors).catch((cause: unknown) => this.meaningOf(cause));
    const settled = asked.then(([invalid, memory]) => {
      this.check();
      if (memory !== null) throw new InsituError("out-of-memory", `${what}: ${memory.message}`);
      if (invalid !== null) throw new InsituError("internal", `${what}: ${invalid.message}`);
    });
    settled.catch(() => undefined);
    return { result, settled };
  }
}

interface Shared {
  readonly device: Promise<Device>;
  sessions: number;
  /** Ends the device if no session comes. */
  ending?: ReturnType<typeof setTimeout>;
}

const shared = new WeakMap<Platform, Map<string, Shared>>();

/** Limits that are raised to what the adapter has. */
const raised = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
] as const;

/** Dawn's name for matrices of subgroups: no browser offers them unless it is told to. */
const matrixFeature: string = "chromium-experimental-subgroup-matrix";

const wantedFeatures = ["shader-f16", "subgroups", "timestamp-query", matrixFeature as GPUFeatureName] as const;

/** Sizes of matrices that an adapter tells of. */
interface MatrixConfig {
  readonly componentType: string;
  readonly resultComponentType: string;
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

/** The sizes that kernels are written for, where the device has them. */
function subgroupMatrixOf(gpu: GPUDevice, info: GPUAdapterInfo): SubgroupMatrix | undefined {
  if (!gpu.features.has(matrixFeature)) return undefined;
  const { subgroupMatrixConfigs = [] } = info as { readonly subgroupMatrixConfigs?: Iterable<MatrixConfig> };
  const found = [...subgroupMatrixConfigs].find(
    ({ componentType, resultComponentType, M, N, K }) =>
      componentType === "f16" && resultComponentType === "f32" && M === 16 && N === 16 && K === 16,
  );
  return found && { rows: found.M, columns: found.N, depth: found.K };
}

async function openDevice(platform: Platform, settings: WebgpuSettings): Promise<Device> {
  const found = await platform.gpu?.();
  if (found === undefined || typeof found === "string")
    throw new Unavailable("backend", "invalid-argument", `WebGPU is not available here: ${found ?? "there is none"}`);
  const unavailable = (what: string, cause: unknown): never => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Unavailable(
      "backend",
      "invalid-argument",
      `WebGPU gives no ${what} here: ${reason}; ask for another backend`,
      { cause },
    );
  };
  const adapter = await (found as GPU)
    .requestAdapter({ powerPreference: settings.powerPreference ?? "high-performance" })
    .catch((cause: unknown) => unavailable("adapter", cause));
  if (adapter === null)
    throw new Unavailable(
      "backend",
      "invalid-argument",
      "WebGPU has no adapter here: no GPU, no driver, or one that the browser does not trust; ask for another backend",
    );
  const device = await adapter
    .requestDevice({
      requiredFeatures: wantedFeatures.filter((feature) => adapter.features.has(feature)),
      requiredLimits: Object.fromEntries(raised.map((limit) => [limit, adapter.limits[limit]])),
    })
    .catch((cause: unknown) => unavailable("device", cause));
  const { wgslLanguageFeatures } = found as Partial<GPU>;
  const dots = wgslLanguageFeatures?.has("packed_4x8_integer_dot_product") === true;
  return new Device(device, adapter, settings, dots, platform);
}

/** The device for these settings, and what gives it up. */
export async function joinDevice(
  platform: Platform,
  settings: WebgpuSettings,
): Promise<{ readonly device: Device; readonly leave: () => void }> {
  const open = shared.get(platform) ?? new Map<string, Shared>();
  shared.set(platform, open);
  const key = JSON.stringify(settings);
  const entry: Shared = open.get(key) ?? { device: openDevice(platform, settings), sessions: 0 };
  open.set(key, entry);
  clearTimeout(entry.ending);
  entry.sessions++;
  const forget = (): void => {
    if (open.get(key) === entry) open.delete(key);
  };
  try {
    const device = await entry.device;
    let left = false;
    const leave = (): void => {
      if (left) return;
      left = true;
      if (--entry.sessions > 0) return;
      const end = (): void => {
        forget();
        device.destroy();
      };
      entry.ending = setTimeout(end, keeping.deviceMilliseconds);
      // In Node a process does not wait for it.
      (entry.ending as { unref?(): void }).unref?.();
    };
    if (!device.isLost) return { device, leave };
    // A device that was lost or given up is nobody's any more: the next session opens another, and it ends with its last one.
    leave();
    forget();
    return await joinDevice(platform, settings);
  } catch (error) {
    forget();
    throw error;
  }
}
