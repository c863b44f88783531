/** The WebGPU backend: kernels in WGSL, caches in buffers of the device. In browsers WebGPU is the browser's, in Node the package `webgpu`. */
import type { KernelTable } from "../../graph/kernel.js";
import type { Plan } from "../../plan/plan.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import type { Backend, BackendSession, Executable } from "../backend.js";
import { Unavailable } from "../unavailable.js";
import { joinDevice } from "./device.js";
import { WebgpuExecutable } from "./executable.js";
import { forecastPlan } from "./forecast.js";
import { WebgpuSession } from "./session.js";
import { readWebgpuSettings } from "./settings.js";

/** Makes the backend from the kernels that operators have. */
export function webgpuBackend(kernels: KernelTable<WebgpuKernel>): Backend {
  return {
    name: "webgpu",
    hasKernel: (op) => kernels.has(op),
    forecast: (plan, inputs) => forecastPlan(plan, inputs, kernels),
    async open({ platform, settings, fallback, automatic, batchInvariant }): Promise<BackendSession> {
      if (batchInvariant === true)
        throw new Unavailable(
          "backend",
          "invalid-argument",
          "option batchInvariant: WebGPU's kernels go by the number of rows; leave the option out, or ask for another backend",
        );
      const read = readWebgpuSettings(settings);
      const { device, leave } = await joinDevice(platform, read);
      if (automatic === true && device.isSoftware) {
        leave();
        const reason = `${device.description} computes on the processor, which other backends do better`;
        throw new Unavailable("backend", "invalid-argument", `WebGPU has no GPU here: ${reason}`);
      }
      const session = new WebgpuSession(device, kernels, fallback ?? "host", read);
      const { subgroupMatrix, tuning } = device.traits;
      const { busyRows, busyMatrixRows } = tuning.manyRows;
      const isQuick = subgroupMatrix !== undefined;
      let releasing: Promise<void> | undefined;
      return {
        describe: () => session.describe(),
        busyRows: isQuick
          ? { usual: busyMatrixRows, long: 2 * busyMatrixRows }
          : { usual: busyRows, long: 4 * busyRows },
        lost: session.device.lost,
        checkWeights: (weights) => session.memory.checkWeights(weights, ({ view }) => session.weights.isThere(view)),
        bringWeights: (weights, onRead, meanwhile) =>
          session.bringing(() => session.weights.bring(weights, onRead, meanwhile)),
        ...((read.compileAhead ?? !device.isSoftware)
          ? { compileAhead: (work, tell) => session.compileAhead(work, tell) }
          : {}),
        prepare: (plan: Plan): Executable => new WebgpuExecutable(plan, session),
        release: () => (releasing ??= session.release().finally(leave)),
      };
    },
  };
}
