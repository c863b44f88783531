/**
 * A memory with one instance of the kernels, for tests: operands are placed with a guard on both sides and at odd addresses, jobs are run in
 * any number of parts as threads would, and every part order gives the same bytes or the test fails. Then each operand takes its turn at
 * the very end of the memory, where whatever reaches past it traps, be it a copy of no bytes.
 */
import { setFlagsFromString } from "node:v8";
import { inflateSync } from "node:zlib";
import { expect } from "vitest";
import {
  type JobOf,
  type Kernel,
  kernelJobs,
  type KernelName,
  reservedBytes,
  scratchBytes,
} from "../../src/wasm-kernels/exports.js";
import { instruction, jobBytes, type JobLayout, writeJob } from "../../src/wasm-kernels/jobs.js";
import { relaxedModule, simdModule } from "../../src/wasm-kernels/modules.gen.js";
import { soak } from "../support/soak.js";

setFlagsFromString("--experimental-wasm-relaxed-simd"); // Node 20 has it behind a flag

export const variants = ["simd", "relaxed"] as const;
export type Variant = (typeof variants)[number];

const modules: { readonly [variant in Variant]: WebAssembly.Module } = {
  simd: new WebAssembly.Module(inflateSync(Buffer.from(simdModule, "base64"))),
  relaxed: new WebAssembly.Module(inflateSync(Buffer.from(relaxedModule, "base64"))),
};

const guard = 64;
const guardByte = 0xa5;

/** Where bytes lie. */
interface Region {
  readonly at: number;
  readonly bytes: number;
}

export class Workbench {
  readonly bytes: Uint8Array;
  readonly #memory: WebAssembly.Memory;
  readonly #kernels: Readonly<Record<string, Kernel>>;
  readonly #regions: Region[] = [];
  #next = reservedBytes;

  constructor(variant: Variant, pages = 128) {
    this.#memory = new WebAssembly.Memory({ initial: pages, maximum: 65536, shared: true });
    this.#kernels = new WebAssembly.Instance(modules[variant], { env: { memory: this.#memory } }).exports as Record<
      string,
      Kernel
    >;
    this.bytes = new Uint8Array(this.#memory.buffer);
    this.bytes.fill(guardByte);
  }

  /** Address of fresh bytes, `shift` behind a multiple of 16. They hold the guard's byte: NaN as floats. */
  reserve(bytes: number, shift = 0): number {
    const at = Math.ceil((this.#next + guard) / 16) * 16 + shift;
    this.#next = at + bytes + guard;
    if (this.#next > this.bytes.length) throw new Error("the workbench is full");
    this.#regions.push({ at, bytes });
    return at;
  }

  /** Address of a copy of the data. */
  place(data: ArrayBufferView, shift = 0): number {
    const at = this.reserve(data.byteLength, shift);
    this.bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    return at;
  }

  /** A copy of the bytes at an address. */
  copy(at: number, bytes: number): ArrayBuffer {
    return this.bytes.slice(at, at + bytes).buffer as ArrayBuffer;
  }

  floats(at: number, count: number): Float32Array {
    return new Float32Array(this.copy(at, count * 4));
  }

  /**
   * Runs a kernel in one part, and again in each of the given numbers of parts from the last to the first; all must leave the same
   * bytes. `outputs` are put back to what they were between the runs.
   */
  run<Name extends KernelName>(name: Name, job: JobOf<Name>, outputs: readonly Region[], parts = [2, 3, 7]): void {
    const layout: JobLayout = kernelJobs[name];
    const at = this.reserve(jobBytes(layout));
    writeJob(new Int32Array(this.#memory.buffer), new Float32Array(this.#memory.buffer), at, layout, job);
    const before = outputs.map((output) => this.copy(output.at, output.bytes));
    const scratch = this.reserve(scratchBytes(name, job));
    this.#kernels[name](at, 0, 1, scratch);
    this.checkGuards();
    const first = outputs.map((output) => this.copy(output.at, output.bytes));
    for (const count of parts) {
      outputs.forEach((output, i) => this.bytes.set(new Uint8Array(before[i]), output.at));
      for (let part = count - 1; part >= 0; part--) {
        this.bytes.fill(guardByte, scratch, scratch + scratchBytes(name, job)); // another thread's scratch holds anything
        this.#kernels[name](at, part, count, scratch);
      }
      outputs.forEach((output, i) => {
        const same = Buffer.compare(Buffer.from(this.copy(output.at, output.bytes)), Buffer.from(first[i])) === 0;
        expect(same, `${name} in ${count} parts gives what it gives in one`).toBe(true);
      });
    }
    this.checkGuards();
    this.#runAtTheEnd(name, job, scratch, outputs, before, first);
  }

  /** Runs a job again with one operand at a time, scratch and the job itself moved to the end of the memory. */
  #runAtTheEnd<Name extends KernelName>(
    name: Name,
    job: JobOf<Name>,
    scratch: number,
    outputs: readonly Region[],
    before: readonly ArrayBuffer[],
    first: readonly ArrayBuffer[],
  ): void {
    const layout: JobLayout = kernelJobs[name];
    const all: Readonly<Record<string, number>> = job;
    const fields = Object.keys(layout);
    const pointers = fields.filter((field) => layout[field] === "pointer").map((field) => all[field]);
    const words = new Int32Array(this.#memory.buffer);
    const steps = "program" in all ? all["instructions"] : 0; // of a little program, which has addresses of its own
    const stepBytes = jobBytes(instruction);
    const addresses = Array.from({ length: steps }, (_, step) => {
      return (all["program"] + step * stepBytes) / 4 + Object.keys(instruction).indexOf("address");
    });
    const places = [...pointers, ...addresses.map((at) => words[at])];
    const regions = this.#regions.filter(({ at, bytes }) => places.some((place) => place >= at && place < at + bytes));
    const jobRegion = { at: this.reserve(jobBytes(layout)), bytes: jobBytes(layout) };
    const scratchRegion = { at: scratch, bytes: scratchBytes(name, job) };
    for (const region of [...regions, scratchRegion, jobRegion]) {
      if (region.bytes === 0) continue;
      outputs.forEach((output, i) => this.bytes.set(new Uint8Array(before[i]), output.at));
      // Scratch lies at a multiple of 16, the words of programs and jobs at one of 4.
      const unit = region === scratchRegion ? 16 : region === jobRegion || region.at === all["program"] ? 4 : 1;
      const at = this.bytes.length - Math.ceil(region.bytes / unit) * unit;
      if (at < this.#next) throw new Error("the workbench has no room at its end");
      this.bytes.copyWithin(at, region.at, region.at + region.bytes);
      const moved = (place: number): number =>
        place >= region.at && place < region.at + region.bytes ? place - region.at + at : place;
      const values = Object.fromEntries(
        fields.map((field) => [field, layout[field] === "pointer" ? moved(all[field]) : all[field]]),
      );
      const kept = addresses.map((place) => words[place]);
      for (const place of addresses) words[moved(place * 4) / 4] = moved(words[place]);
      writeJob(words, new Float32Array(this.#memory.buffer), moved(jobRegion.at), layout, values);
      this.#kernels[name](moved(jobRegion.at), 0, 1, moved(scratch));
      outputs.forEach((output, i) => {
        const same =
          Buffer.compare(Buffer.from(this.copy(moved(output.at), output.bytes)), Buffer.from(first[i])) === 0;
        expect(same, `${name} gives the same with the operand at ${region.at} at the memory's end`).toBe(true);
      });
      addresses.forEach((place, i) => (words[place] = kept[i]));
      this.bytes.fill(guardByte, at);
    }
    outputs.forEach((output, i) => this.bytes.set(new Uint8Array(first[i]), output.at));
    this.checkGuards();
  }

  /** Fails if a byte beside a region was written. */
  checkGuards(): void {
    for (const { at, bytes } of this.#regions) {
      for (let i = 1; i <= guard; i++) {
        if (this.bytes[at - i] !== guardByte || this.bytes[at + bytes + i - 1] !== guardByte) {
          throw new Error(`a byte beside the region [${at}, ${at + bytes}) was written`);
        }
      }
    }
  }
}

/** Numbers that follow from a seed. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to but not including 1. */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** An integer from `low` to `high`, both possible. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.unit() * (high - low + 1));
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.integer(0, choices.length - 1)];
  }

  /** Numbers around 0, most of them small. */
  floats(count: number, scale = 1): Float32Array {
    return Float32Array.from({ length: count }, () => (this.unit() + this.unit() + this.unit() - 1.5) * scale);
  }
}

/** Seeds of the random cases: those given in KERNEL_SEEDS, or one that never changes, more of them in the soak. */
export const seeds: readonly number[] =
  process.env["KERNEL_SEEDS"]?.split(",").map(Number) ?? (soak ? [1, 2, 3, 4, 5, 6, 7, 8] : [1]);

/** Fails unless the numbers agree to `relative` of the largest magnitude, which is at least `floor`, or NaN meets NaN. */
export function expectClose(
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  relative: number,
  what: string,
  floor = 1e-30,
): void {
  let largest = floor;
  for (let i = 0; i < expected.length; i++) {
    if (Number.isFinite(expected[i])) largest = Math.max(largest, Math.abs(expected[i]));
  }
  for (let i = 0; i < expected.length; i++) {
    const same = Object.is(actual[i], expected[i]) || (Number.isNaN(actual[i]) && Number.isNaN(expected[i]));
    // Where nothing may be off, not even the sign of zero is.
    if (!same && !(relative > 0 && Math.abs(actual[i] - expected[i]) <= relative * largest))
      expect.fail(`${what}: element ${i} is ${actual[i]}, not ${expected[i]} (largest ${largest})`);
  }
  expect(actual.length, what).toBe(expected.length);
}
