/** What stands behind a state: its session, its figures, and what gives its memory back once nothing refers to it. */
import type { CacheEdits } from "./cache-edits.js";
import type { Holding } from "./holding.js";

/** How often a state was used, and how many bytes had to be copied. */
export interface StateStatistics {
  /** Runs that used the state. */
  readonly runs: number;
  /** Bytes copied because a reserve had to grow, a fork was written, or an update could not be done in place. */
  readonly movedBytes: number;
}

/** The session behind a state, as far as the state knows it. */
export interface StateOwner {
  readonly released: boolean;
  /** Runs operators on caches. */
  readonly edits: CacheEdits;
}

/** Gives back the memory of states that were dropped without `release`; that of a session that was released is gone already. */
export const dropped: FinalizationRegistry<readonly [StateOwner, readonly Holding[]]> = new FinalizationRegistry(
  ([owner, holdings]) => {
    for (const holding of owner.released ? [] : holdings) {
      try {
        holding.release();
      } catch {
        // No memory for a copy that a fork needs: it stays where it is, and there is nobody to tell.
      }
    }
  },
);
