/** What a session's states hold, by name: for whoever feeds the other inputs. Tells what the plan found; finds nothing itself. */
import type { Pair, PairKind } from "../plan/pairs.js";

/** An input that states hold between runs. */
export interface HeldInput {
  /** The name of the input. */
  readonly input: string;
  /** The name of the output that becomes its next content. */
  readonly output: string;
  /** `update`: it keeps its shape and is partly written. `grow`, `append`: it gets longer, within a reserve or joined anew. */
  readonly kind: PairKind;
  /** The axis of its rows, counted from the front; undefined for a recurrent state. */
  readonly axis: number | undefined;
  /** True for a cache that keeps only the last rows, and does not count them. */
  readonly keepsLast?: true;
}

/** The pairs of a plan, for callers. */
export const heldInputsOf = (pairs: readonly Pair[]): readonly HeldInput[] =>
  pairs.map(({ past, present, kind, axis, keeps }) => ({
    input: past.name,
    output: present.name,
    kind,
    axis,
    ...(keeps === undefined ? {} : { keepsLast: true as const }),
  }));
