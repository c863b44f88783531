/**
 * What a run overwrites in the caches of a state before something that may still refuse it: kept until the run is over, and put back
 * if it fails. Which steps are kept, and that most programs need none of this, is the program's knowledge.
 */
import { InsituError } from "../base/error.js";
import { overwrittenParts } from "../graph/call.js";
import type { Step } from "../plan/program.js";
import { copyView } from "../tensor/copy.js";
import { sameNumbers, View } from "../tensor/view.js";

/** Part of a cache, and its elements as they were. */
interface Kept {
  readonly place: View;
  readonly before: View;
}

/** The parts of caches that the current run has overwritten so far. */
export class Journal {
  readonly #kept: Kept[] = [];
  /** Memory of earlier runs for what a step overwrites: a step writes as much each time. */
  readonly #spare = new WeakMap<Step, readonly View[]>();

  /** Keeps what a step is about to overwrite. */
  keep(step: Step, inputs: readonly (View | undefined)[], outputs: readonly (View | undefined)[]): void {
    const spare = this.#spare.get(step) ?? [];
    const parts = overwrittenParts(step.node, inputs, outputs, (at) => {
      const placement = step.placements[at];
      return placement?.kind === "shared" && placement.effect === "update";
    });
    const kept = parts.map((place, at): View => {
      const memory = spare.at(at);
      const fits = memory !== undefined && memory.type === place.type && sameNumbers(memory.shape, place.shape);
      const before = fits ? memory : View.allocate(place.type, place.shape);
      copyView(place, before);
      this.#kept.push({ place, before });
      return before;
    });
    this.#spare.set(step, kept);
  }

  /** Puts everything back, the last first. */
  undo(): void {
    for (let kept = this.#kept.pop(); kept !== undefined; kept = this.#kept.pop()) copyView(kept.before, kept.place);
  }

  /** The run is over: what was kept is let go of. */
  clear(): void {
    this.#kept.length = 0;
  }
}

/** The error of a run that failed for no reason that checks could tell, after it had overwritten rows of a state's caches. */
export function lostState(cause: unknown): InsituError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new InsituError(
    "state-lost",
    `${reason}; caches were being written, so the state is lost: restore a saved one into it, or create a new one`,
    { cause },
  );
}
