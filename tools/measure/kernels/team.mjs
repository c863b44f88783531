// A team of threads that run kernels on one shared memory: the least that measuring needs. Not the backend's pool.
import { setFlagsFromString } from "node:v8";
import { inflateSync } from "node:zlib";
import { isMainThread, Worker, workerData } from "node:worker_threads";
import { kernelJobs, scratchBytes } from "../../../dist/wasm-kernels/exports.js";
import { jobBytes, writeJob } from "../../../dist/wasm-kernels/jobs.js";
import { relaxedModule, simdModule } from "../../../dist/wasm-kernels/modules.gen.js";

const names = Object.keys(kernelJobs);
const GENERATION = 256; // word addresses within the reserved bytes would clash with nothing: the modules have no data
const DONE = 257;
const KERNEL = 258;
const JOB = 259;
const PARTS = 260;
const STOP = 261;
const NEXT = 262;
const SCRATCHES = 263;

function load(variant, memory) {
  setFlagsFromString("--experimental-wasm-relaxed-simd");
  const bytes = inflateSync(Buffer.from(variant === "simd" ? simdModule : relaxedModule, "base64"));
  return new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } }).exports;
}

/** Takes parts of the current job until none is left, as the backend's pool does. */
function takeParts(exports, control, scratch) {
  const parts = control[PARTS];
  for (let part = Atomics.add(control, NEXT, 1); part < parts; part = Atomics.add(control, NEXT, 1))
    exports[names[control[KERNEL]]](control[JOB], part, parts, scratch);
}

if (!isMainThread && workerData?.team) {
  const { variant, memory, part } = workerData.team;
  const exports = load(variant, memory);
  const control = new Int32Array(memory.buffer);
  let seen = 0;
  for (;;) {
    let spins = 0;
    while (Atomics.load(control, GENERATION) === seen) if (++spins > 200_000) Atomics.wait(control, GENERATION, seen);
    seen = Atomics.load(control, GENERATION);
    if (control[STOP]) break;
    takeParts(exports, control, control[SCRATCHES + part]);
    Atomics.add(control, DONE, 1);
  }
}

/** A team of `threads` on a memory of `megabytes`, all kernels of one variant. */
export class Team {
  constructor({ variant = "relaxed", threads = 1, megabytes = 512, scratch = 16 << 20 } = {}) {
    this.memory = new WebAssembly.Memory({ initial: megabytes * 16, maximum: 65536, shared: true });
    this.kernels = load(variant, this.memory);
    this.threads = threads;
    this.variant = variant;
    this.words = new Int32Array(this.memory.buffer);
    this.numbers = new Float32Array(this.memory.buffer);
    this.bytes = new Uint8Array(this.memory.buffer);
    this.next = 4096;
    for (let part = 0; part < threads; part++) this.words[SCRATCHES + part] = this.take(scratch);
    this.scratchBytes = scratch;
    this.generation = 0;
    this.workers = [];
    for (let part = 1; part < threads; part++)
      this.workers.push(
        new Worker(new URL(import.meta.url), { workerData: { team: { variant, memory: this.memory, part } } }),
      );
  }

  /** Address of `bytes` fresh bytes, at a multiple of 64 plus `shift`. */
  take(bytes, shift = 0) {
    const at = Math.ceil(this.next / 64) * 64 + shift;
    this.next = at + bytes;
    if (this.next > this.memory.buffer.byteLength) throw new Error("the team's memory is full");
    return at;
  }

  floats(at, count) {
    return new Float32Array(this.memory.buffer, at, count);
  }

  /** Random numbers from -1 to 1. */
  fill(at, count, scale = 1) {
    const view = this.floats(at, count);
    for (let i = 0; i < count; i++) view[i] = (Math.random() * 2 - 1) * scale;
    return at;
  }

  job(name, values) {
    const layout = kernelJobs[name];
    for (const field of Object.keys(layout)) if (!(field in values)) values = { ...values, [field]: 0 };
    const at = this.take(jobBytes(layout));
    writeJob(this.words, this.numbers, at, layout, values);
    if (scratchBytes(name, values) > this.scratchBytes) throw new Error(`${name} needs more scratch`);
    return { name, at, index: names.indexOf(name) };
  }

  /** Runs a job in `parts`, as many as there are threads if left out. */
  run(job, parts = this.threads) {
    const { words, threads } = this;
    words[KERNEL] = job.index;
    words[JOB] = job.at;
    words[PARTS] = parts;
    words[DONE] = 0;
    words[NEXT] = 0;
    if (threads > 1) {
      Atomics.store(words, GENERATION, ++this.generation);
      Atomics.notify(words, GENERATION);
    }
    takeParts(this.kernels, words, words[SCRATCHES]);
    if (threads > 1) while (Atomics.load(words, DONE) !== threads - 1);
  }

  async stop() {
    this.words[STOP] = 1;
    Atomics.store(this.words, GENERATION, ++this.generation);
    Atomics.notify(this.words, GENERATION);
    await Promise.all(this.workers.map((worker) => worker.terminate()));
  }
}

/**
 * Milliseconds of each of several functions, interleaved: every round calls each once. The median, the fastest, and the fastest by the
 * processor time of all threads: on a machine that is shared the first says what was seen, the others what the kernel can do.
 */
export function interleave(functions, { rounds = 31, warm = 5 } = {}) {
  const times = functions.map(() => []);
  const processor = functions.map(() => Infinity);
  for (let round = -warm; round < rounds; round++) {
    functions.forEach((run, at) => {
      const used = process.cpuUsage();
      const start = performance.now();
      run(round + warm);
      const time = performance.now() - start;
      const { user, system } = process.cpuUsage(used);
      if (round < 0) return;
      times[at].push(time);
      processor[at] = Math.min(processor[at], (user + system) / 1000);
    });
  }
  return times.map((list, at) => {
    list.sort((a, b) => a - b);
    return { median: list[list.length >> 1], least: list[0], processor: processor[at] };
  });
}
