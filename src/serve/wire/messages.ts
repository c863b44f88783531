/** Messages as OpenAI's clients send them → messages as chat templates take them, and the tokens of a conversation. */
import * as z from "zod";
import { chatRules, type EndRules } from "../../generate/ending.js";
import { type ChatMessage, plainText } from "../../generate/messages.js";
import { badField } from "./api-error.js";
import type { ServedModel } from "./served-model.js";

const part = z.looseObject({ type: z.string(), text: z.string().nullish(), refusal: z.string().nullish() });

const toolCall = z.looseObject({
  id: z.string().nullish(),
  type: z.literal("function").nullish(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});

/** One message. */
export const messageField = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool"]),
  content: z.union([z.string(), z.array(part)]).nullish(),
  tool_calls: z.array(toolCall).nullish(),
  tool_call_id: z.string().nullish(),
  name: z.string().nullish(),
});

type Message = z.infer<typeof messageField>;

/** The text of content: parts are put together; throws for what is no text. */
export function contentText(content: Message["content"], param: string): string {
  if (typeof content === "string") return content;
  return (content ?? [])
    .map(({ type, text, refusal }, at) => {
      const said = text ?? refusal;
      if (typeof said === "string") return said;
      throw badField(
        `${param}[${at}].type`,
        `${param}[${at}].type: messages are text here, got a part of type "${type}"`,
      );
    })
    .join("");
}

/** A message as templates know it: text, "system" for "developer", arguments of calls as objects. */
export function templateMessage(message: Message, at: number): ChatMessage {
  const { role, content, tool_calls, ...more } = message;
  const text = contentText(content, `messages[${at}].content`);
  if (role !== "assistant" && (content === null || content === undefined))
    throw badField(`messages[${at}].content`, `messages[${at}].content is required`, "missing_required_parameter");
  const rest = Object.fromEntries(Object.entries(more).filter(([, value]) => value !== null && value !== undefined));
  const calls = tool_calls?.map((call) => ({
    ...call,
    type: "function",
    function: { ...call.function, arguments: argumentsOf(call.function.arguments) },
  }));
  return {
    ...rest,
    role: role === "developer" ? "system" : role,
    content: text,
    ...(calls === undefined || calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

/** Templates write arguments as JSON themselves. What is no JSON stays the text it is. */
function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** The tokens of a conversation: as the model's template writes it; where there is none, as paragraphs, of which the answer is the next. */
export function conversationTokens(
  model: ServedModel,
  messages: readonly ChatMessage[],
  more: Readonly<Record<string, unknown>>,
  param = "messages",
): readonly number[] {
  model.requireLength(
    param,
    messages.reduce((sum, { content }) => sum + content.length, 0),
  );
  return model.encode(param, (tokenizer) =>
    tokenizer.hasChatTemplate
      ? tokenizer.encodeChat(messages, more)
      : tokenizer.encode(messages.map((message) => `${plainText(message)}\n`).join(""), { controlTokens: "plain" }),
  );
}

/** Where an answer may end. */
export const conversationEnds = (model: ServedModel, stops: readonly string[], minTokens?: number): EndRules =>
  chatRules(model.lm.tokenizer.hasChatTemplate, stops.length === 0 ? undefined : stops, minTokens);
