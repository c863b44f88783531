/**
 * The words in shared memory through which the main thread hands work to the workers, and a worker's life around them. Both sides use
 * these offsets and nothing else. Knows nothing of how a worker is started or ends: the pool does.
 *
 * The main thread writes a task (memory, kernel, job, parts), then `unfinished` and `remaining`, raises `generation` and notifies. A thread,
 * the main one included, takes a part by lowering `remaining`; whoever holds a part may read the task, since the main thread starts no
 * other before `unfinished` is 0. A worker that comes too late finds nothing remaining and is not waited for.
 *
 * A memory that is opened later reaches a worker as a message: raising `memories` lets it go back to its event loop to find it. No task of
 * that memory is handed over before every worker has said at its desk that it joined.
 *
 * Each worker has a desk, a few words that it alone writes. It is `busy` from before it takes the first part of a task until after it has
 * done the last: a thread that ended with a part in its hands left `busy` standing, and one that is not busy holds none.
 */
import { mostThreads } from "../backend.js";

/** The most memories that one set of threads works on. */
export const mostMemories = 32;

/** Offsets in a worker's desk, which lies 64 bytes from the next. */
const Desk = { busy: 0, memories: 1, parked: 2, words: 16 } as const;

/** Offsets of the control words, in 32-bit words from the control block. What different threads write lies 64 bytes apart. */
export const Control = {
  generation: 0,
  kernel: 1,
  job: 2,
  parts: 3,
  stop: 4,
  /** The number of the memory that the task lies in. */
  memory: 5,
  /** Memories that there are. */
  memories: 6,
  /** Rounds of looking for work before a worker parks. */
  spins: 7,
  /** Parts that nobody has taken. */
  remaining: 16,
  /** Parts that are not done. */
  unfinished: 32,
  /** 1 while the main thread sleeps until none is. */
  awaited: 33,
  /** Workers that have parked and need a notification. */
  parked: 48,
  /** 1 from the first part that failed on a worker on; `reason` says why, `reasonLength` UTF-16 units of it. */
  failed: 64,
  reasonLength: 65,
  reason: 66,
  /** The desks of the workers, by their number from 0. */
  desks: 336,
} as const;

/** Words of the control block in all. */
export const controlWords: number = Control.desks + Desk.words * (mostThreads - 1);

/** Where a worker's desk begins. */
const deskOf = (base: number, number: number): number => base + Control.desks + number * Desk.words;

/** True while a worker may hold a part of a task. */
export const isBusy = (words: Int32Array, base: number, number: number): boolean =>
  Atomics.load(words, deskOf(base, number) + Desk.busy) !== 0;

/** How many memories a worker has joined. */
export const memoriesJoined = (words: Int32Array, base: number, number: number): number =>
  Atomics.load(words, deskOf(base, number) + Desk.memories);

/** Takes a worker that has ended out of the count of those that need a notification. */
export function clearDesk(words: Int32Array, base: number, number: number): void {
  if (Atomics.exchange(words, deskOf(base, number) + Desk.parked, 0) !== 0)
    Atomics.sub(words, base + Control.parked, 1);
}

/**
 * Rounds of looking for work before a worker parks: long enough for the next step of a decode and what a host does in between. Where
 * threads are held up, because others use the processors too, whoever looks on takes away what the work needs: it parks after a moment.
 */
export const spins = { free: 60_000, crowded: 2_000 } as const;

/** A memory as a worker gets it. */
export interface MemoryStart {
  readonly memory: WebAssembly.Memory;
  /** Byte address of this worker's scratch in it. */
  readonly scratch: number;
}

/** What a worker is started with: the first memory, which holds the control block. */
export interface WorkerStart extends MemoryStart {
  readonly module: WebAssembly.Module;
  /** Byte address of the control block. */
  readonly control: number;
  /** The number of the worker's desk. */
  readonly number: number;
  /** Kernels by the number that tasks use. */
  readonly kernels: readonly string[];
}

/** What a worker says when it is ready for work. */
export const readyMessage = "insitu kernel worker ready";

/** A kernel as it is called; undefined where the module does not export it. */
type KernelFunction = (job: number, part: number, parts: number, scratch: number) => void;

/** The kernels on one memory, as one thread calls them. */
export interface ThreadKernels {
  readonly kernels: readonly KernelFunction[];
  readonly scratch: number;
}

/** The kernels of a module on a memory. */
export function instantiateKernels(
  module: WebAssembly.Module,
  kernels: readonly string[],
  { memory, scratch }: MemoryStart,
): ThreadKernels {
  const exports = new WebAssembly.Instance(module, { env: { memory } }).exports as Record<string, KernelFunction>;
  return { kernels: kernels.map((name) => exports[name]), scratch };
}

/** Takes parts of the current task until none remains, and tells how many. A part that throws is done all the same, and `failed` hears of it. */
export function takeParts(
  words: Int32Array,
  base: number,
  memories: readonly ThreadKernels[],
  failed: (error: unknown) => void,
): number {
  for (let taken = 0; ;) {
    const remaining = Atomics.load(words, base + Control.remaining);
    if (remaining <= 0) return taken;
    if (Atomics.compareExchange(words, base + Control.remaining, remaining, remaining - 1) !== remaining) continue;
    taken++;
    const parts = words[base + Control.parts];
    try {
      const { kernels, scratch } = memories[words[base + Control.memory]];
      kernels[words[base + Control.kernel]](words[base + Control.job], parts - remaining, parts, scratch);
    } catch (error) {
      failed(error);
    }
    if (Atomics.sub(words, base + Control.unfinished, 1) === 1 && Atomics.load(words, base + Control.awaited) !== 0)
      Atomics.notify(words, base + Control.unfinished);
  }
}

/** A worker's life around the control block. */
export class KernelThread {
  readonly #start: WorkerStart;
  /** By the number of the memory. */
  readonly #memories: ThreadKernels[] = [];
  readonly #words: Int32Array;
  readonly #base: number;
  readonly #desk: number;
  /** The generation of the last task that was looked at. */
  #seen: number;

  constructor(start: WorkerStart) {
    this.#start = start;
    this.#base = start.control >>> 2;
    this.#desk = deskOf(this.#base, start.number);
    this.#words = new Int32Array(start.memory.buffer, 0, this.#base + controlWords);
    this.#memories.push(instantiateKernels(start.module, start.kernels, start));
    Atomics.store(this.#words, this.#desk + Desk.memories, 1);
    // Before anybody hears that the thread is ready: no task that follows is missed.
    this.#seen = Atomics.load(this.#words, this.#base + Control.generation);
  }

  /** Takes on another memory. One that cannot be had makes its tasks fail, with the reason. */
  join(memory: MemoryStart): void {
    const { module, kernels } = this.#start;
    let joined: ThreadKernels;
    try {
      joined = instantiateKernels(module, kernels, memory);
    } catch (error) {
      const fail = (): never => {
        throw error;
      };
      joined = { kernels: kernels.map(() => fail), scratch: 0 };
    }
    Atomics.store(this.#words, this.#desk + Desk.memories, this.#memories.push(joined));
  }

  /** Waits for tasks and does its share. Returns when told to stop, or when there is a memory to join. An exception is reported, never a hang. */
  serve(): void {
    const [words, base, desk] = [this.#words, this.#base, this.#desk];
    const failed = (error: unknown): void => writeReason(words, base, String(error));
    for (;;) {
      const seen = this.#seen;
      if (Atomics.load(words, base + Control.stop) !== 0) return;
      if (Atomics.load(words, base + Control.memories) > this.#memories.length) return;
      let generation = Atomics.load(words, base + Control.generation);
      const most = Atomics.load(words, base + Control.spins);
      for (let round = 0; generation === seen && round < most; round++)
        generation = Atomics.load(words, base + Control.generation);
      if (generation === seen) {
        // In this order: a worker that ends in between is notified in vain, and nobody else is forgotten.
        Atomics.add(words, base + Control.parked, 1);
        Atomics.store(words, desk + Desk.parked, 1);
        Atomics.wait(words, base + Control.generation, seen);
        Atomics.store(words, desk + Desk.parked, 0);
        Atomics.sub(words, base + Control.parked, 1);
        continue;
      }
      this.#seen = generation;
      Atomics.store(words, desk + Desk.busy, 1);
      takeParts(words, base, this.#memories, failed);
      Atomics.store(words, desk + Desk.busy, 0);
    }
  }
}

/** Tells the main thread why a part failed; the first reason stays. */
function writeReason(words: Int32Array, base: number, reason: string): void {
  if (Atomics.exchange(words, base + Control.failed, 1) !== 0) return;
  const length = Math.min(reason.length, Control.desks - Control.reason);
  words[base + Control.reasonLength] = length;
  for (let at = 0; at < length; at++) words[base + Control.reason + at] = reason.charCodeAt(at);
}

/** Why a part failed on a worker, or undefined where none did; asking clears it. For when every part is done. */
export function takeReason(words: Int32Array, base: number): string | undefined {
  if (Atomics.exchange(words, base + Control.failed, 0) === 0) return undefined;
  const start = base + Control.reason;
  return String.fromCharCode(...words.subarray(start, start + words[base + Control.reasonLength]));
}
