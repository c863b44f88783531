/** Messages as OpenAI's clients send them → messages as chat templates take them, and the tokens of a conversation. */
import * as z from "zod";
import type { AnyMessage } from "#insitu/dialogue/family.js";
import { chatRules, type EndRules } from "#insitu/engine/ending.js";
import { type AnyChatMessage, type ChatMessage, plainText } from "#insitu/generate/messages.js";
import { JsonBounds } from "../json-bounds.js";
import { badField } from "./api-error.js";
import { listOf } from "./fields.js";
import type { ServedModel } from "./served-model.js";

const part = z.object({ type: z.string(), text: z.string().nullish(), refusal: z.string().nullish() });

const toolCall = z.looseObject({
  id: z.string().nullish(),
  type: z.literal("function").nullish(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});

/** One message. */
export const messageField = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool"]),
  content: z.union([z.string(), listOf(part)]).nullish(),
  tool_calls: listOf(toolCall).nullish(),
  tool_call_id: z.string().nullish(),
  name: z.string().nullish(),
});

type Message = z.infer<typeof messageField>;

/** The kinds of parts that are text, and the field that each has it in. */
const textParts: ReadonlyMap<string, "text" | "refusal"> = new Map([
  ["text", "text"],
  ["input_text", "text"],
  ["output_text", "text"],
  ["refusal", "refusal"],
]);

/** The text of content: parts are put together; throws for what is no text. */
export function contentText(content: Message["content"], param: string): string {
  if (typeof content === "string") return content;
  return (content ?? [])
    .map((given, at) => {
      const { type } = given;
      const field = textParts.get(type);
      const said = field && given[field];
      if (typeof said === "string") return said;
      throw badField(
        `${param}[${at}].type`,
        `${param}[${at}].type: only text is supported, got a part of type "${type}"`,
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
  const calls = tool_calls?.map((call, index) => ({
    ...call,
    type: "function",
    function: {
      ...call.function,
      arguments: argumentsOf(call.function.arguments, `messages[${at}].tool_calls[${index}].function.arguments`),
    },
  }));
  return {
    ...rest,
    role: role === "developer" ? "system" : role,
    content: text,
    ...(calls === undefined || calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

/** Templates write arguments as JSON themselves. What is no JSON stays the text it is. */
function argumentsOf(text: string, param: string): unknown {
  new JsonBounds(param).push(encoder.encode(text));
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

const encoder = new TextEncoder();

/** Values that tools and calls may hold: templates write each. */
const mostValues = 65_536;

/** What a template has to write of values that came as JSON; counted no further than to the first that is too many. */
class WrittenValues {
  characters = 0;
  #values = 0;

  get areTooMany(): boolean {
    return this.#values > mostValues;
  }

  add(value: unknown): void {
    this.#values++;
    if (typeof value === "string") this.characters += value.length;
    if (typeof value !== "object" || value === null) return;
    const list = Array.isArray(value) ? (value as readonly unknown[]) : undefined;
    if (list === undefined) for (const name of Object.keys(value)) this.characters += name.length;
    for (const inner of list ?? (Object.values(value) as readonly unknown[])) {
      if (this.areTooMany) return;
      this.add(inner);
    }
  }
}

/** The tokens of a conversation: as the model's template writes it, with its messages in the form that it takes; where there is none, as paragraphs, of which the answer is the next. */
export function conversationTokens(
  model: ServedModel,
  messages: readonly ChatMessage[],
  more: Readonly<Record<string, unknown>>,
  param: string,
  inForm: (messages: readonly ChatMessage[]) => readonly AnyMessage[],
): Promise<readonly number[]> {
  // What every template writes; what else is there counts once it is written.
  const written = new WrittenValues();
  for (const { tool_calls } of messages) written.add(tool_calls);
  written.add(more["tools"]);
  if (written.areTooMany) throw badField(param, `${param}: tools and calls may hold ${mostValues} values, got more`);
  const said = messages.reduce((sum, { content }) => sum + content.length, 0);
  model.requireLength(param, said + written.characters);
  if (model.lm.tokenizer.hasChatTemplate)
    return model.encodeChat(param, inForm(messages) as readonly AnyChatMessage[], more);
  const paragraphs = messages.map((message) => `${plainText(message)}\n`);
  return model.encode(param, paragraphs.join(""), { controlTokens: "plain" });
}

/** Where an answer may end. */
export const conversationEnds = (model: ServedModel, stops: readonly string[], minTokens?: number): EndRules =>
  chatRules(model.lm.tokenizer.hasChatTemplate, stops.length === 0 ? undefined : stops, minTokens);
