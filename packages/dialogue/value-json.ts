/** A value that was written as text, as JSON of the type that its function's schema gives it. */
import { typeOf } from "./argument-types.js";

/** Words for values that JSON spells otherwise, in lower case. */
const words: ReadonlyMap<string, readonly [type: string, json: string]> = new Map([
  ["true", ["boolean", "true"]],
  ["false", ["boolean", "false"]],
  ["none", ["null", "null"]],
  ["null", ["null", "null"]],
]);

const isNumber = /^[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?$/;

const allows = (types: ReadonlySet<string>, type: string): boolean =>
  types.size === 0 || types.has(type) || (type === "number" && types.has("integer"));

/**
 * A value that stands as text, as JSON of one of these types: of any where there are none, text where it is of none of them. `loose` reads objects and
 * lists that are not quite JSON.
 */
export function jsonOf(text: string, types: ReadonlySet<string>, loose?: (text: string) => string | undefined): string {
  const trimmed = text.trim();
  if (types.size !== 1 || !types.has("string")) {
    const word = words.get(trimmed.toLowerCase());
    const isExact = trimmed !== trimmed.toUpperCase() || types.size > 0;
    if (word !== undefined && isExact && allows(types, word[0])) return word[1];
    const value = parsed(trimmed);
    // Digits stay as they are: a number may be longer than JavaScript's.
    if (typeof value === "string" || (value !== undefined && allows(types, typeOf(value)))) return trimmed;
    if (value === undefined && isNumber.test(trimmed) && types.size > 0 && allows(types, "number"))
      return String(Number(trimmed.replaceAll("_", "")));
    const written = value === undefined && /^[[{(]/.test(trimmed) ? loose?.(trimmed) : undefined;
    if (written !== undefined && types.size > 0 && allows(types, typeOf(parsed(written)))) return written;
  }
  return JSON.stringify(text);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
