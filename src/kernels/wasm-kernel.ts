/**
 * How an operator's fast path on WASM is written: `ops/<op>/wasm.ts` exports these, beside the declaration. A kernel says whether it
 * accepts a call, and records the jobs that do it. It computes nothing itself.
 */
import type { ElementType } from "../tensor/element-type.js";
import type { View } from "../tensor/view.js";
import type { JobOf, KernelName } from "./exports.js";

/** An operand or output of a call, with its shape in numbers. */
export interface Operand {
  readonly type: ElementType;
  readonly shape: readonly number[];
  /** In elements. */
  readonly strides: readonly number[];
  readonly contiguous: boolean;
  /** True for weights: the bytes never change, so that another form of them can be kept. */
  readonly constant: boolean;
  /** True for what never changes while the program is kept: weights, and what shapes alone decide. It may lie outside the memory. */
  readonly known: boolean;
  /** The bytes: for what is known at any time, for others only to learn where they lie. */
  readonly view: View;
}

/** One call, as kernels judge it: everything but the data. */
export interface KernelCall {
  readonly label: string;
  readonly opset: number;
  readonly attrs: Readonly<Record<string, unknown>>;
  readonly inputs: readonly (Operand | undefined)[];
  /** Undefined where an output is not asked for. */
  readonly outputs: readonly (Operand | undefined)[];
}

/** Takes down the jobs of a call. Addresses hold as long as the operands stay where they are; when they move, a call is recorded anew. */
export interface Recorder {
  /** Threads that share a job. */
  readonly threads: number;
  /** True in the build with relaxed SIMD. */
  readonly relaxed: boolean;
  /** Bytes of scratch that a job may use on each thread. */
  readonly scratchBytes: number;
  /** The byte address of an operand's first element. */
  address(operand: Operand): number;
  /** Memory for what one job of the call hands to the next: other calls use it too, so that it holds nothing from run to run. */
  temporary(bytes: number): number;
  /**
   * Adds a test on data, made each time before the first job runs. Where it fails the slow truth runs instead: that one refuses, in its
   * own words, what must be refused. A test allocates nothing.
   */
  when(test: () => boolean): void;
  /** Queues a job, split into `parts`. */
  run<Name extends KernelName>(kernel: Name, job: JobOf<Name>, parts: number): void;
  /** Writes 32-bit words into memory that lives as long as the program: little programs that jobs point to. */
  words(values: readonly { readonly word?: number; readonly number?: number }[]): number;
}

/** A fast path of one operator. */
export interface WasmKernel {
  readonly op: string;
  readonly domain?: string;
  /** True, or why not: reasons are shown where the slow truth runs instead. */
  accepts(call: KernelCall): true | string;
  record(call: KernelCall, recorder: Recorder): void;
}
