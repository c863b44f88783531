/** Takes down the jobs of one step: writes them into memory once, and tells when operands have moved and they no longer hold. */
import type { Operand } from "../../graph/kernel.js";
import type { JobOf, KernelName } from "../../wasm-kernels/exports.js";
import { kernelJobs, scratchBytes } from "../../wasm-kernels/exports.js";
import { jobBytes, type JobLayout, writeJob } from "../../wasm-kernels/jobs.js";
import type { Recorder } from "../../wasm-kernels/wasm-kernel.js";
import { sameNumbers, type View } from "../../tensor/view.js";
import { InsituError } from "../../base/error.js";
import type { JobBlock, JobBlocks } from "./job-blocks.js";
import type { WasmMemory } from "./memory.js";
import type { KernelPool } from "./pool.js";
import type { TransientBlock, TransientBlocks } from "./transient.js";

/** A job in memory, ready to run. */
interface RecordedJob {
  readonly kernel: KernelName;
  readonly job: number;
  readonly parts: number;
}

/** The jobs of a step, and where its operands lay when they were written. */
export interface Recording {
  /** The number of the memory that they run in. */
  readonly seat: number;
  readonly jobs: readonly RecordedJob[];
  /** Tests on data that must hold each time before the jobs run. */
  readonly tests: readonly (() => boolean)[];
  /** Memory taken for jobs, in the order it was asked for: a new recording of the step asks for the same. */
  readonly blocks: readonly JobBlock[];
  /** True once another recording was written over this one. */
  replaced: boolean;
  /** True while every operand lies where it lay. */
  fits(inputs: readonly (View | undefined)[], outputs: readonly (View | undefined)[]): boolean;
}

/** What a recorder works with. */
interface RecorderParts {
  /** The memory that the step runs in, and its number. */
  readonly memory: WasmMemory;
  readonly seat: number;
  readonly pool: KernelPool;
  readonly relaxed: boolean;
  readonly batchInvariant: boolean;
  /** A constant in this memory. */
  readonly resident: (operand: Operand) => View;
  /** Memory that all steps here take turns with. */
  readonly transients: TransientBlocks;
  readonly blocks: JobBlocks;
  /** The recording that this one replaces. */
  readonly reuse: Recording | undefined;
}

/** Records one step. */
export class StepRecorder implements Recorder {
  readonly threads: number;
  readonly relaxed: boolean;
  readonly batchInvariant: boolean;
  readonly scratchBytes: number;
  readonly #parts: RecorderParts;
  readonly #jobs: RecordedJob[] = [];
  readonly #tests: (() => boolean)[] = [];
  readonly #blocks: JobBlock[] = [];
  readonly #lent = new Set<TransientBlock>();
  #refusal: string | undefined;

  constructor(parts: RecorderParts) {
    this.#parts = parts;
    this.threads = parts.pool.threads;
    this.relaxed = parts.relaxed;
    this.batchInvariant = parts.batchInvariant;
    this.scratchBytes = parts.pool.scratchBytes;
  }

  address(operand: Operand): number {
    const { memory, resident } = this.#parts;
    const address = memory.addressOf(operand.view) ?? memory.addressOf(resident(operand));
    if (address === undefined)
      throw new InsituError("internal", `${operand.type}[${operand.shape.join(",")}] lies outside the memory`);
    return address;
  }

  temporary(bytes: number): number {
    return this.#parts.transients.lend(bytes, this.#lent);
  }

  /** Memory of this recording alone, for what is written once. */
  #own(bytes: number): number {
    const { blocks, seat, reuse } = this.#parts;
    const before = reuse?.blocks[this.#blocks.length];
    const block = before !== undefined && before.bytes >= bytes ? before : blocks.take(seat, bytes);
    this.#blocks.push(block);
    return block.address;
  }

  when(test: () => boolean): void {
    this.#tests.push(test);
  }

  job<Name extends KernelName>(kernel: Name, job: JobOf<Name>): number {
    const layout: JobLayout = kernelJobs[kernel];
    const address = this.#own(jobBytes(layout));
    const { memory, pool } = this.#parts;
    const { words, numbers } = memory.whole;
    writeJob(words, numbers, address, layout, job as Readonly<Record<string, number>>);
    const scratch = scratchBytes(kernel, job);
    if (scratch > pool.scratchBytes)
      this.#refusal ??= `${kernel} needs ${scratch} bytes of scratch, a thread has ${pool.scratchBytes}`;
    return address;
  }

  run<Name extends KernelName>(kernel: Name, job: JobOf<Name>, parts: number): void {
    this.#jobs.push({ kernel, job: this.job(kernel, job), parts: Math.max(1, Math.floor(parts)) });
  }

  words(values: readonly { readonly word?: number; readonly number?: number }[]): number {
    const address = this.#own(values.length * 4);
    const { buffer } = this.#parts.memory;
    const [integers, floats] = [
      new Int32Array(buffer, address, values.length),
      new Float32Array(buffer, address, values.length),
    ];
    values.forEach(({ word, number }, at) => {
      if (number !== undefined) floats[at] = number;
      else integers[at] = word ?? 0;
    });
    return address;
  }

  /** Why the jobs cannot be run here; undefined where they can. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  /** The recording; holds while the operands stay where these views show them. */
  finish(inputs: readonly (View | undefined)[], outputs: readonly (View | undefined)[]): Recording {
    const { memory, seat, reuse, blocks } = this.#parts;
    for (const block of reuse?.blocks ?? []) if (!this.#blocks.includes(block)) blocks.give(seat, block);
    const views = [...inputs, ...outputs];
    // An operand in another memory is a constant, of which there is a copy in this one.
    const placeOf = (view: View | undefined): number => (view === undefined ? -1 : (memory.addressOf(view) ?? -2));
    return {
      seat,
      jobs: this.#jobs,
      tests: this.#tests,
      blocks: this.#blocks,
      replaced: false,
      fits(nextInputs, nextOutputs) {
        for (let at = 0; at < views.length; at++) {
          const view = at < nextInputs.length ? nextInputs[at] : nextOutputs[at - nextInputs.length];
          const before = views[at];
          if (view === before) continue;
          if (placeOf(view) !== placeOf(before)) return false;
          if (view !== undefined && !sameNumbers(view.strides, before!.strides)) return false;
        }
        return true;
      },
    };
  }
}
