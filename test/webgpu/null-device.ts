// Shaders of a device that is not there: its traits, operands for kernels, and Dawn's null backend, which knows every feature, compiles, and runs nothing.
import { shaderOf } from "../../src/backends/webgpu/pipelines.js";
import { CallRecorder } from "../../src/backends/webgpu/recorder.js";
import type { Operand } from "../../src/graph/kernel.js";
import { blockWeights } from "../../src/ops/shared/webgpu/block-weights.js";
import { floatWeights, type Weights } from "../../src/ops/shared/webgpu/product-operands.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";
import { usualTuning } from "../../src/webgpu-kernels/tuning.js";
import type { DeviceTraits, Dispatch } from "../../src/webgpu-kernels/webgpu-kernel.js";

const dawn = await import("webgpu").catch(() => undefined);

export const hasDawn = dawn !== undefined;

/** A device with float16 and matrices of subgroups. */
export const traitsWith = (workgroupBytes: number, subgroup = 32): DeviceTraits => ({
  subgroup,
  f16: true,
  dots: true,
  subgroupMatrix: { rows: 16, columns: 16, depth: 16 },
  mostWorkgroups: 65535,
  workgroupBytes,
  mostBindings: 8,
  mostBindingBytes: 2 ** 30,
  mostInvocations: 256,
  tuning: usualTuning,
});

export const operand = (type: ElementType, shape: readonly number[], constant = false): Operand => {
  const view = View.allocate(type, shape);
  const { strides } = view;
  return { type, shape, strides, place: view, view, contiguous: true, constant, known: constant };
};

/** Floats, or blocks of some bits with zero points of some kind. */
export type WeightKind = "float16" | { readonly bits: 2 | 4 | 8; readonly zeros: "one" | "packed" | "elements" };

/** Weights of n columns with k rows. */
export function weightsFor(kind: WeightKind, k: number, n: number, traits: DeviceTraits): Weights {
  if (kind === "float16") {
    const recorder = new CallRecorder(traits, new Set());
    return floatWeights(operand("float16", [k, n], true), { row: 1, k: n }, { n, k }, recorder)!;
  }
  const { bits, zeros } = kind;
  const blocks = Math.ceil(k / 32);
  return blockWeights({
    data: operand("uint8", [n, blocks, 4 * bits]),
    scales: operand("float16", [n, blocks]),
    zeros:
      zeros === "one"
        ? { kind: zeros, value: 2 ** (bits - 1) }
        : zeros === "packed"
          ? { kind: zeros, operand: operand("uint8", [n, Math.ceil((blocks * bits) / 8)]) }
          : { kind: zeros, operand: operand("float16", [n, blocks]), added: 0 },
    bits,
    blockSize: 32,
    k,
  });
}

/** Compiles the shaders of dispatches: what Dawn has to say of each. */
export class NullDevice {
  readonly #gpu: GPU;
  readonly #device: GPUDevice;

  private constructor(gpu: GPU, device: GPUDevice) {
    this.#gpu = gpu;
    this.#device = device;
  }

  static async open(): Promise<NullDevice> {
    Object.assign(globalThis, dawn!.globals);
    const gpu = dawn!.create(["backend=null", "enable-dawn-features=allow_unsafe_apis"]);
    const adapter = (await gpu.requestAdapter())!;
    const matrices: string = "chromium-experimental-subgroup-matrix";
    const requiredFeatures = ["shader-f16", "subgroups", matrices as GPUFeatureName] as const;
    return new NullDevice(gpu, await adapter.requestDevice({ requiredFeatures: [...requiredFeatures] }));
  }

  async messagesOf(dispatch: Dispatch): Promise<readonly string[]> {
    const code = shaderOf(dispatch);
    const { messages } = await this.#device.createShaderModule({ code }).getCompilationInfo();
    return messages.map(({ message, lineNum }) => `${lineNum}: ${message}`);
  }

  release(): void {
    this.#device.destroy();
    // Devices must not outlive what they came from, which nothing else holds.
    void this.#gpu;
  }
}
