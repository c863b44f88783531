/** Kernels alone, on a memory of their own, with no session around them, so that nothing else is in the figures. */
import { loadKernelModule } from "#insitu/backends/wasm/load-module.js";
import { WasmMemory } from "#insitu/backends/wasm/memory.js";
import { KernelPool } from "#insitu/backends/wasm/pool.js";
import { type JobOf, kernelJobs, type KernelName, reservedBytes } from "#insitu/wasm-kernels/exports.js";
import { jobBytes, type JobLayout, writeJob } from "#insitu/wasm-kernels/jobs.js";
import { nodePlatform } from "#insitu/platform/node.js";
import type { Tensor } from "#insitu/tensor/tensor.js";

/** Kernels on a memory of their own. */
export class Kernels {
  readonly memory: WasmMemory;
  readonly pool: KernelPool;

  private constructor(memory: WasmMemory, pool: KernelPool) {
    this.memory = memory;
    this.pool = pool;
  }

  static async start(threads: number): Promise<Kernels> {
    const { module } = await loadKernelModule(nodePlatform, true);
    const memory = new WasmMemory(reservedBytes);
    const pool = await KernelPool.start({
      memory,
      module,
      kernels: Object.keys(kernelJobs),
      threads,
      startWorker: (start) => nodePlatform.startKernelWorker(start),
    });
    return new Kernels(memory, pool);
  }

  /** The address of a copy of a tensor. */
  place(tensor: Tensor): number {
    const { buffer, byteOffset, byteLength } = tensor.data as Float32Array;
    const address = this.memory.take(byteLength);
    new Uint8Array(this.memory.buffer, address, byteLength).set(new Uint8Array(buffer, byteOffset, byteLength));
    return address;
  }

  placeInteger(value: number): number {
    const address = this.memory.take(8);
    new BigInt64Array(this.memory.buffer, address, 1)[0] = BigInt(value);
    return address;
  }

  /** A function that runs a job. */
  job<Name extends KernelName>(kernel: Name, job: JobOf<Name>, parts: number): () => void {
    const layout: JobLayout = kernelJobs[kernel];
    const address = this.memory.take(jobBytes(layout));
    const { buffer } = this.memory;
    const values = job as Readonly<Record<string, number>>;
    writeJob(new Int32Array(buffer), new Float32Array(buffer), address, layout, values);
    return () => this.pool.run(kernel, address, parts);
  }
}
