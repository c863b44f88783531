/** What an endpoint makes of the events of its texts: one body, or the events of a stream. */
import type { ApiError } from "./api-error.js";
import type { TextEvent, Usage } from "./text-event.js";

/** An event of a stream, as server-sent events have them. */
export interface StreamEvent {
  readonly event?: string;
  readonly data: string;
}

/** How the events of a stream are written. */
export interface StreamForm {
  readonly contentType: string;
  readonly written: (event: StreamEvent) => string;
  /** What a stream says that has nothing to say for long; nothing where left out. */
  readonly alive?: string;
}

/** Server-sent events. */
export const sentEvents: StreamForm = {
  contentType: "text/event-stream; charset=utf-8",
  written: ({ event, data }) => (event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`),
  alive: ": still here\n\n",
};

/** The answer to one request. Events come in any order of texts; each text's own are in order. */
export interface Answer {
  /** Bytes of the request that the answer repeats. */
  readonly heldBytes: number;
  /** How its stream is written; server-sent events where left out. */
  readonly form?: StreamForm;
  /** What a stream begins with. */
  begin(): readonly StreamEvent[];
  /** Notes an event, and says what a stream tells of it. */
  event(index: number, event: TextEvent): readonly StreamEvent[];
  /** What a stream ends with. */
  end(usage: Usage): readonly StreamEvent[];
  /** What a stream ends with that cannot go on. */
  failed(error: ApiError): readonly StreamEvent[];
  /** The whole answer, where it is none. */
  body(usage: Usage): object;
}

/** The event that chat and completions end with. */
export const doneEvent: StreamEvent = { data: "[DONE]" };

/** An event that is JSON. */
export const dataEvent = (data: object): StreamEvent => ({ data: JSON.stringify(data) });

/** How OpenAI writes what a request took. */
export const usageBody = ({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: Usage): object => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens },
  completion_tokens_details: { reasoning_tokens: reasoningTokens },
});
