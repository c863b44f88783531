/** The messages of a conversation, as callers give them. */
import { InsituError } from "../base/error.js";
import type { ChatRole } from "../base/known-names.js";
import { valueText } from "../base/value-text.js";

/** One part of a message's content, as multimodal chat templates take them: `{ type: "text", text }`. */
export interface ChatPart {
  /** "text", or another type that the chat template knows. */
  readonly type: string;
  readonly [more: string]: unknown;
}

/** One message of a conversation: a role and a text. Further fields are passed to the chat template. */
export interface ChatMessage {
  /** Who says it: "system", "user", "assistant", "tool", or another role of the model's chat template. */
  readonly role: ChatRole;
  /** The text of the message. */
  readonly content: string;
  readonly [more: string]: unknown;
}

/** A message that is more than text: content in parts, or no content but other fields, such as tool calls. */
export interface ChatPartsMessage {
  /** Who says it, as in `ChatMessage`. */
  readonly role: ChatRole;
  /** The parts, in order; null if the message has other fields only. */
  readonly content: readonly ChatPart[] | null;
  readonly [more: string]: unknown;
}

/** A message of a conversation, with text or with parts as its content. */
export type AnyChatMessage = ChatMessage | ChatPartsMessage;

/** Throws unless these are messages of a conversation. */
export function checkMessages(messages: readonly AnyChatMessage[]): void {
  if (!Array.isArray(messages))
    throw new InsituError("invalid-argument", `a conversation is a list of messages, got ${valueText(messages)}`);
  for (const [index, message] of (messages as readonly unknown[]).entries()) checkMessage(message, index);
}

function checkMessage(message: unknown, index: number): void {
  const refuse = (rule: string, value: unknown): never => {
    throw new InsituError("invalid-argument", `message ${index} must ${rule}, got ${valueText(value)}`);
  };
  if (typeof message !== "object" || message === null || Array.isArray(message))
    return refuse("be an object with role and content", message);
  const { role, content, ...more } = message as Readonly<Record<string, unknown>>;
  if (typeof role !== "string") return refuse("have a role that is text", role);
  if (typeof content === "string") return;
  if (Array.isArray(content)) {
    const parts: readonly unknown[] = content;
    const wrong = parts.findIndex((part) => typeof part !== "object" || part === null || Array.isArray(part));
    if (wrong >= 0) refuse('have content whose parts are objects such as { type: "text", text }', parts[wrong]);
    return;
  }
  // Calls of tools have no content beside them.
  const empty = (content === null || content === undefined) && Object.keys(more).length > 0;
  if (!empty) refuse("have content that is text or a list of parts", content);
}

/** A message as a paragraph: its text, or that of its parts. Throws where it is more than text. */
export function plainText({ role, content }: AnyChatMessage): string {
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
  return parts
    .map(({ type, text }) => {
      if (typeof text === "string") return text;
      throw new InsituError(
        "invalid-argument",
        `without a chat template a message is text: the ${role}'s has a part of type ${valueText(type)}`,
      );
    })
    .join("")
    .trim();
}
