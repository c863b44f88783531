/** `/v1/chat/completions`: the request's fields, and the answer as a body or as chunks. */
import * as z from "zod";
import { ApiError, badField } from "./api-error.js";
import { type Answer, dataEvent, doneEvent, type StreamEvent, usageBody } from "./answer.js";
import { conversationAsks, readConversation, reasoningFields, requireFew } from "./conversation.js";
import {
  commonFields,
  listOf,
  readBody,
  recordOf,
  refusedFields,
  samplingFields,
  streamOptions,
  tokenCount,
} from "./fields.js";
import type { RequestLimits } from "./limits.js";
import { newId, nowSeconds } from "./identity.js";
import { type ChatLogprobs, chatLogprobs } from "./logprobs.js";
import { messageField, templateMessage } from "./messages.js";
import type { Prepared } from "./prepared.js";
import { structureFields, structureRule } from "./response-format.js";
import { priorityOf } from "./sampling.js";
import type { ServedModel } from "./served-model.js";
import { type TextEvent, type ToldToken, type Usage, WholeText } from "./text-event.js";
import { functionFields, functionTool, toolChoice, toolChoiceOf } from "./tools.js";

/** Fields that would change the answer and are not there. */
const refused = {
  functions: "give them as tools",
  function_call: "give it as tool_choice",
  audio: "texts only",
  web_search_options: "this server searches nothing",
};

const chatBody = z.object({
  ...refusedFields(refused),
  ...commonFields,
  ...samplingFields,
  ...reasoningFields,
  messages: listOf(messageField, { least: 1 }),
  n: z.int().min(1).nullish(),
  max_tokens: tokenCount,
  max_completion_tokens: tokenCount,
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  stream_options: streamOptions,
  ...structureFields,
  tools: listOf(z.object({ type: z.literal("function"), function: z.object(functionFields) }), {
    most: 128,
  }).nullish(),
  tool_choice: toolChoice,
  parallel_tool_calls: z.boolean().nullish(),
  chat_template_kwargs: recordOf<unknown>().nullish(),
  modalities: listOf(z.literal("text")).nullish(),
});

/** Reads a request. */
export async function prepareChat(given: unknown, model: ServedModel, limits: RequestLimits): Promise<Prepared> {
  const body = readBody(chatBody, given);
  refuseFields(body, refused);
  model.requireName(body.model);
  const priority = priorityOf(body, limits);
  const { messages, stream, stream_options } = body;
  requireFew(messages, "messages", limits);
  if (stream_options && stream !== true) throw badField("stream_options", "stream_options: only a stream has options");
  const n = choicesOf(body.n, limits);
  if (typeof body.top_logprobs === "number" && body.logprobs !== true)
    throw badField("top_logprobs", "top_logprobs: logprobs must be true");
  const structure = structureRule(body);
  const conversation = {
    messages: messages.map(templateMessage),
    param: "messages",
    tools: body.tools?.map((tool) => functionTool(tool.function)),
    choice: toolChoiceOf(body.tool_choice),
    parallel: body.parallel_tool_calls !== false,
    format: structure.rule,
    formatParam: structure.param,
    effort: body.reasoning_effort,
    enabled: body.enable_thinking,
    budget: body.thinking_token_budget ?? body.thinking_budget,
    more: body.chat_template_kwargs,
  } as const;
  const { max_completion_tokens, max_tokens } = body;
  const wanted = { max_completion_tokens, max_tokens };
  const logprobs = body.logprobs === true ? (body.top_logprobs ?? 0) : undefined;
  const read = await readConversation(model, conversation);
  return {
    asks: await conversationAsks(model, conversation, read, { sampling: body, wanted, logprobs, count: n }, limits),
    answer: new ChatAnswer(model, n, logprobs !== undefined, stream_options?.include_usage === true),
    stream: stream === true,
    priority,
    shown: messages,
  };
}

/** Throws where a request has a field that is there for something else. */
export function refuseFields(body: Readonly<Record<string, unknown>>, fields: Readonly<Record<string, string>>): void {
  for (const [name, why] of Object.entries(fields))
    if (body[name] !== undefined && body[name] !== null && body[name] !== false)
      throw badField(name, `${name} is not supported: ${why}`, "unsupported");
}

/** How many texts are wanted. */
export function choicesOf(n: number | null | undefined, { choices }: RequestLimits): number {
  if (typeof n === "number" && n > choices)
    throw badField("n", `n: at most ${choices} completions can be asked for, got ${n}`);
  return n ?? 1;
}

interface Delta {
  readonly role?: "assistant";
  readonly content?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly object[];
}

/** The answer of one chat. */
class ChatAnswer implements Answer {
  readonly heldBytes = 0;
  readonly #model: ServedModel;
  readonly #texts: WholeText[];
  readonly #logprobs: boolean;
  readonly #includeUsage: boolean;
  readonly #id = newId("chatcmpl-");
  readonly #created = nowSeconds();

  constructor(model: ServedModel, n: number, logprobs: boolean, includeUsage: boolean) {
    this.#model = model;
    this.#texts = Array.from({ length: n }, () => new WholeText());
    this.#logprobs = logprobs;
    this.#includeUsage = includeUsage;
  }

  begin(): readonly StreamEvent[] {
    return this.#texts.map((_, index) => this.#chunk(index, { role: "assistant", content: "" }));
  }

  event(index: number, event: TextEvent): readonly StreamEvent[] {
    this.#texts[index].add(event);
    switch (event.kind) {
      case "content":
        return [this.#chunk(index, { content: event.text }, null, this.#told(event.tokens))];
      case "reasoning":
        return [this.#chunk(index, { reasoning_content: event.text })];
      case "call": {
        const { call, id, name } = event;
        return [
          this.#chunk(index, {
            tool_calls: [{ index: call, id, type: "function", function: { name, arguments: "" } }],
          }),
        ];
      }
      case "arguments":
        return [this.#chunk(index, { tool_calls: [{ index: event.call, function: { arguments: event.text } }] })];
      case "finish":
        return [this.#chunk(index, {}, event.reason)];
      default:
        return event satisfies never;
    }
  }

  end(usage: Usage): readonly StreamEvent[] {
    const last = dataEvent({ ...this.#head("chat.completion.chunk"), choices: [], usage: usageBody(usage) });
    return this.#includeUsage ? [last, doneEvent] : [doneEvent];
  }

  failed(error: ApiError): readonly StreamEvent[] {
    return [dataEvent(error.body)];
  }

  body(usage: Usage): object {
    const choices = this.#texts.map(({ content, reasoning, tokens, calls, finish }, index) => ({
      index,
      message: {
        role: "assistant",
        content: content === "" && calls.length > 0 ? null : content,
        ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
        refusal: null,
        ...(calls.length === 0
          ? {}
          : {
              tool_calls: calls.map(({ id, name, text }) => ({
                id,
                type: "function",
                function: { name, arguments: text },
              })),
            }),
      },
      logprobs: this.#told(tokens),
      finish_reason: finish,
    }));
    return { ...this.#head("chat.completion"), choices, usage: usageBody(usage) };
  }

  #head(object: string): object {
    return { id: this.#id, object, created: this.#created, model: this.#model.name, system_fingerprint: null };
  }

  #told(tokens: readonly ToldToken[]): ChatLogprobs | null {
    return this.#logprobs ? chatLogprobs(tokens, this.#model.lm.tokenizer) : null;
  }

  #chunk(index: number, delta: Delta, finish: string | null = null, logprobs: ChatLogprobs | null = null): StreamEvent {
    return dataEvent({
      ...this.#head("chat.completion.chunk"),
      choices: [{ index, delta, logprobs, finish_reason: finish }],
      ...(this.#includeUsage ? { usage: null } : {}),
    });
  }
}
