/** Which keys a query may see for its position alone: causality, windows and the number of valid keys. Not the mask's business. */
import type { Range } from "./heads.js";

/** Where queries and keys stand. */
export interface Placement {
  readonly queries: number;
  /** Keys that are there, past ones included. */
  readonly total: number;
  /** Keys of past_key. */
  readonly past: number;
  /** For a cache that is written outside: valid keys of each sample, this step's included. */
  readonly nonpad: readonly number[] | undefined;
  readonly causal: boolean;
  /** How far back and ahead of its own position a query looks; negative for no bound. */
  readonly left: number;
  readonly right: number;
}

/**
 * The keys that query `query` of sample `sample` may see; empty where there is none. The query's own position is aligned to the
 * bottom right: it counts the past, or ends with the last valid key, or starts at 0 when there is neither (also when there are
 * more keys than queries).
 */
export function visibleKeys(placement: Placement, sample: number, query: number): Range {
  const { queries, total, past, nonpad, causal, left, right } = placement;
  const position = query + (nonpad === undefined ? past : nonpad[sample] - queries);
  let from = 0;
  let to = nonpad === undefined ? total : nonpad[sample];
  if (causal) to = Math.min(to, position + 1);
  if (right >= 0) to = Math.min(to, position + right + 1);
  if (left >= 0) from = Math.max(from, position - left);
  return from < to ? { from, to } : { from: 0, to: 0 };
}

/** The keys that any query of the sample may see. */
export function reachOf(placement: Placement, sample: number): Range {
  let from = Infinity;
  let to = 0;
  for (let query = 0; query < placement.queries; query++) {
    const range = visibleKeys(placement, sample, query);
    if (range.from === range.to) continue;
    from = Math.min(from, range.from);
    to = Math.max(to, range.to);
  }
  return to === 0 ? { from: 0, to: 0 } : { from, to };
}
