/**
 * The answer to a message of a chat: rounds of the model's replies, with the functions that it calls done in between. An async iterable of tokens,
 * or of events. Knows no model: rounds are made by whoever holds one, in this thread or another.
 */
import { InsituError } from "../base/error.js";
import type { ChatToken, Round, RoundEvent } from "./chat-round.js";
import { canRun, type ChatTools, runCall, type ToolCall } from "./chat-tools.js";
import type { GenerationSummary } from "./generation.js";
import type { AnyChatMessage } from "./messages.js";
import { textBytes } from "./text-bytes.js";

/** One event of an answer: text, reasoning, a tool call or its result. */
export type ChatEvent =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  /** A call begins. */
  | { readonly type: "tool-call-start"; readonly id: string; readonly name: string }
  /** A piece of its arguments. */
  | { readonly type: "tool-call-arguments"; readonly id: string; readonly text: string }
  /** A call is whole. */
  | { readonly type: "tool-call"; readonly call: ToolCall }
  /** A function was done, and what is sent back to the model. */
  | { readonly type: "tool-result"; readonly call: ToolCall; readonly result: string };

/** What an answer is made with. */
interface ReplyParts<Summary> {
  /** The first round. */
  readonly first: Round<Summary>;
  /** Makes another round, behind these messages. */
  readonly ask: (messages: readonly AnyChatMessage[]) => Round<Summary>;
  readonly tools: ChatTools;
  /** Rounds of calls at most. */
  readonly maxRounds: number;
  readonly signal: AbortSignal | undefined;
}

/** An answer that is generated while you iterate over it: over tokens, or over `events()`. It can be iterated once. */
export class ChatReply<Summary = GenerationSummary> implements AsyncIterable<ChatToken> {
  readonly #parts: ReplyParts<Summary>;
  readonly #messages: AnyChatMessage[] = [];
  #begun = false;
  #round: Round<Summary>;
  #text = "";
  #reasoning = "";
  #calls: { id: string; name: string; arguments: string; isDone: boolean }[] = [];

  constructor(parts: ReplyParts<Summary>) {
    this.#round = parts.first;
    this.#parts = parts;
  }

  /** Token counts, times and cache bytes of the latest round. */
  get summary(): Summary {
    return this.#round.summary;
  }

  /** The text of the latest round so far, without reasoning and tool calls. */
  get textSoFar(): string {
    return this.#text;
  }

  /** The reasoning of the latest round so far. */
  get reasoning(): string {
    return this.#reasoning;
  }

  /** The tool calls of the latest round. Once the answer has ended, these are the calls that you must run. */
  get toolCalls(): readonly ToolCall[] {
    return this.#calls.map(({ id, name, arguments: given }) => ({ id, name, arguments: given }));
  }

  /** The messages that the answer adds to the conversation: the model's, and the results of tool calls. */
  get messages(): readonly AnyChatMessage[] {
    return [...this.#messages, this.#message];
  }

  /** Generates the whole answer and returns its text. */
  async text(): Promise<string> {
    for await (const _ of this);
    return this.#text;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ChatToken, void, undefined> {
    for await (const { token } of this.#all()) if (token !== undefined) yield token;
  }

  /** The answer as events: text, reasoning, tool calls and their results, as they arrive. */
  async *events(): AsyncGenerator<ChatEvent, void, undefined> {
    for await (const { events } of this.#all()) yield* events;
  }

  /** The answer as a stream of bytes for a `Response`: its text, or with "events" a line of JSON for each event. */
  toReadableStream(what: "text" | "events" = "text"): ReadableStream<Uint8Array> {
    const lines = async function* (events: AsyncIterable<ChatEvent>): AsyncGenerator<string, void, undefined> {
      for await (const event of events)
        if (what === "events") yield `${JSON.stringify(event)}\n`;
        else if (event.type === "text") yield event.text;
    };
    return textBytes(lines(this.events()));
  }

  /** The latest round as a message. */
  get #message(): AnyChatMessage {
    const calls = this.#calls.map(({ id, name, arguments: given }) => ({
      id,
      type: "function",
      function: { name, arguments: given },
    }));
    return {
      role: "assistant",
      content: this.#text,
      ...(this.#reasoning === "" ? {} : { reasoning_content: this.#reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    };
  }

  async *#all(): AsyncGenerator<
    { readonly token?: ChatToken; readonly events: readonly ChatEvent[] },
    void,
    undefined
  > {
    if (this.#begun) throw new InsituError("invalid-argument", "an answer can be iterated once; send another message");
    this.#begun = true;
    const { ask, tools, maxRounds, signal } = this.#parts;
    for (let round = 0; ; round++) {
      if (round > 0) this.#round = ask(this.#messages);
      for await (const token of this.#round) yield { token, events: this.#heard(token) };
      const calls = this.#calls.filter(({ isDone }) => isDone);
      if (calls.length === 0 || calls.length < this.#calls.length || round >= maxRounds || !canRun(tools, calls))
        return;
      const said = this.#message;
      // All are begun before one is waited for; results come in the order of the calls.
      const running = calls.map((call) => runCall(tools, call, signal));
      const results = await Promise.all(running);
      this.#messages.push(said);
      for (const [at, result] of results.entries()) {
        const { isDone: _, ...call } = calls[at];
        this.#messages.push({ role: "tool", tool_call_id: call.id, name: call.name, content: result });
        yield { events: [{ type: "tool-result", call, result }] };
      }
      [this.#text, this.#reasoning, this.#calls] = ["", "", []];
    }
  }

  #heard({ text, events }: ChatToken): readonly ChatEvent[] {
    if (events === undefined) {
      this.#text += text;
      return text === "" ? [] : [{ type: "text", text }];
    }
    return events.map((event) => this.#note(event));
  }

  #note(event: RoundEvent): ChatEvent {
    switch (event.kind) {
      case "text":
        this.#text += event.text;
        return { type: "text", text: event.text };
      case "reasoning":
        this.#reasoning += event.text;
        return { type: "reasoning", text: event.text };
      case "call": {
        const call = { id: event.id, name: event.name, arguments: "", isDone: false };
        this.#calls.push(call);
        return { type: "tool-call-start", id: call.id, name: call.name };
      }
      case "arguments": {
        const call = this.#calls[event.call];
        call.arguments += event.text;
        return { type: "tool-call-arguments", id: call.id, text: event.text };
      }
      case "call-done": {
        const call = this.#calls[event.call];
        call.isDone = true;
        return { type: "tool-call", call: { id: call.id, name: call.name, arguments: call.arguments } };
      }
      default:
        return event satisfies never;
    }
  }
}
