/** Prompts → tokens: text, messages through the model's chat template, or tokens as they are. */
import { type AnyChatMessage, checkMessages, plainText } from "./messages.js";
import type { GenerateOptions } from "./options.js";
import { isTokens, notEmpty, type Prompt } from "./prompt-items.js";
import type { TextTokenizer } from "./tokenizer.js";

/** The tokens of a prompt; `vocabulary` bounds those that are given as such. */
export function encodePrompt(
  tokenizer: TextTokenizer,
  prompt: Prompt,
  options: GenerateOptions,
  vocabulary: () => number | undefined,
): readonly number[] {
  if (typeof prompt !== "string")
    return isTokens(prompt, vocabulary()) ? prompt : encodeMessages(tokenizer, prompt, options);
  const { controlTokens = "read" } = options;
  return notEmpty(tokenizer.encode(prompt, { controlTokens }));
}

/** The tokens of a conversation: as the template writes it, or where there is none as paragraphs. */
export function encodeConversation(
  tokenizer: TextTokenizer,
  messages: readonly AnyChatMessage[],
  options: GenerateOptions,
): readonly number[] {
  if (tokenizer.hasChatTemplate) return encodeMessages(tokenizer, messages, options);
  const { controlTokens = "plain" } = options;
  const paragraphs = messages.map((message) => `${plainText(message)}\n`).join("");
  return notEmpty(tokenizer.encode(paragraphs, { controlTokens }));
}

function encodeMessages(
  tokenizer: TextTokenizer,
  messages: readonly AnyChatMessage[],
  { templateOptions, controlTokens = "plain" }: GenerateOptions,
): readonly number[] {
  checkMessages(messages);
  return notEmpty(tokenizer.encodeChat(messages, templateOptions, { controlTokens }));
}
