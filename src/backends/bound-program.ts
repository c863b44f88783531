/**
 * What one run of a program found, kept for the next: where every value lies and what repeats each call. It holds for runs whose inputs
 * lie in the same places. Decides nothing itself: the executor makes it and runs it.
 */
import { InsituError } from "../base/error.js";
import { operandChecks } from "../graph/call.js";
import { type Fact, factOfView } from "../graph/fact.js";
import type { Value } from "../graph/graph.js";
import type { DataCheck } from "../plan/data-checks.js";
import type { Program, Step } from "../plan/program.js";
import { samePlace } from "../tensor/placed.js";
import type { View } from "../tensor/view.js";
import type { Environment } from "./body.js";
import type { Arena, Repeat } from "./engine.js";

/** A step with its operands in their places. */
export interface BoundStep {
  readonly step: Step;
  /** Where the operands lay when the step ran. */
  readonly operands: readonly (View | undefined)[];
  /** True where the outputs come to lie in the same places whenever the operands do. */
  readonly settled: boolean;
  /** The checks on data to make when the step runs, where there are some. */
  readonly checks: (() => void) | undefined;
  /** Keeps what the step is about to overwrite, where something after it may still refuse the run. */
  readonly keep: (() => void) | undefined;
  /** What repeats the call; undefined where it has to be made anew. */
  readonly repeat: Repeat | undefined;
  /** Where the outputs lay when the step ran. */
  readonly outputs: readonly (View | undefined)[];
}

/** A program with all its values in their places. */
export interface BoundProgram {
  /** The inputs as the steps read them. */
  readonly inputs: readonly View[];
  readonly arena: Arena | undefined;
  readonly environment: Environment;
  /** The checks on data to make before the first step. */
  readonly checks: readonly (() => void)[];
  readonly steps: readonly BoundStep[];
  readonly outputs: ReadonlyMap<Value, View>;
}

/**
 * True if a program was bound to these very inputs and this arena. Views are told by identity: `Engine.stage` promises one object for as
 * long as its bytes stay where they are, and a view of memory that was let go of never comes again, whoever has its bytes now.
 */
export function isBoundTo(bound: BoundProgram, inputs: readonly View[], arena: Arena | undefined): boolean {
  if (bound.arena !== arena) return false;
  for (let at = 0; at < inputs.length; at++) if (bound.inputs[at] !== inputs[at]) return false;
  return true;
}

/** True if a step that ran before has its operands where they lay, so that what repeats it holds. */
export function isBoundStep(bound: BoundStep | undefined, step: Step, environment: Environment): bound is BoundStep {
  if (bound === undefined || bound.step !== step || !bound.settled || bound.repeat === undefined) return false;
  const { inputs, bodies } = step.node;
  if (bodies.size > 0) return false;
  for (let at = 0; at < inputs.length; at++) {
    const value = inputs[at];
    if (value !== undefined && bound.operands[at] !== (environment.get(value) ?? value.initializer)) return false;
  }
  // What is written without being an operand may lie elsewhere in another state.
  return step.placements.every((placement, at) => {
    if (placement?.kind !== "shared" || inputs.includes(placement.with)) return true;
    const [there, now] = [bound.outputs[at], environment.get(placement.with)];
    return there !== undefined && now !== undefined && samePlace(there, now);
  });
}

/** Makes checks on data, as far as the values that are there by now tell. */
export function checksOf(
  program: Program,
  checks: readonly DataCheck[],
  environment: ReadonlyMap<Value, View>,
): (() => void)[] {
  const known = (value: Value): Fact | undefined => {
    const view = environment.get(value) ?? value.initializer;
    return view === undefined ? program.facts.get(value) : factOfView(view);
  };
  return checks.map(({ node, cache }) => {
    const make = operandChecks(
      node,
      node.inputs.map((value) => value && known(value)),
    );
    if (cache === undefined) return make;
    return () => {
      try {
        make();
      } catch (error) {
        if (!(error instanceof InsituError)) throw error;
        throw new InsituError(error.code, `cache "${cache.name}": ${error.message}`, { cause: error });
      }
    };
  });
}
