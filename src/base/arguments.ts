/** What callers hand in, checked: JavaScript lets anything through. Undefined stands for what is left out; the checks of options let it pass. */
import { type BuiltInError, InsituError } from "./error.js";
import { checkOptionNames, type OptionNames } from "./option-names.js";
import { valueText } from "./value-text.js";

/** An object that a caller gave, with whatever names it has; an empty one where it is left out. `what` names it. */
export function objectOf<T extends object>(what: string, given: T | undefined): Partial<T> {
  if (given === undefined) return {};
  if (typeof given === "object" && given !== null && !Array.isArray(given)) return given;
  throw new InsituError("invalid-argument", `${what} must be an object, got ${valueText(given)}`, { as: "TypeError" });
}

/** The options that a caller gave, none where they are left out; null is a value like others. Names that are none of `names` are refused. */
export function optionsOf<T extends object>(what: string, given: T | undefined, names: OptionNames<T>): Partial<T> {
  const options = objectOf(what, given);
  checkOptionNames(what, options, names);
  return options;
}

/** The same for options that may be null, each or all: null is left out. */
export function optionsWithoutNull<T extends object>(
  what: string,
  given: T | null | undefined,
  names: OptionNames<T>,
): T {
  const entries = Object.entries(objectOf<T>(what, given ?? undefined));
  const options = Object.fromEntries(entries.filter(([, value]) => value !== null && value !== undefined)) as T;
  checkOptionNames(what, options, names);
  return options;
}

/** What is thrown for a value where a number is asked for: another number is out of its range. */
export const numberError = (given: unknown): BuiltInError => (typeof given === "number" ? "RangeError" : "TypeError");

/** Throws unless a value, where there is one, is what the rule says. */
export function checkRule(
  what: string,
  given: unknown,
  rule: string,
  holds: boolean,
  as: BuiltInError = "TypeError",
): void {
  if (given !== undefined && !holds)
    throw new InsituError("invalid-argument", `${what} must be ${rule}, got ${valueText(given)}`, { as });
}

/** Throws unless an argument that must be there is an object. */
export function checkObject(what: string, given: unknown): void {
  if (typeof given !== "object" || given === null)
    throw new InsituError("invalid-argument", `${what} must be an object, got ${valueText(given)}`, {
      as: "TypeError",
    });
}

/** Throws unless options that must be there are an object with none but these names. */
export function checkOptions<T extends object>(what: string, given: T, names: OptionNames<T>): void {
  checkObject(what, given);
  checkOptionNames(what, given, names);
}

/** Throws unless an option is a function or left out. */
export const checkCallback = (what: string, given: unknown): void =>
  checkRule(what, given, "a function", typeof given === "function");

/** Throws unless an option is true, false or left out. */
export const checkFlag = (what: string, given: unknown): void =>
  checkRule(what, given, "true or false", typeof given === "boolean");

/** Throws unless a name is text or left out. */
export const checkName = (what: string, given: unknown): void =>
  checkRule(what, given, "text", typeof given === "string");

/** Throws unless an option is a whole number from `least` on, or left out. */
export const checkCount = (what: string, given: unknown, least = 0): void =>
  checkRule(
    what,
    given,
    `a whole number from ${least} on`,
    Number.isSafeInteger(given) && (given as number) >= least,
    numberError(given),
  );

/** Throws unless an option is one of a few words, or left out. */
export function checkChoice(what: string, given: string | undefined, choices: readonly string[]): void {
  const words = choices.map((choice) => `"${choice}"`);
  checkRule(what, given, `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`, choices.includes(given as string));
}

/** An option that is one of a few words; `absent` where it is left out. */
export function choiceOf<T extends string>(what: string, given: T | undefined, choices: readonly T[], absent: T): T {
  checkChoice(what, given, choices);
  return given ?? absent;
}

/** Throws unless the option, where it is given, can end what it is given to. */
export const checkSignal = (given: unknown): void =>
  checkRule(
    "option signal",
    given,
    "an AbortSignal",
    typeof given === "object" &&
      given !== null &&
      "throwIfAborted" in given &&
      typeof given.throwIfAborted === "function",
  );

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
