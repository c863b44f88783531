/**
 * The threads that run kernels: the calling one and, where there are several, workers that spin for the next task and then park.
 * Runs one kernel at a time on one of the memories, split into parts; returns when all of them are done, or throws when one can no longer
 * be done: a worker may end at any time, and the calling thread, which does not go back to its event loop meanwhile, has to ask.
 */
import { InsituError } from "../../base/error.js";
import type { WorkerHandle } from "../../base/platform.js";
import {
  clearDesk,
  Control,
  controlWords,
  isBusy,
  memoriesJoined,
  type MemoryStart,
  mostMemories,
  instantiateKernels,
  type ThreadKernels,
  spins,
  takeParts,
  takeReason,
  type WorkerStart,
} from "./control.js";
import { Unavailable } from "../unavailable.js";
import type { WasmMemory } from "./memory.js";

/** What a pool is made of. */
interface PoolParts {
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

/** Milliseconds between two looks at whether the workers still run, while the calling thread waits for them. */
const lookEvery = 20;

/**
 * How long a worker may take for its part where nobody can tell whether it still runs: so many looks, and so many times what the calling
 * thread took for its own parts, or more looks where it had none. Looks, since a machine that was asleep is no reason to give up.
 */
const patience = { looks: 50, looksWithoutOwn: 500, times: 20 } as const;

/**
 * Milliseconds that the calling thread looks on while others do their last parts, before it sleeps: a share of what its own parts took.
 */
const lookOn = { least: 0.1, share: 0.5, crowded: 0.02 } as const;

/** Milliseconds of waiting, and at least as long as the calling thread's own parts took, from which on a thread counts as held up. */
const heldUp = 0.3;

/** Tasks without a thread that was held up, after which the processors count as free again. */
const crowdedTasks = 500;

/** A worker that runs, as far as is known. */
interface Member {
  readonly handle: WorkerHandle;
  /** Its desk in the control block. */
  readonly number: number;
}

/** The threads of one backend instance. */
export class KernelPool {
  /** Threads that were asked for, the calling one included: into so many parts a task is split, also when some have ended. */
  readonly threads: number;
  /** Bytes of scratch that a kernel may use on each thread. */
  readonly scratchBytes: number;
  readonly #parts: PoolParts;
  readonly #memories: ThreadKernels[] = [];
  readonly #numbers: ReadonlyMap<string, number>;
  readonly #words: Int32Array;
  readonly #base: number;
  /** The workers that still run. */
  #members: readonly Member[];
  /** True once a worker no longer answered of which nobody knows whether it still writes. */
  #abandoned = false;
  /** False where nobody can tell whether a worker still runs: there, clocks have to. */
  readonly #canTell: boolean;
  /** Looks after which the last task's workers are given up, where clocks have to tell. */
  #mostLooks = 0;
  /** The last memory that all workers are known to have joined. */
  #joined = 0;
  #failure: unknown;
  /** Tasks until threads look for work as long as they do where nobody else needs the processors. */
  #crowded = 0;
  /** False once the calling thread turned out to be one that may not wait. */
  #maySleep = true;

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
    this.#memories.push(instantiateKernels(module, kernels, { memory: memory.memory, scratch }));
    this.#numbers = new Map(kernels.map((name, number) => [name, number]));
    this.#words = new Int32Array(memory.buffer, 0, (control >>> 2) + controlWords);
    this.#base = control >>> 2;
    this.#members = workers.map((handle, number) => ({ handle, number }));
    this.#canTell = workers.every((handle) => handle.isRunning?.() !== undefined);
  }

  /** Starts the workers and waits until each has answered. If one cannot be started, the others end and the reason is thrown. */
  static async start(parts: PoolParts, scratch?: number): Promise<KernelPool> {
    const { memory, module, kernels, threads, startWorker } = parts;
    const scratchBytes = scratch ?? Math.max(leastScratch, Math.min(mostScratch, memory.mostBytes / 16));
    const control = memory.take(controlWords * 4);
    const scratches = Array.from({ length: threads }, () => memory.take(scratchBytes));
    const words = new Int32Array(memory.buffer, control, controlWords).fill(0);
    words[Control.spins] = spins.free;
    const started = await Promise.allSettled(
      scratches
        .slice(1)
        .map((scratch, number) => startWorker({ module, memory: memory.memory, control, number, scratch, kernels })),
    );
    const workers = started.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
    const failed = started.find((start) => start.status === "rejected");
    if (failed !== undefined) {
      await Promise.all(workers.map((worker) => worker.terminate()));
      const { reason } = failed as { readonly reason: unknown };
      throw new Unavailable(
        "threads",
        "invalid-argument",
        `threads: ${threads} are not available here: a worker did not start (${messageOf(reason)}); ask for threads: 1`,
        { cause: reason },
      );
    }
    return new KernelPool(parts, control, scratches[0], scratchBytes, workers);
  }

  /** True while all threads are there that were asked for. */
  get isWhole(): boolean {
    this.#forgetEnded();
    return !this.#abandoned && this.#members.length === this.threads - 1;
  }

  /** A line where threads have ended; nothing else is to be told. */
  describe(): readonly string[] {
    if (this.isWhole) return [];
    return [`threads: ${this.#members.length + 1} of ${this.threads}, the others have ended`];
  }

  /**
   * Takes on another memory, as the next number. The workers join it on their own time; until all have, the calling thread does every
   * part of its tasks, which changes no result.
   */
  join(memory: WasmMemory): void {
    const number = this.#memories.length;
    if (number >= mostMemories)
      throw new InsituError(
        "out-of-memory",
        `${mostMemories} WebAssembly memories are the most that one session can have`,
      );
    const { module, kernels } = this.#parts;
    const starts = Array.from({ length: this.threads }, (): MemoryStart => ({
      memory: memory.memory,
      scratch: memory.take(this.scratchBytes),
    }));
    this.#memories.push(instantiateKernels(module, kernels, starts[0]));
    for (const { handle, number: at } of this.#members) handle.post(starts[at + 1]);
    Atomics.store(this.#words, this.#base + Control.memories, number + 1);
    Atomics.add(this.#words, this.#base + Control.generation, 1);
    Atomics.notify(this.#words, this.#base + Control.generation);
  }

  /** True if every worker that still runs has joined a memory. */
  isJoined(memory: number): boolean {
    if (memory <= this.#joined) return true;
    // One that ended will not come any more.
    this.#forgetEnded();
    if (this.#members.some(({ number }) => memoriesJoined(this.#words, this.#base, number) <= memory)) return false;
    this.#joined = memory;
    return true;
  }

  /**
   * Runs all parts of a job in a memory. With one part, or one thread, nothing is handed over. Throws `thread-lost` where a worker ended
   * with a part in its hands: no thread works on the task any longer then, what it was to write is partly written, and the next task is
   * done by the threads that are left.
   */
  run(kernel: string, job: number, parts: number, memory = 0): void {
    const number = this.#numbers.get(kernel);
    if (number === undefined) throw new InsituError("internal", `there is no kernel ${kernel}`);
    if (this.#abandoned) throw abandonedError(kernel);
    if (parts === 1 || this.#members.length === 0 || !this.isJoined(memory)) {
      const { kernels, scratch } = this.#memories[memory];
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
    const isParked = Atomics.load(words, base + Control.parked) > 0;
    if (isParked) Atomics.notify(words, base + Control.generation, parts - 1);
    const began = performance.now();
    const own = takeParts(words, base, this.#memories, this.#fail);
    // Who was woken took the calling thread's place: there is no other processor for it.
    if (isParked && own === 0) this.#crowd();
    const done = performance.now();
    if (!this.#canTell) this.#mostLooks = looksFor(own, done - began);
    this.#awaitParts(kernel, done, done - began);
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

  /** Waits until every part is done, or throws where that cannot be. The calling thread has done its own at `since`, in `own` milliseconds. */
  #awaitParts(kernel: string, since: number, own: number): void {
    const [words, unfinished] = [this.#words, this.#base + Control.unfinished];
    const longest = this.#crowded > 0 ? lookOn.crowded : Math.max(lookOn.least, own * lookOn.share);
    for (let round = 1; round % 256 !== 0 || performance.now() - since < longest; round++)
      if (Atomics.load(words, unfinished) === 0) return this.#calm();
    // Whoever holds the last part may need the processor that looking on takes.
    if (this.#maySleep) Atomics.store(words, this.#base + Control.awaited, 1);
    try {
      for (let round = 0, looks = 0, looked = performance.now(); ; round++) {
        const left = Atomics.load(words, unfinished);
        if (left <= 0) return performance.now() - since > Math.max(heldUp, own) ? this.#crowd() : this.#calm();
        if (this.#maySleep) this.#sleep(left);
        else if (round % 1024 !== 0) continue;
        const now = performance.now();
        if (now - looked < lookEvery) continue;
        looked = now;
        this.#checkMembers(kernel, ++looks);
      }
    } finally {
      Atomics.store(words, this.#base + Control.awaited, 0);
    }
  }

  /** A thread was held up, or took the place of the calling one. */
  #crowd(): void {
    if (this.#crowded === 0) Atomics.store(this.#words, this.#base + Control.spins, spins.crowded);
    this.#crowded = crowdedTasks;
  }

  /** No thread was held up. */
  #calm(): void {
    if (this.#crowded > 0 && --this.#crowded === 0) Atomics.store(this.#words, this.#base + Control.spins, spins.free);
  }

  /** Sleeps until the last part is done, while `left` are not, or until it is time to look. A page's main thread may not: it looks on. */
  #sleep(left: number): void {
    try {
      Atomics.wait(this.#words, this.#base + Control.unfinished, left, lookEvery);
    } catch {
      this.#maySleep = false;
    }
  }

  /** Throws if what is not done will not be: for when the calling thread has waited and no part is left to be taken. */
  #checkMembers(kernel: string, looks: number): void {
    const [words, base] = [this.#words, this.#base];
    this.#forgetEnded();
    const busy = this.#members.filter(({ number }) => isBusy(words, base, number));
    // In this order: what a worker did before it was idle is done.
    if (busy.length === 0 && Atomics.load(words, base + Control.unfinished) > 0) {
      this.#dropTask();
      throw new InsituError(
        "thread-lost",
        `kernel ${kernel}: a thread ended with a part of it undone, so the run has no result; ${this.#members.length + 1} of ${this.threads} threads are left, and the next run goes on with them`,
      );
    }
    if (!this.#canTell && looks > this.#mostLooks) {
      this.#abandoned = true;
      this.#dropTask();
      throw abandonedError(kernel);
    }
  }

  #dropTask(): void {
    this.#failure = undefined;
    takeReason(this.#words, this.#base);
    Atomics.store(this.#words, this.#base + Control.unfinished, 0);
  }

  /** Forgets workers that have ended; true if there was one. */
  #forgetEnded(): boolean {
    const left = this.#members.filter(({ handle }) => handle.isRunning?.() !== false);
    if (left.length === this.#members.length) return false;
    for (const member of this.#members) if (!left.includes(member)) clearDesk(this.#words, this.#base, member.number);
    this.#members = left;
    return true;
  }

  /** Ends the workers; nothing can be run afterwards. */
  async stop(): Promise<void> {
    Atomics.store(this.#words, this.#base + Control.stop, 1);
    Atomics.add(this.#words, this.#base + Control.generation, 1);
    Atomics.notify(this.#words, this.#base + Control.generation);
    await Promise.all(this.#members.map(({ handle }) => handle.terminate()));
  }
}

/** Looks at workers that are worth it after the calling thread did `own` parts in so many milliseconds. */
const looksFor = (own: number, milliseconds: number): number =>
  own === 0 ? patience.looksWithoutOwn : patience.looks + (patience.times * milliseconds) / lookEvery;

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const failureOf = (kernel: string, error: unknown): InsituError =>
  new InsituError("internal", `kernel ${kernel} failed: ${messageOf(error)}`, { cause: error });

const abandonedError = (kernel: string): InsituError =>
  new InsituError(
    "thread-lost",
    `kernel ${kernel}: a thread no longer answers, and may still write; the session and its states are lost: create a new session`,
  );
