/** What a run over pages reads of each sequence, as callers say it, checked before a turn is taken, which others wait for. */
import { checkCount, checkList, checkObject } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import { checkSequence, checkTokens } from "./given.js";
import type { Sequence } from "./sequence.js";

/** Tokens that a run reads for one sequence. */
export interface PagedEntry {
  /** The sequence that the tokens belong to. */
  readonly sequence: Sequence;
  /** The tokens to read. */
  readonly tokens: readonly number[];
  /**
   * The position of the first token.
   * @default where the sequence ends
   */
  readonly position?: number | undefined;
  /** Overwrites rows instead of appending: where to start, and how many rows are valid afterwards. */
  readonly rows?: { readonly start: number; readonly valid: number } | undefined;
}

/** The same, or how many tokens, where the host does not know them: the body of the run feeds them, and `learn` tells the sequence later. */
export interface RunEntry extends Omit<PagedEntry, "tokens"> {
  readonly tokens: readonly number[] | number;
}

/** Throws for entries that cannot be run: before a turn is taken, which others wait for. */
export function checkEntries(entries: readonly RunEntry[], keepsStates: boolean): void {
  checkList("the entries of a run", entries);
  if (entries.length === 0) throw new InsituError("invalid-argument", "a run needs at least one sequence");
  if (keepsStates) checkEqual(entries);
  for (const entry of entries) {
    checkObject("an entry of a run", entry);
    checkSequence("an entry of a run", entry.sequence);
    if (typeof entry.tokens === "number") checkCount("the tokens of an entry", entry.tokens);
    else checkTokens(`sequence "${entry.sequence.name}"`, entry.tokens);
    checkCount("the position of an entry", entry.position);
    if (entry.rows === undefined) continue;
    checkObject("the rows of an entry", entry.rows);
    for (const name of ["start", "valid"] as const)
      if (!Number.isSafeInteger(entry.rows[name]) || entry.rows[name] < 0)
        throw new InsituError(
          "invalid-argument",
          `rows.${name} of an entry must be a whole number from 0 on, got ${valueText(entry.rows[name])}`,
        );
  }
}

/** States without rows read all that a run is fed: there is no padding that they could be kept from. */
function checkEqual(entries: readonly RunEntry[]): void {
  const counts = new Set(entries.map(({ tokens }) => (typeof tokens === "number" ? tokens : tokens?.length)));
  if (counts.size > 1)
    throw new InsituError(
      "invalid-argument",
      `the model has recurrent states, so one run must read as many tokens of each sequence, got ${[...counts].join(", ")}: use separate runs`,
    );
  if (entries.some(({ rows }) => rows !== undefined))
    throw new InsituError(
      "invalid-argument",
      "the model has recurrent states, which have already read the rows to be written again: truncate the sequence and read on",
    );
}
