/**
 * The words in shared memory through which the main thread hands work to the workers, and a worker's life around them. Both sides use
 * these offsets and nothing else.
 *
 * The main thread writes a task (kernel, job, parts), then `unfinished` and `remaining`, raises `generation` and notifies. A thread, the
 * main one included, takes a part by lowering `remaining`; whoever holds a part may read the task, since the main thread starts no other
 * before `unfinished` is 0. A worker that comes too late finds nothing remaining and is not waited for.
 */

/** Offsets of the control words, in 32-bit words from the control block. What different threads write lies 64 bytes apart. */
export const Control = {
  generation: 0,
  kernel: 1,
  job: 2,
  parts: 3,
  stop: 4,
  /** Parts that nobody has taken. */
  remaining: 16,
  /** Parts that are not done. */
  unfinished: 32,
  /** Workers that have parked and need a notification. */
  parked: 48,
  /** 1 from the first part that failed on a worker on; `reason` says why, `reasonLength` UTF-16 units of it. */
  failed: 64,
  reasonLength: 65,
  reason: 66,
  words: 128,
} as const;

/** Rounds of looking for work before a worker parks: long enough for the next step of a decode. */
export const spins = 20_000;

/** What a worker is started with. */
export interface WorkerStart {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  /** Byte address of the control block. */
  readonly control: number;
  /** Byte address of this worker's scratch. */
  readonly scratch: number;
  /** Kernels by the number that tasks use. */
  readonly kernels: readonly string[];
}

/** What a worker says when it is ready for work. */
export const readyMessage = "insitu kernel worker ready";

/** A kernel as it is called; undefined where the module does not export it. */
export type KernelFunction = (job: number, part: number, parts: number, scratch: number) => void;

/** Takes parts of the current task until none remains. A part that throws is done all the same, and `failed` hears of it. */
export function takeParts(
  words: Int32Array,
  base: number,
  kernels: readonly KernelFunction[],
  scratch: number,
  failed: (error: unknown) => void,
): void {
  for (;;) {
    const remaining = Atomics.load(words, base + Control.remaining);
    if (remaining <= 0) return;
    if (Atomics.compareExchange(words, base + Control.remaining, remaining, remaining - 1) !== remaining) continue;
    const parts = words[base + Control.parts];
    try {
      kernels[words[base + Control.kernel]](words[base + Control.job], parts - remaining, parts, scratch);
    } catch (error) {
      failed(error);
    }
    Atomics.sub(words, base + Control.unfinished, 1);
  }
}

/** A worker's life: say that it is ready, then wait for a task and do its share, until told to stop. An exception is reported, never a hang. */
export function serve(start: WorkerStart, ready: () => void): void {
  const instance = new WebAssembly.Instance(start.module, { env: { memory: start.memory } });
  const exports = instance.exports as Record<string, KernelFunction>;
  const kernels = start.kernels.map((name) => exports[name]);
  const words = new Int32Array(start.memory.buffer, 0, (start.control >>> 2) + Control.words);
  const base = start.control >>> 2;
  const failed = (error: unknown): void => writeReason(words, base, String(error));
  let seen = Atomics.load(words, base + Control.generation);
  ready();
  for (;;) {
    let generation = Atomics.load(words, base + Control.generation);
    for (let round = 0; generation === seen && round < spins; round++)
      generation = Atomics.load(words, base + Control.generation);
    if (generation === seen) {
      Atomics.add(words, base + Control.parked, 1);
      Atomics.wait(words, base + Control.generation, seen);
      Atomics.sub(words, base + Control.parked, 1);
      continue;
    }
    seen = generation;
    if (Atomics.load(words, base + Control.stop) !== 0) return;
    takeParts(words, base, kernels, start.scratch, failed);
  }
}

/** Tells the main thread why a part failed; the first reason stays. */
function writeReason(words: Int32Array, base: number, reason: string): void {
  if (Atomics.exchange(words, base + Control.failed, 1) !== 0) return;
  const length = Math.min(reason.length, Control.words - Control.reason);
  words[base + Control.reasonLength] = length;
  for (let at = 0; at < length; at++) words[base + Control.reason + at] = reason.charCodeAt(at);
}

/** Why a part failed on a worker, or undefined where none did; asking clears it. For when every part is done. */
export function takeReason(words: Int32Array, base: number): string | undefined {
  if (Atomics.exchange(words, base + Control.failed, 0) === 0) return undefined;
  const start = base + Control.reason;
  return String.fromCharCode(...words.subarray(start, start + words[base + Control.reasonLength]));
}
