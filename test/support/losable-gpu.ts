// The machine's GPU, for all that a test loads, with devices that can be lost, and with a count of what is compiled there.
import { nodePlatform } from "../../src/platform/node.js";
import { proxied } from "./gpu.js";

/** A GPU in the place of the platform's own until `restore`. */
export class LosableGpu {
  /** Devices that were opened. */
  opened = 0;
  /** Pipelines that were asked for. */
  pipelines = 0;
  /** Pipelines that are refused from now on, as by a driver that has no memory for them. */
  failing = 0;
  /** Called with each device before anybody has it. */
  onDevice: () => void = () => {};
  #device: GPUDevice | undefined;
  readonly restore: () => void;

  constructor() {
    const platform = nodePlatform as { gpu?: () => Promise<object | string> };
    const real = platform.gpu!;
    platform.gpu = async () => {
      const gpu = (await real()) as GPU;
      const requestAdapter = async (options?: GPURequestAdapterOptions): Promise<GPUAdapter> => {
        const adapter = (await gpu.requestAdapter(options))!;
        const requestDevice = async (descriptor?: GPUDeviceDescriptor): Promise<GPUDevice> =>
          this.#watched(await adapter.requestDevice(descriptor));
        return proxied(adapter, { requestDevice });
      };
      return { requestAdapter };
    };
    this.restore = () => void (platform.gpu = real);
  }

  /** Takes away the device that was opened last. */
  lose(): void {
    this.#device?.destroy();
  }

  #watched(device: GPUDevice): GPUDevice {
    this.opened++;
    this.#device = device;
    this.onDevice();
    const lost = device.lost.then(({ message }) => ({ reason: "unknown", message: `${message} (in a test)` }));
    return proxied(device, {
      lost,
      createComputePipelineAsync: (descriptor: GPUComputePipelineDescriptor) => {
        this.pipelines++;
        if (this.failing > 0) {
          this.failing--;
          return Promise.reject(new DOMException("there is no memory (in a test)", "OperationError"));
        }
        return device.createComputePipelineAsync(descriptor);
      },
    });
  }
}
