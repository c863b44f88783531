/** What callers give, as they give it: JavaScript lets anything through. An option that is null is one that was left out. */
import { InsituError } from "./error.js";
import { valueText } from "./value-text.js";

/** Options without those that are null or undefined; throws where they are no object. */
export function givenOptions<T extends object>(options: T | null | undefined, of: string): T {
  const given: unknown = options ?? {};
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new InsituError("invalid-argument", `the options of ${of} must be an object, got ${valueText(options)}`);
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null && value !== undefined)) as T;
}

/** Throws unless a number, where there is one, is whole and at least `least`. */
export function wholeNumber(name: string, given: number | undefined, least: number): void {
  if (given !== undefined && !(Number.isSafeInteger(given) && given >= least))
    throw new InsituError(
      "invalid-argument",
      `option ${name} must be a whole number from ${least} on, got ${valueText(given)}`,
    );
}

/** Throws unless a value, where there is one, is what the rule says. */
export function ruled(name: string, given: unknown, rule: string, holds: boolean): void {
  if (given !== undefined && !holds)
    throw new InsituError("invalid-argument", `option ${name} must be ${rule}, got ${valueText(given)}`);
}

/** Throws unless the option, where it is given, is one of the words. */
export function oneOf(name: string, given: string | undefined, words: readonly string[]): void {
  const quoted = words.map((word) => `"${word}"`);
  ruled(name, given, `${quoted.slice(0, -1).join(", ")} or ${quoted.at(-1)}`, words.includes(given as string));
}

/** Throws unless the option, where it is given, can end what it is given to. */
export function checkSignal(signal: AbortSignal | undefined): void {
  const works = typeof signal === "object" && typeof signal.throwIfAborted === "function";
  ruled("signal", signal, "an AbortSignal", works);
}
