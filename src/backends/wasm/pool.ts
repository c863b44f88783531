/**
 * The threads that run kernels: the calling one and, where there are several, workers that spin for the next task and then park.
 * Runs one kernel at a time on one of the memories, split into parts; returns when all of them are done.
 */
import { InsituError } from "../../base/error.js";
import type { WorkerHandle } from "../../base/platform.js";
import {
  type Bench,
  Control,
  type MemoryStart,
  mostMemories,
  openBench,
  takeParts,
  takeReason,
  type WorkerStart,
} from "./control.js";
import { Unavailable } from "../unavailable.js";
import type { WasmMemory } from "./memory.js";

/** What a pool is made of. */
export interface PoolParts {
  readonly memory: WasmMemory;
  readonly module: WebAssembly.Module;
  readonly kernels: readonly string[];
  /** Threads in all, the calling one included. */
  readonly threads: number;
  readonly startWorker: (start: WorkerStart) => Promise<WorkerHandle>;
}

/** Bytes of scratch that each thread has in each memory; a small memory gives less. */
const mostScratch = 1 << 20;
const leastScratch = 1 << 18;

/** The threads of one backend instance. */
export class KernelPool {
  readonly threads: number;
  /** Bytes of scratch that a kernel may use on each thread. */
  readonly scratchBytes: number;
  readonly #parts: PoolParts;
  readonly #benches: Bench[] = [];
  readonly #numbers: ReadonlyMap<string, number>;
  readonly #words: Int32Array;
  readonly #base: number;
  readonly #workers: readonly WorkerHandle[];
  #failure: unknown;

  private constructor(
    parts: PoolParts,
    control: number,
    scratch: number,
    scratchBytes: number,
    workers: readonly WorkerHandle[],
  ) {
    const { memory, module, kernels } = parts;
    this.#parts = parts;
    this.scratchBytes = scratchBytes;
    this.threads = workers.length + 1;
    this.#benches.push(openBench(module, kernels, { memory: memory.memory, scratch }));
    this.#numbers = new Map(kernels.map((name, number) => [name, number]));
    this.#words = new Int32Array(memory.buffer, 0, (control >>> 2) + Control.words);
    this.#base = control >>> 2;
    this.#workers = workers;
  }

  /** Starts the workers and waits until each has answered. If one cannot be started, the others end and the reason is thrown. */
  static async start(parts: PoolParts, scratch?: number): Promise<KernelPool> {
    const { memory, module, kernels, threads, startWorker } = parts;
    const scratchBytes = scratch ?? Math.max(leastScratch, Math.min(mostScratch, memory.mostBytes / 16));
    const control = memory.take(Control.words * 4);
    const scratches = Array.from({ length: threads }, () => memory.take(scratchBytes));
    new Int32Array(memory.buffer, control, Control.words).fill(0);
    const started = await Promise.allSettled(
      scratches.slice(1).map((scratch) => startWorker({ module, memory: memory.memory, control, scratch, kernels })),
    );
    const workers = started.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
    const failed = started.find((start) => start.status === "rejected");
    if (failed !== undefined) {
      await Promise.all(workers.map((worker) => worker.terminate()));
      const { reason } = failed as { readonly reason: unknown };
      throw new Unavailable(
        "threads",
        "invalid-argument",
        `threads: ${threads} cannot be had here: a worker did not start (${messageOf(reason)}); ask for threads: 1`,
        { cause: reason },
      );
    }
    return new KernelPool(parts, control, scratches[0], scratchBytes, workers);
  }

  /**
   * Takes on another memory, as the next number. The workers join it on their own time; until all have, the calling thread does every
   * part of its tasks, which changes no result.
   */
  join(memory: WasmMemory): void {
    const number = this.#benches.length;
    if (number >= mostMemories)
      throw new InsituError("out-of-memory", `${mostMemories} WebAssembly memories are the most there can be`);
    const { module, kernels } = this.#parts;
    const starts = Array.from({ length: this.threads }, (): MemoryStart => ({
      memory: memory.memory,
      scratch: memory.take(this.scratchBytes),
    }));
    this.#benches.push(openBench(module, kernels, starts[0]));
    this.#workers.forEach((worker, at) => worker.post(starts[at + 1]));
    Atomics.store(this.#words, this.#base + Control.memories, number + 1);
    Atomics.add(this.#words, this.#base + Control.generation, 1);
    Atomics.notify(this.#words, this.#base + Control.generation);
  }

  /** True if every worker has joined a memory. */
  isJoined(memory: number): boolean {
    return memory === 0 || Atomics.load(this.#words, this.#base + Control.joined + memory) === this.#workers.length;
  }

  /** Runs all parts of a job in a memory. With one part, or one thread, nothing is handed over. */
  run(kernel: string, job: number, parts: number, memory = 0): void {
    const number = this.#numbers.get(kernel);
    if (number === undefined) throw new InsituError("internal", `there is no kernel ${kernel}`);
    if (parts === 1 || this.#workers.length === 0 || !this.isJoined(memory)) {
      const { kernels, scratch } = this.#benches[memory];
      try {
        for (let part = 0; part < parts; part++) kernels[number](job, part, parts, scratch);
      } catch (error) {
        throw failureOf(kernel, error);
      }
      return;
    }
    const words = this.#words;
    const base = this.#base;
    words[base + Control.memory] = memory;
    words[base + Control.kernel] = number;
    words[base + Control.job] = job;
    words[base + Control.parts] = parts;
    Atomics.store(words, base + Control.unfinished, parts);
    Atomics.store(words, base + Control.remaining, parts);
    Atomics.add(words, base + Control.generation, 1);
    if (Atomics.load(words, base + Control.parked) > 0) Atomics.notify(words, base + Control.generation, parts - 1);
    takeParts(words, base, this.#benches, this.#fail);
    // A page's main thread may not wait: it looks on until the last part is done.
    while (Atomics.load(words, base + Control.unfinished) > 0);
    const failure = this.#failure ?? takeReason(words, base);
    if (failure === undefined) return;
    this.#failure = undefined;
    Atomics.store(words, base + Control.failed, 0);
    throw failureOf(kernel, failure);
  }

  // One function for all runs: a step allocates nothing.
  readonly #fail = (error: unknown): void => {
    this.#failure = error;
  };

  /** Ends the workers; nothing can be run afterwards. */
  async stop(): Promise<void> {
    Atomics.store(this.#words, this.#base + Control.stop, 1);
    Atomics.add(this.#words, this.#base + Control.generation, 1);
    Atomics.notify(this.#words, this.#base + Control.generation);
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const failureOf = (kernel: string, error: unknown): InsituError =>
  new InsituError("internal", `kernel ${kernel} failed: ${messageOf(error)}`, { cause: error });
