/** Rules for values of JSON that came from outside: each refuses a value by its path. Used for tokenizer.json; knows nothing of tokenizers. */
import { InsituError } from "#insitu/base/error.js";

/** An object of JSON. */
type Json = Readonly<Record<string, unknown>>;

/** Throws where a value is not what it must be; `path` says where it stands. */
export type Rule = (value: unknown, path: string) => void;

/** Throws: what stands at a path breaks a rule. */
export function refuse(path: string, rule: string, value: unknown): never {
  const shown = value === undefined ? "nothing" : (JSON.stringify(value) ?? typeof value);
  throw new InsituError(
    "invalid-model",
    `the tokenizer cannot be created from tokenizer.json: ${path} must be ${rule}, got ${shown.length > 60 ? `${shown.slice(0, 60)}…` : shown}`,
  );
}

/** Text. */
export const text: Rule = (value, path) => {
  if (typeof value !== "string") refuse(path, "text", value);
};
/** True or false. */
export const flag: Rule = (value, path) => {
  if (typeof value !== "boolean") refuse(path, "true or false", value);
};
/** A number. */
export const number: Rule = (value, path) => {
  if (typeof value !== "number") refuse(path, "a number", value);
};
/** A whole number between two bounds. */
export const whole =
  (least: number, most: number = 2 ** 31 - 1): Rule =>
  (value, path) => {
    if (!Number.isInteger(value) || (value as number) < least || (value as number) > most)
      refuse(path, `a whole number from ${least} to ${most}`, value);
  };
/** May be missing, or null. */
export const optional =
  (rule: Rule): Rule =>
  (value, path) => {
    if (value !== undefined && value !== null) rule(value, path);
  };
/** Asks for a rule of a part: where it lies is only spelled out where it breaks the rule, since a file has hundreds of thousands of parts. */
function within(rule: Rule, part: unknown, path: string, place: () => string): void {
  try {
    rule(part, path);
  } catch {
    rule(part, `${path}${place()}`);
  }
}
/** A list of such values. */
export const list =
  (rule: Rule): Rule =>
  (value, path) => {
    if (!Array.isArray(value)) refuse(path, "a list", value);
    (value as readonly unknown[]).forEach((item, index) => within(rule, item, path, () => `[${index}]`));
  };
/** A list that begins with such values. */
export const pair =
  (...rules: readonly Rule[]): Rule =>
  (value, path) => {
    if (!Array.isArray(value) || value.length < rules.length) refuse(path, `a list of ${rules.length}`, value);
    rules.forEach((rule, index) => within(rule, (value as readonly unknown[])[index], path, () => `[${index}]`));
  };
/** True for objects that are no list. */
export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
/** An object with such fields; others are not looked at. */
export const fields =
  (rules: Readonly<Record<string, Rule>>): Rule =>
  (value, path) => {
    if (!isObject(value)) refuse(path, "an object", value);
    for (const [name, rule] of Object.entries(rules)) rule(value[name], path === "" ? name : `${path}.${name}`);
  };
/** A pattern: plain text or a regular expression. */
export const pattern: Rule = (value, path) => {
  if (!isObject(value)) refuse(path, 'an object with "String" or "Regex"', value);
  const { String: plain, Regex: regex } = value;
  if (typeof (regex ?? plain) !== "string") refuse(path, 'an object with "String" or "Regex"', value);
};
/** Tokens and their numbers. */
export const vocabulary: Rule = (value, path) => {
  if (!isObject(value)) refuse(path, "an object of tokens and their numbers", value);
  const numbered = whole(0);
  for (const spelling of Object.keys(value))
    within(numbered, value[spelling], path, () => `[${JSON.stringify(spelling)}]`);
};

/** An object whose type says which fields it has. */
export const typed =
  (kinds: Readonly<Record<string, Readonly<Record<string, Rule>>>>): Rule =>
  (value, path) => {
    if (!isObject(value)) refuse(path, "an object with a type", value);
    const { type } = value;
    if (typeof type !== "string" || !Object.hasOwn(kinds, type))
      refuse(`${path}.type`, `one of ${Object.keys(kinds).join(", ")}`, type);
    fields(kinds[type])(value, path);
  };
