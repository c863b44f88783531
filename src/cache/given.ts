/** What callers of this room hand in, checked: sessions, sequences, tokens. */
import { checkNumbers, checkOptions } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import { Session } from "../session/session.js";
import type { PagedStateOptions } from "./paged-state.js";
import { Sequence } from "./sequence.js";

/** The names of a paged state's options. */
export const pagedStateOptionNames: OptionNames<PagedStateOptions> = {
  blocks: true,
  blockSize: true,
  sharePrefixes: true,
  hash: true,
  columns: true,
  states: true,
};

/** Throws unless the arguments of a state's constructor are a session and an object of options with these names. */
export function checkStateArguments<T extends object>(
  what: string,
  session: unknown,
  options: T,
  names: OptionNames<T>,
): void {
  if (!Session.isSession(session))
    throw new InsituError("invalid-argument", `${what} needs an InferenceSession, got ${valueText(session)}`);
  checkOptions(`the options of ${what}`, options, names);
}

/** Throws unless this is a sequence. */
export function checkSequence(what: string, given: unknown): void {
  if (!Sequence.isSequence(given))
    throw new InsituError("invalid-argument", `${what} needs a sequence of the pool, got ${valueText(given)}`);
}

/** Throws unless these are tokens, at least one. `who` is whose they are. */
export function checkTokens(who: string, tokens: unknown): void {
  checkNumbers(`the tokens of ${who}`, tokens);
  if ((tokens as readonly number[]).length === 0)
    throw new InsituError("invalid-argument", `${who} has no token to read`);
}
