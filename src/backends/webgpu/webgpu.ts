/** The WebGPU backend: kernels in WGSL, caches in buffers of the device. In browsers WebGPU is the browser's, in Node the package `webgpu`. */
import type { KernelTable } from "../../graph/kernel.js";
import type { Plan } from "../../plan/plan.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import type { Backend, BackendSession, Executable } from "../backend.js";
import { joinDevice } from "./device.js";
import { WebgpuExecutable } from "./executable.js";
import { pipelineCount } from "./pipelines.js";
import { WebgpuSession } from "./session.js";
import { readWebgpuSettings } from "./settings.js";

/** Makes the backend from the kernels that operators have. */
export function webgpuBackend(kernels: KernelTable<WebgpuKernel>): Backend {
  return {
    name: "webgpu",
    async open({ platform, settings }): Promise<BackendSession> {
      const { device, leave } = await joinDevice(platform, readWebgpuSettings(settings));
      const session = new WebgpuSession(device, kernels);
      let released = false;
      return {
        describe: () => [
          `${device.description}: ${session.memory.byteLength} bytes of this session, ${pipelineCount(device)} pipelines`,
        ],
        prepare: (plan: Plan): Executable => new WebgpuExecutable(plan, session),
        release() {
          if (released) return;
          released = true;
          session.release();
          leave();
        },
      };
    },
  };
}
