/** The answer of Ollama's `/api/chat` and `/api/generate`: one object, or an object a line; calls of tools come whole. */
import type { TextTokenizer } from "#insitu/generate/tokenizer.js";
import { type Answer, dataEvent, type StreamEvent, type StreamForm } from "./answer.js";
import { inputOf } from "./anthropic-answer.js";
import type { ApiError } from "./api-error.js";
import { ollamaError } from "./error-forms.js";
import { chatLogprobs } from "./logprobs.js";
import { type TextEvent, type ToldToken, type Usage, WholeText } from "./text-event.js";

const lines: StreamForm = { contentType: "application/x-ndjson", written: ({ data }) => `${data}\n` };

/** What an answer tells beside its text. */
interface Telling {
  /** What spells tokens, where their log-probabilities are told. */
  readonly spells: TextTokenizer | undefined;
  /** Why there is no text, where none was asked for. */
  readonly nothing: string | undefined;
}

/** What is new in an answer. */
interface Piece {
  readonly content?: string;
  readonly thinking?: string;
  readonly calls?: WholeText["calls"];
}

/** One answer in the making. */
export class OllamaAnswer implements Answer {
  readonly heldBytes = 0;
  readonly form: StreamForm = lines;
  readonly #kind: "chat" | "generate";
  readonly #model: string;
  readonly #telling: Telling;
  readonly #text = new WholeText();
  readonly #came = performance.now();
  #first: number | undefined;
  /** Calls that were told. */
  #told = 0;

  constructor(kind: "chat" | "generate", model: string, telling: Telling) {
    this.#kind = kind;
    this.#model = model;
    this.#telling = telling;
  }

  begin(): readonly StreamEvent[] {
    return [];
  }

  event(_: number, event: TextEvent): readonly StreamEvent[] {
    this.#first ??= performance.now();
    this.#text.add(event);
    switch (event.kind) {
      case "content":
        return [...this.#calls(), this.#line({ content: event.text }, event.tokens)];
      case "reasoning":
        return [...this.#calls(), this.#line({ thinking: event.text })];
      case "call":
        return this.#calls(1);
      case "arguments":
        return [];
      case "finish":
        return this.#calls();
      default:
        return event satisfies never;
    }
  }

  end(usage: Usage): readonly StreamEvent[] {
    return [dataEvent({ ...this.#body({}, []), ...this.#ended(usage) })];
  }

  failed(error: ApiError): readonly StreamEvent[] {
    return [dataEvent(ollamaError(error))];
  }

  body(usage: Usage): object {
    const { content, reasoning, calls, tokens } = this.#text;
    const piece = { content, thinking: reasoning, calls: this.#whole(calls) };
    return { ...this.#body(piece, tokens), ...this.#ended(usage) };
  }

  /** The calls that are whole and were not told, but for so many at the end. */
  #calls(open = 0): StreamEvent[] {
    const all = this.#text.calls;
    const calls = all.slice(this.#told, all.length - open);
    this.#told += calls.length;
    const whole = this.#whole(calls);
    return whole.length === 0 ? [] : [this.#line({ calls: whole })];
  }

  /** A call that was cut is none: that the answer was cut says the reason. */
  #whole(calls: WholeText["calls"]): WholeText["calls"] {
    return this.#text.finish === "length" ? calls.filter(({ text }) => isJson(text)) : calls;
  }

  #line(piece: Piece, tokens: readonly ToldToken[] = []): StreamEvent {
    return dataEvent({ ...this.#body(piece, tokens), done: false });
  }

  #body({ content = "", thinking = "", calls = [] }: Piece, tokens: readonly ToldToken[]): object {
    const { spells } = this.#telling;
    const thoughts = thinking === "" ? {} : { thinking };
    const tool_calls = calls.map((call) => ({
      id: call.id,
      function: { index: this.#text.calls.indexOf(call), name: call.name, arguments: inputOf(call.text) },
    }));
    return {
      model: this.#model,
      created_at: new Date().toISOString(),
      ...(this.#kind === "generate"
        ? { response: content, ...thoughts }
        : { message: { role: "assistant", content, ...thoughts, ...(calls.length === 0 ? {} : { tool_calls }) } }),
      ...(spells === undefined ? {} : { logprobs: chatLogprobs(tokens, spells).content }),
    };
  }

  #ended({ promptTokens, completionTokens }: Usage): object {
    const { nothing } = this.#telling;
    if (nothing !== undefined) return { done: true, done_reason: nothing };
    const now = performance.now();
    const first = this.#first ?? now;
    return {
      done: true,
      done_reason: this.#text.finish === "length" ? "length" : "stop",
      total_duration: nanoseconds(now - this.#came),
      load_duration: 0,
      prompt_eval_count: promptTokens,
      prompt_eval_duration: nanoseconds(first - this.#came),
      eval_count: completionTokens,
      eval_duration: nanoseconds(now - first),
    };
  }
}

/** Durations are told in these. */
export const nanoseconds = (milliseconds: number): number => Math.round(milliseconds * 1e6);

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
