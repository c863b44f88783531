/** Prompts that no run may read: too long ones, and tokens that are none. */
import { InsituError } from "#insitu/base/error.js";
import { valueText } from "#insitu/base/value-text.js";

/** Throws for a prompt that a model with this context and vocabulary cannot read. */
export function checkPrompt(
  prompt: readonly number[],
  { context, vocabulary }: { readonly context: number; readonly vocabulary: number },
): void {
  if (prompt.length === 0) throw new InsituError("invalid-argument", "the prompt of a text must have a token");
  if (prompt.length > context)
    throw new InsituError(
      "context-overflow",
      `the prompt has ${prompt.length} tokens, the context holds ${context}: send a shorter one`,
    );
  // A run with a token that is none would fail for every text in it.
  const wrong = prompt.find((token) => !(Number.isSafeInteger(token) && token >= 0 && token < vocabulary));
  if (wrong !== undefined)
    throw new InsituError(
      "invalid-argument",
      `a prompt's tokens must be from 0 to ${vocabulary - 1}, got ${valueText(wrong)}`,
    );
}
