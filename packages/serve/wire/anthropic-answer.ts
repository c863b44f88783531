/** The answer of Anthropic's `/v1/messages`: content blocks as they come, each begun, filled and closed by events. */
import { type Answer, sentEvents, type StreamEvent, type StreamForm } from "./answer.js";
import type { ApiError } from "./api-error.js";
import { anthropicError } from "./error-forms.js";
import { newId } from "./identity.js";
import { type Finish, type TextEvent, type TextItem, type Usage, WholeText } from "./text-event.js";

/** What a message tells. */
interface Telling {
  /** The client's own stop strings: others end a text too. */
  readonly stop: readonly string[];
  /** True tells that there were thoughts, and not what. */
  readonly omitsThoughts: boolean;
}

const reasons: Readonly<Record<Finish, string>> = { stop: "end_turn", length: "max_tokens", tool_calls: "tool_use" };

const event = (type: string, data: object = {}): StreamEvent => ({
  event: type,
  data: JSON.stringify({ type, ...data }),
});

const form: StreamForm = { ...sentEvents, alive: sentEvents.written(event("ping")) };

/** One message in the making. */
export class AnthropicAnswer implements Answer {
  readonly heldBytes = 0;
  readonly form: StreamForm = form;
  readonly #model: string;
  readonly #promptTokens: number;
  readonly #telling: Telling;
  readonly #id = newId("msg_");
  readonly #text = new WholeText();
  #reason: string | null = null;
  #stop: string | null = null;

  constructor(model: string, promptTokens: number, telling: Telling) {
    this.#model = model;
    this.#promptTokens = promptTokens;
    this.#telling = telling;
  }

  begin(): readonly StreamEvent[] {
    const none = { promptTokens: this.#promptTokens, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 };
    return [event("message_start", { message: this.body(none) }), event("ping")];
  }

  event(_: number, told: TextEvent): readonly StreamEvent[] {
    if ((told.kind === "content" || told.kind === "reasoning") && told.text === "") return [];
    const isOmitted = told.kind === "reasoning" && this.#telling.omitsThoughts;
    const { closed, opened } = this.#text.add(isOmitted ? { ...told, text: "" } : told);
    const events = closed === undefined ? [] : this.#closing(closed);
    if (opened !== undefined)
      events.push(
        event("content_block_start", { index: this.#index, content_block: blockOf({ ...opened, text: "" }) }),
      );
    switch (told.kind) {
      case "content":
        return [...events, this.#delta({ type: "text_delta", text: told.text })];
      case "reasoning":
        return isOmitted ? events : [...events, this.#delta({ type: "thinking_delta", thinking: told.text })];
      case "call":
        return events;
      case "arguments":
        return [...events, this.#delta({ type: "input_json_delta", partial_json: told.text })];
      case "finish": {
        const { reason, stop } = told;
        this.#stop = reason === "stop" && stop !== undefined && this.#telling.stop.includes(stop) ? stop : null;
        this.#reason = this.#stop === null ? reasons[reason] : "stop_sequence";
        return events;
      }
      default:
        return told satisfies never;
    }
  }

  end(usage: Usage): readonly StreamEvent[] {
    const delta = { stop_reason: this.#reason, stop_sequence: this.#stop };
    return [event("message_delta", { delta, usage: usageBody(usage) }), event("message_stop")];
  }

  failed(error: ApiError): readonly StreamEvent[] {
    return [{ event: "error", data: JSON.stringify(anthropicError(error)) }];
  }

  body(usage: Usage): object {
    return {
      id: this.#id,
      type: "message",
      role: "assistant",
      model: this.#model,
      content: this.#text.items.map(blockOf),
      stop_reason: this.#reason,
      stop_sequence: this.#stop,
      usage: usageBody(usage),
    };
  }

  /** Thoughts are signed there, for which there is no need here; clients wait for it all the same. */
  #closing(item: TextItem): StreamEvent[] {
    const index = this.#text.items.indexOf(item);
    const signature = { index, delta: { type: "signature_delta", signature: "" } };
    const signed = item.kind === "reasoning" ? [event("content_block_delta", signature)] : [];
    return [...signed, event("content_block_stop", { index })];
  }

  #delta(delta: object): StreamEvent {
    return event("content_block_delta", { index: this.#index, delta });
  }

  get #index(): number {
    return this.#text.items.length - 1;
  }
}

function blockOf({ kind, text, id, name }: TextItem): object {
  switch (kind) {
    case "content":
      return { type: "text", text };
    case "reasoning":
      return { type: "thinking", thinking: text, signature: "" };
    case "call":
      return { type: "tool_use", id, name, input: inputOf(text) };
    default:
      return kind satisfies never;
  }
}

/** The arguments of a call; none where the text was cut within them, which the reason says. */
export function inputOf(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

/** Tokens that were in the pool already are counted apart. */
const usageBody = ({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: Usage): object => ({
  input_tokens: promptTokens - cachedTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cachedTokens,
  output_tokens: completionTokens,
  output_tokens_details: { thinking_tokens: reasoningTokens },
});
