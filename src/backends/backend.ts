/**
 * What a backend is: it takes a plan once, compiles it for the shapes it meets and runs the programs. No call per operator
 * crosses this interface; uploads and downloads stay on the backend's side.
 */
import type { Platform } from "../base/platform.js";
import type { Node, Value } from "../graph/graph.js";
import type { StepAccount } from "../plan/explain-gather.js";
import type { Plan } from "../plan/plan.js";
import type { Program } from "../plan/program.js";
import type { ElementType } from "../tensor/element-type.js";
import type { View } from "../tensor/view.js";

/** More threads than this cannot be asked for: each is a worker with memory of its own. */
export const mostThreads = 64;

/** What a backend has taken for tensors so far. */
export interface MemoryUse {
  /** Bytes of the arena that programs share. */
  readonly arenaBytes: number;
  /** Buffers allocated since the executable was made, and their bytes: the arena, results, and what dynamic steps need. */
  readonly allocations: number;
  readonly allocatedBytes: number;
}

/** A plan made ready to run. */
export interface Executable {
  readonly plan: Plan;
  /** The program for inputs like these: compiled once and kept, the least recently used goes first. */
  programFor(inputs: readonly View[]): Program;
  /**
   * Runs a program: the outputs' views, by value. Inputs that a state holds may be written where the plan says so, others never.
   * `results` are buffers to compute outputs into, where the caller has some. Outputs may lie where the next run writes, and the next run
   * may begin before a promise's reader is called: `finish` takes from them what is to last, before any other run begins.
   */
  run<T>(
    program: Program,
    inputs: readonly View[],
    results: ReadonlyMap<Value, View>,
    finish: (outputs: ReadonlyMap<Value, View>) => T,
  ): Promise<T>;
  /** The same for callers whose runs take turns: the outputs themselves, until the next run. */
  run(program: Program, inputs: readonly View[], results?: ReadonlyMap<Value, View>): Promise<ReadonlyMap<Value, View>>;
  /** A zeroed buffer, for a cache that a state holds: it stays where it is until `free`. */
  allocate(type: ElementType, shape: readonly number[], cache?: Value): View;
  /** Lets go of what `allocate` gave. */
  free(view: View): void;
  /** The same bytes for a caller to keep: once `free` let go of them, nobody else gets them while the caller has an array of them. */
  lend(view: View): View;
  /** True if a view lies in memory that a later run will write: what is to be kept must be copied. */
  owns(view: View): boolean;
  /** True if two views may have a byte in common. */
  overlap(a: View, b: View): boolean;
  readonly memory: MemoryUse;
  /** How the steps of the program that ran last were done; undefined before the first run, and where there is nothing to choose. */
  describeSteps(): ReadonlyMap<Node, StepAccount> | undefined;
}

/** A backend made ready for one session. */
export interface BackendSession {
  /** Memory for weights that the backend computes on directly, one piece for each size; left out where it has none of its own. */
  allocateBytes?(sizes: readonly number[]): Uint8Array[];
  /** What is to be told of the backend's memories, a line each; nothing where there is one. */
  describe(): readonly string[];
  prepare(plan: Plan): Executable;
  /** Gives back all memory. */
  release(): void;
}

/** What a session asks of a backend. */
export interface BackendOptions {
  readonly platform: Platform;
  /** Threads in all; what the machine has when left out. */
  readonly threads?: number | undefined;
  /** False keeps to plain SIMD. */
  readonly relaxedSimd?: boolean | undefined;
  /** The most bytes of one WebAssembly memory; the most there can be when left out. */
  readonly wasmMemoryBytes?: number | undefined;
}

/** A way to run plans. */
export interface Backend {
  readonly name: string;
  /** Starts what the backend needs: memory, threads. */
  open(options: BackendOptions): Promise<BackendSession>;
}
