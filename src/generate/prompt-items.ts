/** What a prompt that is no text is made of: tokens or messages, and at least one. */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { Session } from "../session/session.js";
import type { AnyChatMessage } from "./messages.js";
import type { Json } from "./model-folder.js";

/** True for tokens, false for messages; throws for what is neither, and for tokens that a model of so many has not. */
export function isTokens(
  prompt: readonly number[] | readonly AnyChatMessage[],
  vocabulary: number = Infinity,
): prompt is readonly number[] {
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
  const beyond = items.findIndex((item) => (item as number) >= vocabulary);
  if (beyond >= 0)
    throw new InsituError(
      "invalid-argument",
      `a prompt's tokens must be below ${vocabulary}, the size of the vocabulary, got ${valueText(items[beyond])} at ${beyond}`,
    );
  return true;
}

/** How many tokens a model has, as far as its logits and config.json tell. */
export function vocabularyOf({ outputMetadata }: Pick<Session, "outputMetadata">, config: Json): number | undefined {
  const known = outputMetadata.find(({ name }) => name === "logits")?.shape.at(-1) ?? config["vocab_size"];
  return typeof known === "number" ? known : undefined;
}

/** Throws for a prompt of nothing. */
export function notEmpty<T>(items: readonly T[]): readonly T[] {
  if (items.length === 0)
    throw new InsituError("invalid-argument", "the prompt is empty: there is nothing to continue");
  return items;
}

/** What to generate after: text, the messages of a conversation, or tokens. */
export type Prompt = string | readonly AnyChatMessage[] | readonly number[];

/** True for messages of a conversation. */
export const isConversation = (prompt: Prompt): boolean => typeof prompt !== "string" && !isTokens(prompt);
