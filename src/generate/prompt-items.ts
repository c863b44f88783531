/** What a prompt that is no text is made of: tokens or messages, and at least one. */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { AnyChatMessage } from "./messages.js";

/** True for tokens, false for messages; throws for what is neither. */
export function isTokens(prompt: readonly number[] | readonly AnyChatMessage[]): prompt is readonly number[] {
  if (!Array.isArray(prompt))
    throw new InsituError("invalid-argument", `a prompt is text, messages or tokens, got ${valueText(prompt)}`);
  const items = notEmpty(prompt as readonly unknown[]);
  if (items.every((item) => typeof item === "object" && item !== null)) return false;
  const wrong = items.findIndex((item) => !(Number.isSafeInteger(item) && (item as number) >= 0));
  if (wrong >= 0)
    throw new InsituError(
      "invalid-argument",
      `a prompt's tokens must be whole numbers from 0 on, got ${valueText(items[wrong])} at ${wrong}`,
    );
  return true;
}

/** Throws for a prompt of nothing. */
export function notEmpty<T>(items: readonly T[]): readonly T[] {
  if (items.length === 0)
    throw new InsituError("invalid-argument", "the prompt is empty: there is nothing that the text could follow on");
  return items;
}
