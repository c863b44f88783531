/** The answer of Anthropic's `/v1/messages`: content blocks as they come, each begun, filled and closed by events. */
import { type Answer, sentEvents, type StreamEvent, type StreamForm } from "./answer.js";
import type { ApiError } from "./api-error.js";
import { anthropicError } from "./error-forms.js";
import { newId } from "./identity.js";
import type { Finish, TextEvent, Usage } from "./text-event.js";

interface TextBlock {
  readonly type: "text" | "thinking";
  text: string;
}

interface CallBlock {
  readonly type: "tool_use";
  readonly id: string;
  readonly name: string;
  /** The arguments, which are JSON as a whole. */
  text: string;
}

type Block = TextBlock | CallBlock;

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
  readonly #blocks: Block[] = [];
  #isOpen = false;
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
    switch (told.kind) {
      case "content":
        return this.#piece("text", told.text);
      case "reasoning":
        return this.#piece("thinking", told.text, this.#telling.omitsThoughts);
      case "call":
        return this.#begin({ type: "tool_use", id: told.id, name: told.name, text: "" });
      case "arguments":
        this.#blocks.at(-1)!.text += told.text;
        return [this.#delta({ type: "input_json_delta", partial_json: told.text })];
      case "finish": {
        const { reason, stop } = told;
        this.#stop = reason === "stop" && stop !== undefined && this.#telling.stop.includes(stop) ? stop : null;
        this.#reason = this.#stop === null ? reasons[reason] : "stop_sequence";
        return this.#close();
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
      content: this.#blocks.map(wholeBlock),
      stop_reason: this.#reason,
      stop_sequence: this.#stop,
      usage: usageBody(usage),
    };
  }

  #piece(type: TextBlock["type"], text: string, isOmitted = false): readonly StreamEvent[] {
    if (text === "") return [];
    const last = this.#blocks.at(-1);
    const begun = this.#isOpen && last?.type === type ? [] : this.#begin({ type, text: "" });
    if (isOmitted) return begun;
    this.#blocks.at(-1)!.text += text;
    return [
      ...begun,
      this.#delta(type === "text" ? { type: "text_delta", text } : { type: "thinking_delta", thinking: text }),
    ];
  }

  #begin(block: Block): StreamEvent[] {
    const closed = this.#close();
    this.#blocks.push(block);
    this.#isOpen = true;
    const index = this.#index;
    return [...closed, event("content_block_start", { index, content_block: wholeBlock(block) })];
  }

  /** Closes the block at hand, where there is one. */
  #close(): StreamEvent[] {
    if (!this.#isOpen) return [];
    this.#isOpen = false;
    // Thoughts are signed there, for which there is no need here; clients wait for it all the same.
    const isThought = this.#blocks.at(-1)!.type === "thinking";
    const signed = isThought ? [this.#delta({ type: "signature_delta", signature: "" })] : [];
    return [...signed, event("content_block_stop", { index: this.#index })];
  }

  #delta(delta: object): StreamEvent {
    return event("content_block_delta", { index: this.#index, delta });
  }

  get #index(): number {
    return this.#blocks.length - 1;
  }
}

function wholeBlock(block: Block): object {
  switch (block.type) {
    case "text":
      return { type: "text", text: block.text };
    case "thinking":
      return { type: "thinking", thinking: block.text, signature: "" };
    case "tool_use":
      return { type: "tool_use", id: block.id, name: block.name, input: inputOf(block.text) };
    default:
      return block satisfies never;
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
