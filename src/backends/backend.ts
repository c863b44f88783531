/**
 * What a backend is: it takes a plan once, compiles it for the shapes it meets and runs the programs. No call per operator
 * crosses this interface; uploads and downloads stay on the backend's side.
 */
import type { InsituError } from "../base/error.js";
import type { Platform } from "../base/platform.js";
import type { Fact } from "../graph/fact.js";
import type { Node, Value } from "../graph/graph.js";
import type { Op } from "../graph/op.js";
import type { StepAccount } from "./step-account.js";
import type { Plan } from "../plan/plan.js";
import type { Program } from "../plan/program.js";
import type { ShareBytes } from "../tensor/arriving.js";
import type { ElementType } from "../tensor/element-type.js";
import type { Placed } from "../tensor/placed.js";
import type { TensorLocation } from "../tensor/tensor.js";
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

/** Elements and where they go. Type and shape agree. */
export interface Move {
  readonly from: Placed;
  readonly to: Placed;
}

/** A buffer that is wanted for a cache. */
export interface CacheRequest {
  /** The input that the buffer is for. */
  readonly cache: Value;
  readonly type: ElementType;
  readonly shape: readonly number[];
  /** Whole numbers between which whatever is written there lies: checks on data go by them where the contents cannot be looked at. */
  readonly bounds?: readonly [least: number, most: number] | undefined;
}

/**
 * Memory of a backend for what lasts from run to run. Rooms above hold places in it and ask; the backend alone touches bytes. What is
 * asked happens in the order in which it was asked, runs included.
 */
export interface Places {
  /** Where tensors that lie here say they are; "cpu" where a place here is a View. */
  readonly location: TensorLocation;
  /** Zeroed buffers for caches, all or none: each stays where it is until `free`. */
  allocate(caches: readonly CacheRequest[]): Placed[];
  /** Lets go of what `allocate` gave. */
  free(place: Placed): void;
  /**
   * Makes all moves as if at once; where two go to the same place, the later one stays. Sources may be Views of the caller's, which are
   * read before this returns; targets are places here, or Views whose sources are Views.
   */
  copy(moves: readonly Move[]): void;
  /** The elements on the host, as a copy without gaps: as they are once everything is done that was asked before. */
  read(place: Placed): Promise<View>;
  /**
   * Where `location` is "cpu": the same bytes for a caller to keep. Once `free` let go of them, nobody else gets them while the caller has an
   * array of them.
   */
  lend(place: Placed): View;
  /** True if a place lies in memory that a later run will write: what is to be kept must be copied. */
  owns(place: Placed): boolean;
  /** True if two places may have a byte in common. */
  overlap(a: Placed, b: Placed): boolean;
}

/** A value that each run brings from the host to the backend's memory, or back. */
export interface Transfer {
  readonly value: Value;
  readonly to: "backend" | "host";
  readonly bytes: number;
}

/** A plan made ready to run. */
export interface Executable extends Places {
  readonly plan: Plan;
  /** The program for inputs like these: compiled once and kept, the least recently used goes first. */
  programFor(inputs: readonly Placed[]): Program;
  /**
   * Runs a program. Inputs are Views, which are read before this returns, and places of caches, which are written where the plan says so.
   * `results` are the outputs that are wanted on the host, with a buffer to compute each into where the caller has one; or with a place that
   * `allocate` gave, to which one is brought when all else is done. `finish` is given the outputs by value that are wanted or held, those for
   * the host as Views, once they are there; it takes from them what is to last, before any other run writes.
   *
   * `submitted` is called where a backend knows earlier what becomes of caches: all that is asked from then on comes after the run. It is given
   * the outputs that stay on the backend, each where its cache is. Where it is not called, `finish` is all there is.
   *
   * What can be checked on the host is checked before anything is written (`program.checks`). Where a check looks at what only the device
   * knows, the backend reads it back before the write, or keeps what is overwritten (`step.keeps`) until it has. A run that rejects has
   * changed no cache, or its error's code is "state-lost".
   */
  run<T>(
    program: Program,
    inputs: readonly Placed[],
    results: ReadonlyMap<Value, Placed | null>,
    finish: (outputs: ReadonlyMap<Value, Placed>) => T,
    submitted?: (outputs: ReadonlyMap<Value, Placed>) => void,
  ): Promise<T>;
  /**
   * Runs a program several times in a row: what so many calls of `run` do, but asked for at once, so that the host has less to do for each. Caches
   * are where the first run has them and are written in place by all; `results` name no Views, and `finish` is given the outputs of all runs. A
   * run that is refused before anything was written refuses all of them; where a later one is, the error's code is "state-lost". Left out where
   * nothing is gained by it.
   */
  runSeries?<T>(
    program: Program,
    series: readonly (readonly Placed[])[],
    results: ReadonlyMap<Value, Placed | null>,
    finish: (outputs: readonly ReadonlyMap<Value, Placed>[]) => T,
    submitted?: (outputs: ReadonlyMap<Value, Placed>) => void,
  ): Promise<T>;
  readonly memory: MemoryUse;
  /** How the steps of the program that ran last were done; undefined before the first run, and where there is nothing to choose. */
  describeSteps(): ReadonlyMap<Node, StepAccount> | undefined;
  /** What the program that ran last brought to the backend's memory and back; nothing where that is the host's own. */
  describeTransfers(): readonly Transfer[];
}

/** Tokens that one run reads of a prompt, and of a long one. */
export interface BusyRows {
  readonly usual: number;
  readonly long: number;
}

/** A backend made ready for one session. */
export interface BackendSession {
  /** Memory for weights that the backend computes on directly, one piece for each size; left out where it has none of its own. */
  allocateBytes?(sizes: readonly number[]): Uint8Array[];
  /** The same for weights that come from one place, which the key names: sessions on the same memory have them in common. Undefined where they cannot. */
  shareBytes?: ShareBytes;
  /** Rejects with `out-of-memory` for weights that the backend cannot hold; left out where it computes on them as they lie. */
  checkWeights?(
    weights: readonly { readonly name: string; readonly bytes: number; readonly view: View }[],
  ): Promise<void>;
  /**
   * Brings weights that are not on the host to the backend's memory, in pieces, and tells of the bytes as they are read; left out where the
   * backend computes on the host's own memory, so that all weights must be there. What is not brought is read where a run first needs it. `meanwhile` is
   * done once they are on their way.
   */
  bringWeights?(
    weights: ReadonlyMap<View, string>,
    onRead: (bytes: number) => void,
    meanwhile: () => Promise<void>,
  ): Promise<void>;
  /** Does work whose runs are refused once all that they need is being compiled, of which `tell` hears; left out where nothing is that is worth it. */
  compileAhead?(work: () => Promise<void>, tell: (ready: number, total: number) => void): Promise<void>;
  /** Rows from which on products keep a device busy: prompts are read so many tokens at a time, long ones more. Left out where a few do. */
  readonly busyRows?: BusyRows;
  /** Lines of `explain` about the backend's memories, threads and compiled code; none where there is nothing but one memory to tell of. */
  describe(): readonly string[];
  /** Resolves once nothing can be computed any more, with what all that is asked says from then on; left out where a device cannot go away. */
  readonly lost?: Promise<InsituError>;
  /** Makes a plan ready. What was prepared for one session runs on each other's places, all in the order in which it was asked. */
  prepare(plan: Plan): Executable;
  /**
   * Gives back all memory, once everything is done that was asked before: resolves then. What is asked later does nothing, or is refused.
   * Sessions on one device notice nothing of each other's.
   */
  release(): Promise<void>;
}

/** What becomes of operators that a device has no kernel for: they run on the host, which `explain` tells, or the run is refused. */
export type FallbackPolicy = "host" | "never";

/** What a session asks of a backend. */
export interface BackendOptions {
  readonly platform: Platform;
  /** Threads in all; what the machine has when left out. */
  readonly threads?: number | undefined;
  /** What the caller set for this backend alone: the backend reads and checks it. */
  readonly settings?: unknown;
  /** True where a row of a result must not depend on what other rows a run has: a backend that cannot promise it is not available. */
  readonly batchInvariant?: boolean;
  /** What has no kernel may run on the host, or not at all. */
  readonly fallback?: FallbackPolicy;
  /** True where the caller left the choice open: a backend that is there, but not worth taking, is not available then. */
  readonly automatic?: boolean;
}

/** How a backend would run a program, told without running it. */
export interface Forecast {
  /** How every step would be done. */
  readonly accounts: ReadonlyMap<Node, StepAccount>;
  /** What a run with these inputs would do, on this backend's layout. */
  readonly program: Program;
}

/** A way to run plans. */
export interface Backend {
  readonly name: string;
  /** Starts what the backend needs: memory, threads. */
  open(options: BackendOptions): Promise<BackendSession>;
  /** True for an operator that the backend may do at once; left out where it has no kernels for operators that stand for several. */
  readonly hasKernel?: (op: Op) => boolean;
  /** How a plan would run for inputs of these types and shapes; left out where there is nothing to choose. */
  forecast?(plan: Plan, inputs: readonly Fact[]): Forecast;
}

/** The backends by name: "wasm" computes on the CPU, "webgpu" on the GPU, "reference" slowly, for comparison. */
export type BackendName = "wasm" | "webgpu" | "reference";

/** A backend that can be had by its name, loaded when it is first asked for. */
export interface BackendChoice {
  readonly name: string;
  /** True for one that computes in memory that the host cannot read. */
  readonly isDevice?: boolean;
  /** Where it comes among those that are tried when the caller leaves the choice open, from 0 on; left out where it is not. */
  readonly automatic?: number;
  /** True for what is taken, where the caller allows it, when neither the one asked for nor those that are tried after it can be had. */
  readonly lastResort?: boolean;
  load(): Promise<Backend>;
}
