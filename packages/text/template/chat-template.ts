/** A model's chat template: read by @huggingface/jinja, rendered here. */
import { InsituError } from "#insitu/base/error.js";
import { MarkedText, markOf } from "../tokens/marked-text.js";
import { mostTemplateLength, mostWhiteSpace, TemplateBudget } from "./budget.js";
import { addGlobals } from "./globals.js";
import { Interpreter } from "./interpreter.js";
import type { Node } from "./nodes.js";
import { List, Scope, TemplateError, valueOf } from "./values.js";

/** What a conversation is rendered with. */
export interface ChatValues {
  readonly messages: readonly unknown[];
  /** What else the caller gives, by name. */
  readonly given: Readonly<Record<string, unknown>>;
  /** What the model's own files say, by name: its special tokens. */
  readonly own: Readonly<Record<string, unknown>>;
}

/** A chat template that was read. */
export class ChatTemplate {
  /** The template as it was written. */
  readonly source: string;
  readonly #program: Node;
  readonly #dateText: (format: string) => string;

  private constructor(source: string, program: Node, dateText: (format: string) => string) {
    this.source = source;
    this.#program = program;
    this.#dateText = dateText;
  }

  /** Reads a template; throws where it is none. */
  static async read(source: string): Promise<ChatTemplate> {
    const { parse, Template, tokenize } = await import("@huggingface/jinja");
    if (source.length > mostTemplateLength)
      unreadable(`it has ${source.length} characters, more than ${mostTemplateLength}`);
    if (longestWhiteSpace(source) > mostWhiteSpace)
      unreadable(`it has more than ${mostWhiteSpace} characters of white space in one piece`);
    try {
      const program = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })) as Node;
      return new ChatTemplate(source, program, (format) =>
        new Template("{{ strftime_now(format) }}").render({ format }),
      );
    } catch (cause) {
      return unreadable(messageOf(cause), cause);
    }
  }

  /** A conversation as the template writes it. Throws where it refuses, and where it costs too much. */
  render({ messages, given, own }: ChatValues): MarkedText {
    const budget = new TemplateBudget();
    try {
      const scope = new Scope();
      addGlobals(scope, this.#dateText);
      for (const [name, value] of Object.entries(own)) scope.set(name, valueOf(value, markOf.template));
      for (const [name, value] of Object.entries(given)) scope.set(name, valueOf(value, markOf.caller));
      scope.set("messages", new List(messages.map((message) => valueOf(message, markOfMessage(message)))));
      return new Interpreter(budget).block([this.#program], scope);
    } catch (cause) {
      if (cause instanceof InsituError) throw cause;
      throw new InsituError("invalid-argument", `the chat template refuses the messages: ${messageOf(cause)}`, {
        cause,
      });
    }
  }
}

/** What the assistant said is the model's own words; everything else is the caller's. */
const markOfMessage = (message: unknown): string =>
  typeof message === "object" && message !== null && "role" in message && message.role === "assistant"
    ? markOf.model
    : markOf.caller;

function longestWhiteSpace(text: string): number {
  let longest = 0;
  for (const [run] of text.matchAll(/\s+/g)) longest = Math.max(longest, run.length);
  return longest;
}

function unreadable(why: string, cause?: unknown): never {
  throw new InsituError("invalid-model", `the chat template cannot be read: ${why}`, { cause });
}

function messageOf(cause: unknown): string {
  // The engine's own word for calls that nest too deep.
  if (cause instanceof RangeError && !(cause instanceof TemplateError)) return `it nests too deep (${cause.message})`;
  return cause instanceof Error ? cause.message : String(cause);
}
