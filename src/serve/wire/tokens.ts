/** `/tokenize` and `/detokenize`: text ↔ tokens, with the fields that vLLM and llama.cpp have. */
import * as z from "zod";
import { badField } from "./api-error.js";
import { readBody } from "./fields.js";
import type { RequestLimits } from "./limits.js";
import { conversationTokens, messageField, templateMessage } from "./messages.js";
import type { ServedModel } from "./served-model.js";

const tokenizeBody = z.looseObject({
  model: z.string().nullish(),
  /** vLLM's name. */
  prompt: z.string().nullish(),
  /** llama.cpp's name. */
  content: z.string().nullish(),
  messages: z.array(messageField).min(1).nullish(),
  add_special_tokens: z.boolean().nullish(),
  return_token_strs: z.boolean().nullish(),
  chat_template_kwargs: z.record(z.string(), z.unknown()).nullish(),
});

const detokenizeBody = z.looseObject({ model: z.string().nullish(), tokens: z.array(z.int().min(0)).max(1 << 20) });

/** The tokens of a text or of a conversation. */
export function tokenize(given: unknown, model: ServedModel, limits: RequestLimits): object {
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
        : model.encode("prompt", (tokenizer) => tokenizer.encode(text, { specialTokens: add_special_tokens ?? true }))
      : conversationTokens(model, messages!.map(templateMessage), body.chat_template_kwargs ?? {});
  const spellings = tokens.map((token) => model.lm.tokenizer.spellingOf(token) ?? "");
  return {
    tokens,
    count: tokens.length,
    max_model_len: model.engine.context,
    ...(body.return_token_strs === true ? { token_strs: spellings } : {}),
  };
}

/** The text of tokens. */
export function detokenize(given: unknown, model: ServedModel): object {
  const body = readBody(detokenizeBody, given);
  model.requireName(body.model);
  const wrong = body.tokens.find((token) => token >= model.engine.vocabulary);
  if (wrong !== undefined)
    throw badField("tokens", `tokens: tokens must be below ${model.engine.vocabulary}, got ${wrong}`);
  const text = model.lm.tokenizer.decode(body.tokens);
  return { prompt: text, content: text };
}
