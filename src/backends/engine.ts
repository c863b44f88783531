/** What an executor asks of the place it computes in: memory for tensors, and the calls themselves. */
import type { Value } from "../graph/graph.js";
import type { Plan } from "../plan/plan.js";
import type { StepAccount } from "./step-account.js";
import type { Leftovers } from "../plan/program-cache.js";
import type { Program, Step } from "../plan/program.js";
import type { ElementType } from "../tensor/element-type.js";
import type { View } from "../tensor/view.js";
import type { CacheRequest } from "./backend.js";
import type { Turns } from "./turns.js";

/** Runs a subgraph attribute of the step's node. */
export type BodyRunner = (attribute: string, inputs: readonly View[]) => readonly View[];

/** Repeats a call: false, with nothing done, where the data ask for another way. */
export type Repeat = () => boolean;

/** A stretch of memory and where it starts. */
export interface Stretch {
  readonly buffer: ArrayBufferLike;
  readonly start: number;
}

/** Memory for intermediate values: a stretch in every memory that a step runs in, all laid out alike. */
export interface Arena {
  at(seat: number): Stretch;
}

/** Where a step runs, in an engine that has several memories. */
export interface Seating {
  readonly seat: number;
  /** The operands as the step reads them there. */
  readonly operands: readonly (View | undefined)[];
  /** Copies operands that lie elsewhere, for each run anew; undefined where there are none. It was called once. */
  readonly carry: (() => void) | undefined;
}

/** Memory and calls of one backend. */
export interface Engine {
  /** Who computes when; left out where a run does all of its steps at once. */
  readonly turns?: Turns;
  /** True if results lie in the arena until the run ends and are copied out; false if each has a buffer of its own. */
  readonly resultsInArena: boolean;
  /** A zeroed buffer that stays where it is until it is let go of; it is read together with `near`. */
  allocate(type: ElementType, shape: readonly number[], near?: View): View;
  /** Zeroed buffers for caches of a plan, all or none. */
  allocateCaches(plan: Plan, caches: readonly CacheRequest[]): View[];
  /** Lets go of what `allocate` gave. */
  free(view: View): void;
  /** The same bytes for a caller to keep: once `free` let go of them, nobody else gets them while the caller has an array of them. */
  lend(view: View): View;
  /** Memory for intermediate values; `before` is what it replaces. */
  arena(bytes: number, before: Arena | undefined): Arena;
  /**
   * An input as the steps read it: itself, or a copy in memory that the backend reaches. Held ones are there already. The same object
   * means the same place: replay goes by the identity of these views, so a copy that is made elsewhere is another object.
   */
  stage(value: Value, view: View): View;
  /** Where a step runs; undefined where there is one memory only. What lies `elsewhere` is written without being an operand. */
  seat(
    program: Program,
    step: Step,
    inputs: readonly (View | undefined)[],
    arena: Arena,
    elsewhere: readonly View[],
  ): Seating | undefined;
  /** Runs one step whose outputs are placed. */
  call(
    program: Program,
    step: Step,
    inputs: readonly (View | undefined)[],
    outputs: (View | undefined)[],
    runBody: BodyRunner,
    seat: number,
  ): void;
  /** What repeats the call of a step that has just run, for as long as its operands stay where they are; undefined where nothing can be kept. */
  repeat(step: Step): Repeat | undefined;
  /** How a step that has run was done; undefined where the engine has nothing to choose. */
  describe(step: Step): StepAccount | undefined;
  /** Lets go of what was kept for steps that will not run again, and for constants that only they read. */
  forget(left: Leftovers): void;
  /** True if two views may have a byte in common. */
  overlap(a: View, b: View): boolean;
  /** True if a view lies in memory that the engine will use again. */
  owns(view: View): boolean;
}
