/**
 * Which rows of a full cache stay: policies as small pure functions over positions and scores. They move nothing; `EvictingState` and
 * `PagedState` do what they say.
 */
import { checkCount, checkList, optionsOf } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";

/** What an eviction policy decides on: the rows of a cache, or of one head. */
export interface CachedRows {
  /** The position of each row's token in the text, oldest first. */
  readonly positions: readonly number[];
  /** The attention that each row has received since it was written; undefined if it was not measured. */
  readonly scores: readonly number[] | undefined;
  /** How many rows should stay. */
  readonly budget: number;
}

/** The rows that stay, by number, in ascending order. */
export type EvictionPolicy = (rows: CachedRows) => readonly number[];

/** Keeps the first positions, which models attend to whatever they hold (attention sinks), and the most recent ones. */
export function recentWindow(options?: { readonly sinks?: number }): EvictionPolicy {
  const { sinks = 4 } = optionsOf("the options of recentWindow", options, { sinks: true });
  checkSinks(sinks);
  return ({ positions, budget }) => {
    const first = positions.filter((position) => position < sinks).length;
    const recent = Math.max(0, budget - first);
    return positions.flatMap((_, row) => (row < first || row >= positions.length - recent ? [row] : []));
  };
}

/**
 * Keeps the rows that got the most attention so far, the first positions and the most recent ones. `recent` is the share of the budget that goes to
 * the most recent ones, if the first positions leave room.
 */
export function heavyHitters(options?: { readonly sinks?: number; readonly recent?: number }): EvictionPolicy {
  const { sinks = 4, recent = 0.5 } = optionsOf("the options of heavyHitters", options, { sinks: true, recent: true });
  checkSinks(sinks);
  if (!(typeof recent === "number" && recent >= 0 && recent <= 1))
    throw new InsituError("invalid-argument", `option recent must be a share from 0 to 1, got ${valueText(recent)}`);
  return ({ positions, scores, budget }) => {
    if (scores === undefined)
      throw new InsituError(
        "invalid-argument",
        "heavy hitters are chosen by scores, and none were measured: load the model with scores (withAttentionScores, or pages({ scores: true }))",
      );
    const first = positions.filter((position) => position < sinks).length;
    const last = positions.length - Math.min(Math.ceil(budget * recent), Math.max(0, budget - first));
    const sure = positions.flatMap((_, row) => (row < first || row >= last ? [row] : []));
    const taken = new Set(sure);
    const others = positions
      .map((_, row) => row)
      .filter((row) => !taken.has(row))
      .toSorted((a, b) => scores[b] - scores[a] || b - a)
      .slice(0, Math.max(0, budget - sure.length));
    return [...sure, ...others].toSorted((a, b) => a - b);
  };
}

/**
 * The rows that stay where room is given back in whole blocks: all that were chosen, and fewer others than a block has. The others are
 * the rest of the blocks with chosen rows, so that nothing has to move; where those would be too many, the latest rows that were not
 * chosen, as many as fill no block: then what lies behind the last gap stays where it is, and only rows between gaps move.
 */
export function rowsInBlocks(chosen: readonly number[], length: number, blockSize: number): number[] {
  const columns = new Set(chosen.map((row) => Math.floor(row / blockSize)));
  const all = Array.from({ length }, (_, row) => row);
  const whole = all.filter((row) => columns.has(Math.floor(row / blockSize)));
  if (whole.length - chosen.length < blockSize) return whole;
  const taken = new Set(chosen);
  const others = all.filter((row) => !taken.has(row));
  const spared = others.slice(others.length - (others.length % blockSize));
  return [...chosen, ...spared].toSorted((a, b) => a - b);
}

/**
 * Budgets for heads that together make `total`: by how many rows each needs for the same share of its attention, at least `least` each.
 * A head that looks at few rows leaves its room to one that looks at many.
 */
export function headBudgets(scores: readonly (readonly number[])[], total: number, least = 1): number[] {
  checkList("headBudgets: the scores", scores);
  for (const head of scores) {
    checkList("headBudgets: the scores of a head", head);
    const odd = head.findIndex((score) => typeof score !== "number");
    if (odd >= 0)
      throw new InsituError("invalid-argument", `headBudgets: scores must be numbers, got ${valueText(head[odd])}`);
  }
  if (typeof total !== "number" || !(total >= 0))
    throw new InsituError(
      "invalid-argument",
      `headBudgets: the total must be a number of rows, got ${valueText(total)}`,
    );
  checkCount("headBudgets: the least", least);
  const sums = scores.map((head) => head.reduce((sum, score) => sum + score, 0) || 1);
  const candidates = scores
    .flatMap((head, at) => head.map((score) => ({ head: at, share: score / sums[at] })))
    .toSorted((a, b) => b.share - a.share);
  const budgets = scores.map((head) => Math.min(least, head.length));
  let left = total - budgets.reduce((sum, budget) => sum + budget, 0);
  const seen = scores.map(() => 0);
  for (const { head } of candidates) {
    if (left <= 0) break;
    // The first of a head's rows are those that it has already.
    if (++seen[head] <= budgets[head] || budgets[head] >= scores[head].length) continue;
    budgets[head]++;
    left--;
  }
  return budgets;
}

/** What a policy keeps, checked: in order, once, there, and few enough. */
export function applyPolicy(policy: EvictionPolicy, rows: CachedRows, most: number, what: string): readonly number[] {
  if (typeof policy !== "function")
    throw new InsituError("invalid-argument", `${what}: a policy must be a function, got ${valueText(policy)}`);
  const kept = policy(rows);
  checkList(`${what}: what the policy keeps`, kept);
  const { length } = rows.positions;
  const wrong = kept.findIndex(
    (row, at) => !Number.isSafeInteger(row) || row < 0 || row >= length || row <= (kept[at - 1] ?? -1),
  );
  if (wrong >= 0)
    throw new InsituError(
      "invalid-argument",
      `${what}: the policy must name rows of ${length} in ascending order, got ${valueText(kept[wrong])} as number ${wrong}`,
    );
  if (kept.length > most)
    throw new InsituError(
      "invalid-argument",
      `${what}: the policy keeps ${kept.length} of ${length} rows where at most ${most} may stay: it evicts ${length === kept.length ? "nothing" : "too little"}, and room is needed`,
    );
  return kept;
}

/** How many rows should stay, checked. */
export function checkBudget(budget: number, what: string): void {
  if (!Number.isSafeInteger(budget) || budget < 1)
    throw new InsituError(
      "invalid-argument",
      `${what}: the budget must be a whole number of rows from 1 on, got ${valueText(budget)}`,
    );
}

function checkSinks(sinks: number): void {
  if (!Number.isSafeInteger(sinks) || sinks < 0)
    throw new InsituError("invalid-argument", `option sinks must be a whole number from 0 on, got ${valueText(sinks)}`);
}
