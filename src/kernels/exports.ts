/**
 * What the compiled kernels export, and how they are called. The kernels' sources are in `kernels/`, from which the build writes
 * their list and their jobs (*.gen.ts); this is the contract that the backend is written against. Not a loader: that needs to know where it runs.
 *
 * Every kernel has the same four parameters. `job` is the address of a job (jobs.ts), which the kernel only reads; a job stays valid as
 * long as its addresses do, so that a program's jobs are written once. What changes from step to step (lengths, positions, indices)
 * is read through pointers. `part` of `parts` is the share of the work: calling a kernel once for every part, in any order and on any
 * threads, does all of it; no two parts write the same byte. The result does not depend on the number of parts, except
 * through `splits` of an attention. `scratch` is memory of the calling thread alone, at a multiple of 16, of at least `scratchBytes`.
 *
 * Kernels check nothing, allocate nothing and keep no state: instances on several threads share one memory.
 */
import { elementCode, type JobValues, pageCode } from "./jobs.js";
import type { KernelJobs } from "./kernels.gen.js";

export { type KernelJobs, kernelJobs } from "./kernels.gen.js";

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

/** Bytes of `rows` of a matmul's job. */
export const packedRowBytes = (job: { readonly batch: number; readonly m: number; readonly k: number }): number =>
  job.batch * Math.ceil(job.m / 4) * 4 * job.k * 4;

/** Bytes of a panel of eight columns and of its sums in scratch. */
const panelBytes = 256 * 32 + 64 + 128 * 32;

/** How many panels a product of many rows packs at a time: the longer the pieces of rows that are read, the nearer to memory's speed. */
export const panelsAtOnce = (columns: number, scratch: number): number =>
  Math.max(1, Math.min(64, Math.ceil(columns / 8), Math.floor(scratch / panelBytes)));

/** Bytes of the three targets of quantizeRows. */
export function quantizedBytes(job: {
  readonly m: number;
  readonly k: number;
  readonly blockSize: number;
  readonly bits: number;
  readonly precision: number;
}): { readonly values: number; readonly scales: number; readonly sums: number } {
  // Many rows, and weights that only tiles unpack: four rows are woven together.
  const tiled = job.m >= 12 || job.bits === 2 || job.blockSize < 32;
  const rows = tiled ? Math.ceil(job.m / 4) * 4 : job.m;
  const length = Math.ceil(job.k / job.blockSize) * job.blockSize;
  const group = job.precision === 8 ? 32 : 256; // activations that share a scale
  return {
    // 8 bits: every 32 come with 4 bytes for tiles, or else with their scale, their sum and padding.
    values: job.precision === 16 ? rows * length * 2 : (rows * length * (tiled ? 36 : 48)) / 32,
    scales: rows * Math.ceil(length / group) * 4,
    sums: rows * (length / (job.precision === 8 ? 32 : job.blockSize)) * 4,
  };
}

/** Bytes of an attention's partials. */
export const partialBytes = (job: {
  readonly batch: number;
  readonly heads: number;
  readonly splits: number;
  readonly valueSize: number;
}): number => (job.splits === 1 ? 0 : job.batch * job.heads * job.splits * (2 + job.valueSize) * 4);

/** Bytes of scratch that one call of a kernel needs; each thread has its own. */
export function scratchBytes<Name extends KernelName>(name: Name, job: JobOf<Name>): number;
export function scratchBytes(name: KernelName, job: Readonly<Record<string, number>>): number {
  const round = (size: number): number => Math.ceil(size / 4) * 16; // float32, whole vectors
  switch (name) {
    case "attentionDecode":
    case "scatterAttentionDecode": {
      const group = job.heads / job.kvHeads;
      const row = Math.max(round(job.headSize), round(job.valueSize));
      return group * (round(job.headSize) + round(job.valueSize) + 1024 * 4 + 64 + 16) + row;
    }
    case "attentionMerge":
      return round(job.valueSize) + 16;
    case "pagedDecode": {
      const group = job.heads / job.kvHeads;
      const row = Math.max(round(job.headSize), round(job.valueSize));
      // Heads that are walked together, and those whose rows are unpacked together.
      const walked = Math.min(job.kvHeads, Math.max(1, Math.floor(64 / group)));
      const unpacked = job.piece !== 0 || job.cacheType > pageCode.int8 ? Math.min(8, walked) : 0;
      const head = round(job.headSize) + round(job.valueSize) + 1024 * 4 + 64 + 16;
      return 128 + walked * group * head + (1 + 32 * unpacked) * row;
    }
    case "repackRows":
      return 4 * job.count + job.pieceBytes + 16;
    case "quantizePages":
      return round(job.size);
    case "attentionPrefill":
    case "pagedPrefill": {
      const [size, values] = [Math.ceil(job.headSize / 4) * 4, Math.ceil(job.valueSize / 8) * 8];
      const unpacked = name === "pagedPrefill" ? 64 * Math.max(round(job.headSize), round(job.valueSize)) : 0;
      return 128 + (2 * 64 + 4) * 4 * size + 2 * 64 * 4 * values + 2 * 64 * 64 * 4 + 512 + 3 * 64 * 4 + unpacked;
    }
    case "matmul":
      if (job.rows === 0) return job.m * 4 * (job.scale === 0 ? Math.ceil(job.k / job.splits) : Math.min(4096, job.n));
      return job.panels * panelBytes;
    case "packRows":
      return 4 * 256 * 4;
    case "quantizeRows":
      return 256 * 4;
    case "convert":
      return 1024 * 4;
    case "matmulBlocks": {
      const length = Math.ceil(job.k / job.blockSize) * job.blockSize;
      const span = Math.min(length, 4096);
      const scales = Math.ceil(span / Math.min(job.blockSize, job.precision === 8 ? 32 : 256)) * 32;
      const zeros = job.zeros === 0 ? 0 : (length / (job.precision === 8 ? 32 : job.blockSize)) * 32;
      const tiles = 128 * 32 + scales + zeros + span * job.precision;
      return Math.max(tiles, 2 * job.k + 20 * 1024);
    }
    case "matmulInteger":
      return 128 + 256 * 8 + 16 * 16 + 128 * 256 * 2 + 16 * (128 * 32 + 64);
    case "rmsNormalize":
    case "layerNormalize":
      return (
        (job.type === elementCode.float32 && job.skip === 0 && job.addend === 0 ? 0 : round(job.size)) + 2 * 256 * 4
      );
    case "softmaxRows":
      return job.type === elementCode.float32 ? 0 : round(job.size);
    case "rotate":
      return 2 * round(job.pairs) + round(2 * job.pairs);
    case "gatherRows":
      return 1024 * 4;
    case "elements":
      return 3 * (2048 + 16);
    case "reduce":
    case "scan":
      return 256 * 8 + 16;
    case "elementwise":
      return 32 + 8 * (512 * 4 + 16);
    default:
      return 0;
  }
}
