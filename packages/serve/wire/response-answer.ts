/** The answer of `/v1/responses`: output items as they come, each begun, filled and closed by events with a number in order. */
import type { Sampling } from "#insitu/choice/sampling.js";
import type { Answer, StreamEvent } from "./answer.js";
import type { ApiError } from "./api-error.js";
import { newId, nowSeconds } from "./identity.js";
import { chatLogprobs } from "./logprobs.js";
import type { RepeatedRequest } from "./responses.js";
import type { ServedModel } from "./served-model.js";
import { type TextEvent, type TextItem, type ToldToken, type Usage, WholeText } from "./text-event.js";

/** What items of each kind are called. */
const prefixes: Readonly<Record<TextItem["kind"], string>> = { content: "msg_", reasoning: "rs_", call: "fc_" };

/** One response in the making. */
export class ResponseAnswer implements Answer {
  readonly #model: ServedModel;
  readonly heldBytes: number;
  readonly #request: RepeatedRequest;
  readonly #sampling: Sampling;
  readonly #id = newId("resp_");
  readonly #created = nowSeconds();
  readonly #text = new WholeText();
  /** The ids of its items. */
  readonly #ids: string[] = [];
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
    const { closed, opened } = this.#text.add(event);
    const events = closed === undefined ? [] : this.#closing(closed);
    if (opened !== undefined) events.push(...this.#opening(opened));
    if (event.kind === "call" || event.kind === "finish") return events;
    const place = this.#placeOf(this.#text.items.at(-1)!);
    const delta = { content_index: 0, delta: event.text };
    switch (event.kind) {
      case "content":
        return [
          ...events,
          this.#event("response.output_text.delta", { ...place, ...delta, logprobs: this.#logprobs(event.tokens) }),
        ];
      case "reasoning":
        return [...events, this.#event("response.reasoning_text.delta", { ...place, ...delta })];
      case "arguments":
        return [...events, this.#event("response.function_call_arguments.delta", { ...place, delta: event.text })];
      default:
        return event satisfies never;
    }
  }

  end(usage: Usage): readonly StreamEvent[] {
    const type = this.#text.finish === "length" ? "response.incomplete" : "response.completed";
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
      ...this.#response(this.#text.finish === "length" ? "incomplete" : "completed"),
      usage: {
        input_tokens: promptTokens,
        input_tokens_details: { cached_tokens: cachedTokens },
        output_tokens: completionTokens,
        output_tokens_details: { reasoning_tokens: reasoningTokens },
        total_tokens: promptTokens + completionTokens,
      },
    };
  }

  #opening(item: TextItem): StreamEvent[] {
    this.#ids.push(newId(prefixes[item.kind]));
    const bare = { ...item, text: "", tokens: [] };
    const { output_index } = this.#placeOf(item);
    const body = { ...this.#itemBody(bare, output_index), ...(item.kind === "call" ? {} : { content: [] }) };
    const added = this.#event("response.output_item.added", { output_index, item: body });
    if (item.kind === "call") return [added];
    const part = { ...this.#placeOf(item), content_index: 0, part: this.#part(bare) };
    return [added, this.#event("response.content_part.added", part)];
  }

  #closing(item: TextItem): StreamEvent[] {
    const place = this.#placeOf(item);
    const { output_index } = place;
    return [
      ...this.#itemDone(item, place),
      this.#event("response.output_item.done", { output_index, item: this.#itemBody(item, output_index) }),
    ];
  }

  #itemDone(item: TextItem, place: object): StreamEvent[] {
    const { kind, name, text } = item;
    if (kind === "call")
      return [this.#event("response.function_call_arguments.done", { ...place, name, arguments: text })];
    const at = { ...place, content_index: 0 };
    const told = kind === "reasoning" ? { text } : { text, logprobs: this.#logprobs(item.tokens) };
    return [
      this.#event(kind === "reasoning" ? "response.reasoning_text.done" : "response.output_text.done", {
        ...at,
        ...told,
      }),
      this.#event("response.content_part.done", { ...at, part: this.#part(item) }),
    ];
  }

  #placeOf(item: TextItem): { readonly item_id: string; readonly output_index: number } {
    const at = this.#text.items.indexOf(item);
    return { item_id: this.#ids[at], output_index: at };
  }

  #logprobs(tokens: readonly ToldToken[]): readonly object[] {
    return chatLogprobs(tokens, this.#model.lm.tokenizer).content;
  }

  #part({ kind, text, tokens }: TextItem): object {
    if (kind === "reasoning") return { type: "reasoning_text", text };
    return { type: "output_text", text, annotations: [], logprobs: this.#logprobs(tokens) };
  }

  #itemBody(item: TextItem, at: number): object {
    const cut = at === this.#text.items.length - 1 && this.#text.finish === "length";
    const status = item.isOpen ? "in_progress" : cut ? "incomplete" : "completed";
    const [id, content] = [this.#ids[at], [this.#part(item)]];
    switch (item.kind) {
      case "reasoning":
        return { type: "reasoning", id, summary: [], content, status };
      case "content":
        return { type: "message", id, role: "assistant", status, content };
      case "call":
        return { type: "function_call", id, call_id: item.id, name: item.name, arguments: item.text, status };
      default:
        return item.kind satisfies never;
    }
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
      output: this.#text.items.map((item, at) => this.#itemBody(item, at)),
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
