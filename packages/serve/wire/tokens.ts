/** `/tokenize` and `/detokenize`: text ↔ tokens, with the fields that vLLM and llama.cpp have. */
import * as z from "zod";
import { badField } from "./api-error.js";
import { requireTokens } from "./completions.js";
import { listOf, readBody, recordOf, tokensOf } from "./fields.js";
import type { RequestLimits } from "./limits.js";
import { conversationTokens, messageField, templateMessage } from "./messages.js";
import type { ServedModel } from "./served-model.js";

const tokenizeBody = z.object({
  model: z.string().nullish(),
  /** vLLM's name. */
  prompt: z.string().nullish(),
  /** llama.cpp's name. */
  content: z.string().nullish(),
  messages: listOf(messageField, { least: 1 }).nullish(),
  add_special_tokens: z.boolean().nullish(),
  return_token_strs: z.boolean().nullish(),
  chat_template_kwargs: recordOf<unknown>().nullish(),
});

const detokenizeBody = z.object({ model: z.string().nullish(), tokens: tokensOf({ most: 1 << 20 }) });

/** The tokens of a text or of a conversation. */
export async function tokenize(
  given: unknown,
  model: ServedModel,
  limits: RequestLimits,
): Promise<() => Promise<object>> {
  const body = readBody(tokenizeBody, given);
  model.requireName(body.model);
  const { messages, add_special_tokens } = body;
  const text = body.prompt ?? body.content;
  if (typeof text !== "string" && !messages)
    throw badField("prompt", "prompt is required, or messages", "missing_required_parameter");
  if (messages && messages.length > limits.messages)
    throw badField("messages", `messages: at most ${limits.messages} are taken, got ${messages.length}`);
  const tokens =
    typeof text === "string"
      ? text === ""
        ? []
        : await model.encode("prompt", text, { specialTokens: add_special_tokens ?? true })
      : await conversationTokens(
          model,
          messages!.map(templateMessage),
          body.chat_template_kwargs ?? {},
          "messages",
          (said) => model.lm.dialogue.messages(said),
        );
  const told = { tokens, count: tokens.length, max_model_len: model.engine.context };
  const spellings =
    body.return_token_strs === true
      ? { token_strs: tokens.map((token) => model.lm.tokenizer.spellingOf(token) ?? "") }
      : {};
  return () => Promise.resolve({ ...told, ...spellings });
}

/** The text of tokens. */
export function detokenize(given: unknown, model: ServedModel): Promise<() => Promise<object>> {
  const body = readBody(detokenizeBody, given);
  model.requireName(body.model);
  model.requireCount("tokens", body.tokens.length);
  requireTokens(body.tokens, "tokens", model);
  const text = model.lm.tokenizer.decode(body.tokens);
  return Promise.resolve(() => Promise.resolve({ prompt: text, content: text }));
}
