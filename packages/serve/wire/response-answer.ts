/** The answer of `/v1/responses`: output items as they come, each begun, filled and closed by events with a number in order. */
import type { Sampling } from "#insitu/engine/sampling.js";
import type { Answer, StreamEvent } from "./answer.js";
import type { ApiError } from "./api-error.js";
import { newId, nowSeconds } from "./identity.js";
import { chatLogprobs } from "./logprobs.js";
import type { RepeatedRequest } from "./responses.js";
import type { ServedModel } from "./served-model.js";
import type { Finish, TextEvent, ToldToken, Usage } from "./text-event.js";

interface MessageItem {
  readonly type: "message";
  readonly id: string;
  text: string;
  readonly tokens: ToldToken[];
  closed: boolean;
}

interface CallItem {
  readonly type: "function_call";
  readonly id: string;
  readonly callId: string;
  readonly name: string;
  arguments: string;
  closed: boolean;
}

interface ReasoningItem {
  readonly type: "reasoning";
  readonly id: string;
  text: string;
  closed: boolean;
}

type Item = MessageItem | CallItem | ReasoningItem;

/** One response in the making. */
export class ResponseAnswer implements Answer {
  readonly #model: ServedModel;
  readonly heldBytes: number;
  readonly #request: RepeatedRequest;
  readonly #sampling: Sampling;
  readonly #id = newId("resp_");
  readonly #created = nowSeconds();
  readonly #items: Item[] = [];
  #finish: Finish = "stop";
  #sequence = 0;

  constructor(model: ServedModel, request: RepeatedRequest, sampling: Sampling) {
    this.heldBytes = JSON.stringify(request).length;
    this.#model = model;
    this.#request = request;
    this.#sampling = sampling;
  }

  begin(): readonly StreamEvent[] {
    const response = this.#response("in_progress");
    return [this.#event("response.created", { response }), this.#event("response.in_progress", { response })];
  }

  event(_: number, event: TextEvent): readonly StreamEvent[] {
    switch (event.kind) {
      case "content":
        return this.#content(event.text, event.tokens);
      case "reasoning":
        return this.#reasoning(event.text);
      case "call":
        return [
          ...this.#closeLast(),
          ...this.#open({
            type: "function_call",
            id: newId("fc_"),
            callId: event.id,
            name: event.name,
            arguments: "",
            closed: false,
          }),
        ];
      case "arguments": {
        const item = this.#items.at(-1) as CallItem;
        item.arguments += event.text;
        return [this.#event("response.function_call_arguments.delta", { ...this.#placeOf(item), delta: event.text })];
      }
      case "finish":
        this.#finish = event.reason;
        return this.#closeLast();
      default:
        return event satisfies never;
    }
  }

  end(usage: Usage): readonly StreamEvent[] {
    const type = this.#finish === "length" ? "response.incomplete" : "response.completed";
    return [this.#event(type, { response: this.body(usage) })];
  }

  failed(error: ApiError): readonly StreamEvent[] {
    const { message, code } = error;
    const told = { code: code === "queue_full" ? "rate_limit_exceeded" : "server_error", message };
    const response = { ...this.#response("failed"), error: told };
    return [
      this.#event("error", { code: code ?? null, message, param: error.param ?? null }),
      this.#event("response.failed", { response }),
    ];
  }

  body({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: Usage): object {
    return {
      ...this.#response(this.#finish === "length" ? "incomplete" : "completed"),
      usage: {
        input_tokens: promptTokens,
        input_tokens_details: { cached_tokens: cachedTokens },
        output_tokens: completionTokens,
        output_tokens_details: { reasoning_tokens: reasoningTokens },
        total_tokens: promptTokens + completionTokens,
      },
    };
  }

  #content(text: string, tokens: readonly ToldToken[]): readonly StreamEvent[] {
    const last = this.#items.at(-1);
    const opened: StreamEvent[] = [];
    let item = last?.type === "message" && !last.closed ? last : undefined;
    if (item === undefined) {
      opened.push(...this.#closeLast());
      item = { type: "message", id: newId("msg_"), text: "", tokens: [], closed: false };
      opened.push(...this.#open(item));
    }
    item.text += text;
    item.tokens.push(...tokens);
    const logprobs = this.#logprobs(tokens);
    const delta = { ...this.#placeOf(item), content_index: 0, delta: text, logprobs };
    return [...opened, this.#event("response.output_text.delta", delta)];
  }

  #reasoning(text: string): readonly StreamEvent[] {
    const last = this.#items.at(-1);
    const opened: StreamEvent[] = [];
    let item = last?.type === "reasoning" && !last.closed ? last : undefined;
    if (item === undefined) {
      opened.push(...this.#closeLast());
      item = { type: "reasoning", id: newId("rs_"), text: "", closed: false };
      opened.push(...this.#open(item));
    }
    item.text += text;
    const delta = { ...this.#placeOf(item), content_index: 0, delta: text };
    return [...opened, this.#event("response.reasoning_text.delta", delta)];
  }

  #open(item: Item): StreamEvent[] {
    this.#items.push(item);
    const added = this.#event("response.output_item.added", {
      output_index: this.#items.length - 1,
      item: item.type === "function_call" ? this.#itemBody(item) : { ...this.#itemBody(item), content: [] },
    });
    if (item.type === "function_call") return [added];
    const part =
      item.type === "reasoning"
        ? { type: "reasoning_text", text: "" }
        : { type: "output_text", text: "", annotations: [], logprobs: [] };
    return [added, this.#event("response.content_part.added", { ...this.#placeOf(item), content_index: 0, part })];
  }

  /** Closes the item at hand, where there is one. */
  #closeLast(): StreamEvent[] {
    const item = this.#items.at(-1);
    if (item === undefined || item.closed) return [];
    item.closed = true;
    const place = this.#placeOf(item);
    const done = this.#itemDone(item, place);
    return [
      ...done,
      this.#event("response.output_item.done", { output_index: place.output_index, item: this.#itemBody(item) }),
    ];
  }

  #itemDone(item: Item, place: object): StreamEvent[] {
    if (item.type === "function_call")
      return [
        this.#event("response.function_call_arguments.done", { ...place, name: item.name, arguments: item.arguments }),
      ];
    const at = { ...place, content_index: 0 };
    if (item.type === "reasoning")
      return [
        this.#event("response.reasoning_text.done", { ...at, text: item.text }),
        this.#event("response.content_part.done", { ...at, part: { type: "reasoning_text", text: item.text } }),
      ];
    return [
      this.#event("response.output_text.done", { ...at, text: item.text, logprobs: this.#logprobs(item.tokens) }),
      this.#event("response.content_part.done", { ...at, part: this.#part(item) }),
    ];
  }

  #placeOf(item: Item): { readonly item_id: string; readonly output_index: number } {
    return { item_id: item.id, output_index: this.#items.indexOf(item) };
  }

  #logprobs(tokens: readonly ToldToken[]): readonly object[] {
    return chatLogprobs(tokens, this.#model.lm.tokenizer).content;
  }

  #part({ text, tokens }: MessageItem): object {
    return { type: "output_text", text, annotations: [], logprobs: this.#logprobs(tokens) };
  }

  #itemBody(item: Item): object {
    const cut = item === this.#items.at(-1) && this.#finish === "length";
    const status = !item.closed ? "in_progress" : cut ? "incomplete" : "completed";
    if (item.type === "reasoning") {
      const content = [{ type: "reasoning_text", text: item.text }];
      return { type: "reasoning", id: item.id, summary: [], content, status };
    }
    if (item.type === "message")
      return { type: "message", id: item.id, role: "assistant", status, content: [this.#part(item)] };
    const { type, id, callId: call_id, name, arguments: given } = item;
    return { type, id, call_id, name, arguments: given, status };
  }

  #response(status: "in_progress" | "completed" | "incomplete" | "failed"): object {
    const {
      instructions,
      metadata,
      max_output_tokens,
      text,
      tools,
      tool_choice,
      parallel_tool_calls,
      user,
      reasoning,
    } = this.#request;
    return {
      id: this.#id,
      object: "response",
      created_at: this.#created,
      status,
      error: null,
      incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
      instructions: instructions ?? null,
      max_output_tokens: max_output_tokens ?? null,
      model: this.#model.name,
      output: this.#items.map((item) => this.#itemBody(item)),
      parallel_tool_calls: parallel_tool_calls ?? true,
      previous_response_id: null,
      reasoning: { effort: reasoning?.effort ?? null, summary: reasoning?.summary ?? null },
      store: false,
      temperature: this.#sampling.temperature,
      text: { format: text?.format ?? { type: "text" } },
      tool_choice: tool_choice ?? "auto",
      tools: tools ?? [],
      top_p: this.#sampling.topP,
      truncation: "disabled",
      usage: null,
      user: user ?? null,
      metadata: metadata ?? {},
    };
  }

  #event(type: string, data: object): StreamEvent {
    return { event: type, data: JSON.stringify({ type, sequence_number: this.#sequence++, ...data }) };
  }
}
