/** What callers hand in, checked: objects of options, and callbacks. Undefined stands for what is left out; null is a value like others. */
import { InsituError } from "./error.js";
import { valueText } from "./value-text.js";

/** The options that a caller gave, none where they are left out. `what` names them. */
export function optionsOf<T extends object>(what: string, given: T | undefined): Partial<T> {
  if (given === undefined) return {};
  if (typeof given === "object" && given !== null && !Array.isArray(given)) return given;
  throw new InsituError("invalid-argument", `${what} must be an object, got ${valueText(given)}`);
}

/** Throws unless an argument that must be there is an object. */
export function checkObject(what: string, given: unknown): void {
  if (typeof given !== "object" || given === null)
    throw new InsituError("invalid-argument", `${what} must be an object, got ${valueText(given)}`);
}

/** Throws unless an option is a function or left out. */
export function checkCallback(what: string, given: unknown): void {
  if (given !== undefined && typeof given !== "function")
    throw new InsituError("invalid-argument", `${what} must be a function, got ${valueText(given)}`);
}

/** Throws unless an option is true, false or left out. */
export function checkFlag(what: string, given: unknown): void {
  if (given !== undefined && typeof given !== "boolean")
    throw new InsituError("invalid-argument", `${what} must be true or false, got ${valueText(given)}`);
}

/** An option that is one of a few words; `absent` where it is left out. */
export function choiceOf<T extends string>(what: string, given: T | undefined, choices: readonly T[], absent: T): T {
  if (given === undefined) return absent;
  if (choices.includes(given)) return given;
  const words = choices.map((choice) => `"${choice}"`);
  throw new InsituError(
    "invalid-argument",
    `${what} must be ${words.slice(0, -1).join(", ")} or ${words.at(-1)}, got ${valueText(given)}`,
  );
}

/** Throws unless an argument is a list. */
export function checkList(what: string, given: unknown): asserts given is readonly unknown[] {
  if (!Array.isArray(given))
    throw new InsituError("invalid-argument", `${what} must be a list, got ${valueText(given)}`);
}

/** Throws unless an argument is a list of whole numbers from 0 on. */
export function checkNumbers(what: string, given: unknown): void {
  checkList(what, given);
  for (let at = 0; at < given.length; at++)
    if (!Number.isSafeInteger(given[at]) || (given[at] as number) < 0)
      throw new InsituError(
        "invalid-argument",
        `${what} must be whole numbers from 0 on, got ${valueText(given[at])} at ${at}`,
      );
}

/** Throws unless an option is a whole number of at least `least`, or left out. */
export function checkCount(what: string, given: unknown, least = 0): void {
  if (given === undefined || (Number.isSafeInteger(given) && (given as number) >= least)) return;
  throw new InsituError(
    "invalid-argument",
    `${what} must be a whole number of at least ${least}, got ${valueText(given)}`,
  );
}

/** Throws unless a name is text or left out. */
export function checkName(what: string, given: unknown): void {
  if (given !== undefined && typeof given !== "string")
    throw new InsituError("invalid-argument", `${what} must be text, got ${valueText(given)}`);
}
