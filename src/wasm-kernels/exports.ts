/**
 * What the compiled kernels export, and how they are called. The kernels' sources are in `kernels/`, from which the build writes
 * their list, their jobs and the sizes they ask for (*.gen.ts); this is the contract that the backend is written against. Not a loader: that needs to know where it runs.
 *
 * Every kernel has the same four parameters. `job` is the address of a job (jobs.ts), which the kernel only reads; a job stays valid as
 * long as its addresses do, so that a program's jobs are written once. What changes from step to step (lengths, positions, indices)
 * is read through pointers. `part` of `parts` is the share of the work: calling a kernel once for every part, in any order and on any
 * threads, does all of it; no two parts write the same byte. The result does not depend on the number of parts, except
 * through `splits` of an attention. `scratch` is memory of the calling thread alone, at a multiple of 16, of at least `scratchBytes`.
 *
 * Kernels check nothing, allocate nothing and keep no state: instances on several threads share one memory.
 */
import type { JobValues } from "./jobs.js";
import { type KernelJobs, kernelScratch } from "./kernels.gen.js";
import { quantizedScaleBytes, quantizedSumBytes, quantizedValueBytes } from "./sizes.gen.js";

export { kernelJobs } from "./kernels.gen.js";
export { packedRowBytes, panelsAtOnce, partialsBytes as partialBytes } from "./sizes.gen.js";

/** A kernel: does one part of a job. */
export type Kernel = (job: number, part: number, parts: number, scratch: number) => void;

/** The name of a kernel. */
export type KernelName = keyof KernelJobs;

/** The values of a kernel's job. */
export type JobOf<Name extends KernelName> = JobValues<KernelJobs[Name]>;

/** The exports of the compiled module. Its only import is `env.memory`, which is shared. */
export type KernelExports = { readonly [Name in KernelName]: Kernel };

/** Bytes from address 0 on that belong to the compiled modules: nothing else may lie there. */
export const reservedBytes = 1024;

/** Bytes of the three targets of quantizeRows. */
export function quantizedBytes(job: Parameters<typeof quantizedValueBytes>[0]): {
  readonly values: number;
  readonly scales: number;
  readonly sums: number;
} {
  return { values: quantizedValueBytes(job), scales: quantizedScaleBytes(job), sums: quantizedSumBytes(job) };
}

/** Bytes of scratch that one call of a kernel needs; each thread has its own. */
export function scratchBytes<Name extends KernelName>(name: Name, job: JobOf<Name>): number {
  return kernelScratch[name]?.(job) ?? 0;
}
