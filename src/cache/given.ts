/** What callers of this room hand in, checked: sessions, sequences, tokens. */
import { checkNumbers, checkObject } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import { Session } from "../session/session.js";
import { Sequence } from "./sequence.js";

/** Throws unless the arguments of a state's constructor are a session and an object of options. */
export function checkStateArguments(what: string, session: unknown, options: unknown): void {
  if (!Session.isSession(session))
    throw new InsituError("invalid-argument", `${what} needs an InferenceSession, got ${valueText(session)}`);
  checkObject(`the options of ${what}`, options);
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
