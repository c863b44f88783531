// A GPU that is the machine's own but for what a test changes, sessions on it, and a count of what is made on it.
import type { Platform } from "../../src/base/platform.js";
import { backends } from "../../src/entry/backends.js";
import { nodePlatform } from "../../src/platform/node.js";
import type { ModelSource } from "../../src/session/load.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Session } from "../../src/session/session.js";

/** A session in a place whose GPU is what a test says. Places are told apart: one device serves all sessions of one. */
export class PlacedSession extends Session {
  static place(gpu: () => Promise<GPU | string>): Platform {
    return { ...nodePlatform, gpu };
  }

  static async on(platform: Platform, model: ModelSource, options: SessionOptions = {}): Promise<PlacedSession> {
    return new PlacedSession(await Session.prepare(model, platform, backends, { backend: "webgpu", ...options }));
  }
}

/** A GPU whose adapter is changed. */
export const adapterOf =
  (change: (adapter: GPUAdapter) => GPUAdapter | null): (() => Promise<GPU | string>) =>
  async () => {
    const gpu = (await nodePlatform.gpu!()) as GPU;
    const requestAdapter = async (options?: GPURequestAdapterOptions): Promise<GPUAdapter | null> =>
      change((await gpu.requestAdapter(options))!);
    return { requestAdapter } as GPU;
  };

/** A GPU whose device is changed. */
export const deviceOf = (change: (device: GPUDevice) => GPUDevice): (() => Promise<GPU | string>) =>
  adapterOf((adapter) =>
    proxied(adapter, {
      requestDevice: async (descriptor?: GPUDeviceDescriptor) => change(await adapter.requestDevice(descriptor)),
    }),
  );

/** An object of the platform's with some members in the place of its own. */
export function proxied<T extends object>(of: T, members: object): T {
  return new Proxy(of, {
    get(target, name) {
      if (name in members) return (members as Record<string | symbol, unknown>)[name];
      const member: unknown = Reflect.get(target, name);
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
}

/** What an adapter tells of itself, to be changed. */
export const infoOf = ({ info }: GPUAdapter): object => ({
  vendor: info.vendor,
  architecture: info.architecture,
  description: info.description,
  subgroupMinSize: info.subgroupMinSize,
  subgroupMaxSize: info.subgroupMaxSize,
});

/** A GPU whose adapter offers no more than these limits: WebGPU itself refuses what goes beyond. */
export const offeringGpu = (limits: Partial<Record<keyof GPUSupportedLimits, number>>): (() => Promise<GPU | string>) =>
  adapterOf((adapter) => proxied(adapter, { limits: proxied(adapter.limits, limits) }));

/** A device that adds the name of each dispatch to a list. */
const listing = (device: GPUDevice, dispatched: string[]): GPUDevice =>
  proxied(device, {
    createCommandEncoder: () => {
      const encoder = device.createCommandEncoder();
      return proxied(encoder, {
        beginComputePass: () => {
          const pass = encoder.beginComputePass();
          let name = "";
          return proxied(pass, {
            setPipeline: (pipeline: GPUComputePipeline) => {
              name = pipeline.label;
              pass.setPipeline(pipeline);
            },
            dispatchWorkgroups: (x: number, y?: number, z?: number) => {
              dispatched.push(name);
              pass.dispatchWorkgroups(x, y, z);
            },
          });
        },
      });
    },
  });

/** A GPU, the machine's own or a changed one, that adds the name of each dispatch to a list. */
export const listingGpu =
  (dispatched: string[], from = adapterOf((adapter) => adapter)): (() => Promise<GPU | string>) =>
  async () => {
    const gpu = (await from()) as GPU;
    const requestAdapter = async (options?: GPURequestAdapterOptions): Promise<GPUAdapter | null> => {
      const adapter = (await gpu.requestAdapter(options))!;
      return proxied(adapter, {
        requestDevice: async (descriptor?: GPUDeviceDescriptor) =>
          listing(await adapter.requestDevice(descriptor), dispatched),
      });
    };
    return { requestAdapter } as GPU;
  };

/** A GPU with limits below its own. What is larger than a binding is refused as WebGPU would. */
export const limitedGpu = (limits: Partial<Record<keyof GPUSupportedLimits, number>>): (() => Promise<GPU | string>) =>
  deviceOf((device) => {
    const most = limits.maxStorageBufferBindingSize ?? Infinity;
    return proxied(device, {
      limits: proxied(device.limits, limits),
      createBuffer: (descriptor: GPUBufferDescriptor) => {
        const isStorage = (descriptor.usage & 128) !== 0;
        if (isStorage && descriptor.size > most) throw new Error(`${descriptor.label}: a binding holds ${most} bytes`);
        return device.createBuffer(descriptor);
      },
    });
  });

/** A GPU, and no program that plays one, that has memory for so many bytes of buffers. */
export const smallGpu = (memory: number): (() => Promise<GPU | string>) =>
  adapterOf((adapter) =>
    proxied(adapter, {
      info: { ...infoOf(adapter), isFallbackAdapter: false },
      requestDevice: async (descriptor?: GPUDeviceDescriptor) =>
        withMemory(await adapter.requestDevice(descriptor), memory),
    }),
  );

function withMemory(device: GPUDevice, memory: number): GPUDevice {
  let [left, failed] = [memory, false];
  return proxied(device, {
    createBuffer: (descriptor: GPUBufferDescriptor) => {
      if (descriptor.size > left) failed = true;
      const fits = descriptor.size <= left;
      const buffer = device.createBuffer(fits ? descriptor : { ...descriptor, size: 16 });
      if (!fits) return buffer;
      left -= descriptor.size;
      const destroy = buffer.destroy.bind(buffer);
      let there = true;
      buffer.destroy = () => {
        if (there) left += descriptor.size;
        there = false;
        return destroy();
      };
      return buffer;
    },
    ...scopesOf(device, () => failed && !(failed = false)),
  });
}

/** Error scopes of a device that tell of missing memory where `takeFailure` says that there was none; it is asked once for each failure. */
export function scopesOf(device: GPUDevice, takeFailure: () => boolean): object {
  const scopes: GPUErrorFilter[] = [];
  return {
    pushErrorScope: (filter: GPUErrorFilter) => {
      scopes.push(filter);
      device.pushErrorScope(filter);
    },
    popErrorScope: async () => {
      const told = scopes.pop() === "out-of-memory" && takeFailure();
      const error = await device.popErrorScope();
      return told ? ({ message: "no memory is left (in a test)" } as GPUError) : error;
    },
  };
}

/** What was made on a device since it was counted, and the bytes of buffers that are there. */
export class Made {
  readonly made = { buffers: 0, bindGroups: 0, pipelines: 0, modules: 0 };
  bytes = 0;
  /** The same by what stands in front of the numbers in the buffers' labels. */
  readonly bytesOf: Map<string, number> = new Map();
  /** Pipelines that are being compiled, and how many were at most. */
  compiling = 0;
  mostCompiling = 0;
  readonly shaders: string[] = [];
  /** The labels of pipelines, which are the names of their kernels. */
  readonly kernels: string[] = [];

  /** A GPU that counts. */
  readonly gpu: () => Promise<GPU | string> = deviceOf((device) => {
    return proxied(device, {
      createBuffer: (descriptor: GPUBufferDescriptor) => {
        this.made.buffers++;
        const label = descriptor.label!.replace(/ \d+$/, "");
        const count = (bytes: number): void => {
          this.bytes += bytes;
          this.bytesOf.set(label, (this.bytesOf.get(label) ?? 0) + bytes);
        };
        count(descriptor.size);
        const buffer = device.createBuffer(descriptor);
        const destroy = buffer.destroy.bind(buffer);
        let there = true;
        // A buffer is handed back to WebGPU, which knows only its own: the count is put on it.
        buffer.destroy = () => {
          if (there) count(-descriptor.size);
          there = false;
          return destroy();
        };
        return buffer;
      },
      createBindGroup: (descriptor: GPUBindGroupDescriptor) => {
        this.made.bindGroups++;
        return device.createBindGroup(descriptor);
      },
      createShaderModule: (descriptor: GPUShaderModuleDescriptor) => {
        this.made.modules++;
        this.shaders.push(descriptor.code);
        return device.createShaderModule(descriptor);
      },
      createComputePipelineAsync: async (descriptor: GPUComputePipelineDescriptor) => {
        this.made.pipelines++;
        this.kernels.push(descriptor.label!);
        this.mostCompiling = Math.max(this.mostCompiling, ++this.compiling);
        try {
          return await device.createComputePipelineAsync(descriptor);
        } finally {
          this.compiling--;
        }
      },
    });
  });
}
