/**
 * How an operator's fast path on WASM is written: `ops/<op>/wasm.ts` exports these, beside the declaration. A kernel says whether it
 * accepts a call, and records the jobs that do it. It computes nothing itself.
 */
import {
  bindKernel,
  type CallOf,
  kernelFamily,
  type KernelPath,
  type Operand,
  type RecordingKernel,
  type Served,
} from "../graph/kernel.js";
import type { JobOf, KernelName } from "./exports.js";

/** Takes down the jobs of a call. Addresses hold as long as the operands stay where they are; when they move, a call is recorded anew. */
export interface Recorder {
  /** Threads that share a job. */
  readonly threads: number;
  /** True in the build with relaxed SIMD. */
  readonly relaxed: boolean;
  /** True where a row must come out the same whatever other rows a call has: kernels are not chosen by the number of rows then. */
  readonly batchInvariant: boolean;
  /** Bytes of scratch that a job may use on each thread. */
  readonly scratchBytes: number;
  /** The byte address of an operand's first element. */
  address(operand: Operand): number;
  /** Memory for what one job of the call hands to the next: other calls use it too, so that it holds nothing from run to run. */
  temporary(bytes: number): number;
  /**
   * Adds a test on data, made each time before the first job runs. Where it fails the reference implementation runs instead: that one refuses, in its
   * own words, what must be refused. A test allocates nothing.
   */
  when(test: () => boolean): void;
  /** The address of a job that another one points to; it is not queued. */
  job<Name extends KernelName>(kernel: Name, job: JobOf<Name>): number;
  /** Queues a job, split into `parts`. */
  run<Name extends KernelName>(kernel: Name, job: JobOf<Name>, parts: number): void;
  /** Writes 32-bit words into memory that lives as long as the program: little programs that jobs point to. */
  words(values: readonly { readonly word?: number; readonly number?: number }[]): number;
}

/** A fast path, as the backend sees it. */
export type WasmKernel = RecordingKernel<Recorder>;

/** Binds one to the declarations whose calls it serves. */
export const wasmKernel: <const Ops extends Served>(
  ops: Ops,
  path: KernelPath<CallOf<Ops[number]>, Recorder>,
) => WasmKernel = bindKernel;

/** Those of a family, which differ only in how they read their calls. */
export const wasmFamily: <Work extends object>(
  family: KernelPath<Work, Recorder>,
) => <const Ops extends Served>(ops: Ops, workOf: (call: CallOf<Ops[number]>) => Work | string) => WasmKernel =
  kernelFamily;
