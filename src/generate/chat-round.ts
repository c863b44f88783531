/** One reply of the model in a chat: a generation whose text, reasoning and calls are told apart. */
import type { DialogueEvent } from "#insitu/dialogue/events.js";
import type { ReplyReader } from "#insitu/dialogue/reader.js";
import type { GeneratedToken, Generation, GenerationSummary } from "./generation.js";

/** What a reply tells; calls have ids. */
export type RoundEvent =
  | Exclude<DialogueEvent, { readonly kind: "call" }>
  | (Extract<DialogueEvent, { readonly kind: "call" }> & { readonly id: string });

/** One generated token of an answer. */
export interface ChatToken extends GeneratedToken {
  /** The events of this token: text, reasoning and tool calls. Undefined for models whose replies are only text. */
  readonly events?: readonly RoundEvent[];
}

/** What a round is, wherever it is made. */
export interface Round<Summary> extends AsyncIterable<ChatToken> {
  readonly summary: Summary;
}

/** A generation that is read as it comes. */
export class ReadRound implements Round<GenerationSummary> {
  readonly #generation: Generation;
  readonly #reader: ReplyReader;
  readonly #callId: () => string;
  readonly #isSingle: boolean;

  /** `isSingle` ends it behind its first call. */
  constructor(generation: Generation, reader: ReplyReader, callId: () => string, isSingle: boolean) {
    this.#callId = callId;
    this.#isSingle = isSingle;
    this.#generation = generation;
    this.#reader = reader;
  }

  get summary(): GenerationSummary {
    return this.#generation.summary;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ChatToken, void, undefined> {
    let last: GeneratedToken | undefined;
    for await (const token of this.#generation) {
      last = token;
      const events = this.#reader.push(token.text);
      const done = this.#isSingle ? events.findIndex(({ kind }) => kind === "call-done") : -1;
      yield this.#told(token, done < 0 ? events : events.slice(0, done + 1));
      if (done >= 0) return;
    }
    const events = this.#reader.end();
    if (last !== undefined && events.length > 0) yield this.#told({ token: last.token, text: "" }, events);
  }

  #told(token: GeneratedToken, events: readonly DialogueEvent[]): ChatToken {
    return {
      ...token,
      text: events.map((event) => (event.kind === "text" ? event.text : "")).join(""),
      events: events.map((event) => (event.kind === "call" ? { ...event, id: this.#callId() } : event)),
    };
  }
}
