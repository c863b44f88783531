/**
 * `insitu/langchain`: a model as LangChain takes them, run in this process: `new ChatInsitu(lm).bindTools([…])`. Tools are LangChain's to run; what forces
 * and reads their calls is insitu's.
 */
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import type { BaseLanguageModelInput, StructuredOutputMethodOptions } from "@langchain/core/language_models/base";
import {
  BaseChatModel,
  type BaseChatModelCallOptions,
  type BaseChatModelParams,
  type BindToolsInput,
} from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, type AIMessageChunkFields, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import type { Runnable } from "@langchain/core/runnables";
import { convertToOpenAITool } from "@langchain/core/utils/function_calling";
import type { InteropZodType } from "@langchain/core/utils/types";
import { InsituError } from "#insitu/base/error.js";
import type { JsonSchema } from "#insitu/choice/constraint.js";
import type { LanguageModel } from "#insitu/generate/causal-lm.js";
import type { ChatOptions } from "#insitu/generate/chat-options.js";
import type { ChatReply } from "#insitu/generate/chat-reply.js";
import type { ChatTools } from "#insitu/generate/chat-tools.js";
import type { AnyChatMessage } from "#insitu/generate/messages.js";

/** What one call may say. */
interface ChatInsituCallOptions extends BaseChatModelCallOptions {
  /** Functions that the model may call. */
  readonly tools?: readonly BindToolsInput[];
  /** Options of a chat that LangChain has no words for, and those that it has: these go before all others. */
  readonly insitu?: ChatOptions;
}

/** What an answer may be held to. */
type OutputSchema<T> = InteropZodType<T> | object;

/** A loaded model, or one that is being loaded, as LangChain's chat model. */
export class ChatInsitu extends BaseChatModel<ChatInsituCallOptions> {
  readonly #lm: LanguageModel | Promise<LanguageModel>;
  readonly #options: ChatOptions;
  readonly #params: BaseChatModelParams;

  /** `options` are defaults for every call; `params` are LangChain's own. */
  constructor(lm: LanguageModel | Promise<LanguageModel>, options: ChatOptions = {}, params: BaseChatModelParams = {}) {
    super(params);
    this.#lm = lm;
    this.#options = options;
    this.#params = params;
  }

  /** The name that LangChain has the class by. */
  static override lc_name(): string {
    return "ChatInsitu";
  }

  /** The kind of model. */
  override _llmType(): string {
    return "insitu";
  }

  /** The model with tools that it may call. */
  override bindTools(
    tools: BindToolsInput[],
    options: Partial<ChatInsituCallOptions> = {},
  ): Runnable<BaseLanguageModelInput, AIMessageChunk, ChatInsituCallOptions> {
    return this.withConfig({ tools, ...options });
  }

  /** The model with answers that obey a schema: the call that has them is forced. */
  override withStructuredOutput<T extends Record<string, unknown> = Record<string, unknown>>(
    schema: OutputSchema<T>,
    config?: StructuredOutputMethodOptions<false>,
  ): Runnable<BaseLanguageModelInput, T>;
  override withStructuredOutput<T extends Record<string, unknown> = Record<string, unknown>>(
    schema: OutputSchema<T>,
    config?: StructuredOutputMethodOptions<true>,
  ): Runnable<BaseLanguageModelInput, { raw: BaseMessage; parsed: T }>;
  override withStructuredOutput(
    schema: object,
    config?: StructuredOutputMethodOptions<boolean>,
  ): Runnable<BaseLanguageModelInput, never> {
    const options: ChatOptions = { ...this.#options, toolChoice: "required", parallelToolCalls: false };
    const forced = new ChatInsitu(this.#lm, options, this.#params);
    const structured: unknown = super.withStructuredOutput.call(forced, schema, config as never);
    return structured as Runnable<BaseLanguageModelInput, never>;
  }

  /** The whole answer. */
  override async _generate(
    messages: BaseMessage[],
    options: this["ParsedCallOptions"],
    run?: CallbackManagerForLLMRun,
  ): Promise<ChatResult> {
    let whole: ChatGenerationChunk | undefined;
    for await (const piece of this._streamResponseChunks(messages, options, run)) whole = whole?.concat(piece) ?? piece;
    return { generations: whole === undefined ? [] : [whole] };
  }

  /** The answer in pieces; the last tells what it took. */
  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this["ParsedCallOptions"],
    run?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const given = { ...this.#options, ...optionsOf(options, this.#options), maxRounds: 0 };
    const reply = (await this.#lm).reply(messages.map(messageOf), given);
    const calls = new Map<string, number>();
    for await (const event of reply.events()) {
      const index = "id" in event ? (calls.get(event.id) ?? calls.size) : 0;
      let piece: ChatGenerationChunk;
      if (event.type === "text") piece = chunkOf({ content: event.text });
      else if (event.type === "reasoning") piece = chunkOf({ additional_kwargs: { reasoning_content: event.text } });
      else if (event.type === "tool-call-start") {
        const { id, name } = event;
        calls.set(id, index);
        piece = chunkOf({ tool_call_chunks: [{ type: "tool_call_chunk", index, id, name, args: "" }] });
      } else if (event.type === "tool-call-arguments")
        piece = chunkOf({ tool_call_chunks: [{ type: "tool_call_chunk", index, args: event.text }] });
      else continue;
      yield piece;
      await run?.handleLLMNewToken(piece.text, undefined, undefined, undefined, undefined, { chunk: piece });
    }
    yield chunkOf(endOf(reply));
  }
}

function chunkOf(fields: Partial<AIMessageChunkFields>): ChatGenerationChunk {
  const message = new AIMessageChunk({ content: "", ...fields });
  return new ChatGenerationChunk({ message, text: message.text });
}

function endOf({ summary, toolCalls }: ChatReply): Partial<AIMessageChunkFields> {
  const { promptTokens, reusedTokens, newTokens, finishReason } = summary;
  const wasCut = finishReason === "length" || finishReason === "context";
  return {
    response_metadata: { finish_reason: wasCut ? "length" : toolCalls.length > 0 ? "tool_calls" : "stop" },
    usage_metadata: {
      input_tokens: promptTokens,
      output_tokens: newTokens,
      total_tokens: promptTokens + newTokens,
      input_token_details: { cache_read: reusedTokens },
    },
  };
}

/** The options of a call; what says that tools are called holds only where there are some. */
function optionsOf(call: ChatInsituCallOptions, { toolChoice: usual }: ChatOptions): ChatOptions {
  const tools: Record<string, ChatTools[string]> = {};
  for (const each of call.tools ?? []) {
    const { name, description, parameters, strict } = convertToOpenAITool(each as never).function as {
      readonly name: string;
      readonly description?: string;
      readonly parameters: JsonSchema;
      readonly strict?: boolean;
    };
    tools[name] = { parameters, strict: strict === true, ...(description === undefined ? {} : { description }) };
  }
  const hasTools = Object.keys(tools).length > 0;
  return {
    ...(call.stop === undefined ? {} : { stop: call.stop }),
    ...(call.signal === undefined ? {} : { signal: call.signal }),
    ...(hasTools ? { tools } : {}),
    toolChoice: hasTools ? (choiceOf(call.tool_choice) ?? usual ?? "auto") : "auto",
    ...call.insitu,
  };
}

/** LangChain's choice: some servers' word for one that must be made, a tool's name, or OpenAI's object. */
function choiceOf(choice: ChatInsituCallOptions["tool_choice"]): ChatOptions["toolChoice"] {
  if (choice === undefined) return undefined;
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  if (choice === "any") return "required";
  if (typeof choice === "string") return { name: choice };
  const { function: called, name } = choice as {
    readonly function?: { readonly name: string };
    readonly name?: string;
  };
  return { name: called?.name ?? name ?? "" };
}

const roles: Readonly<Record<string, string>> = { human: "user", ai: "assistant" };

/** A message as templates know it. */
function messageOf(message: BaseMessage): AnyChatMessage {
  const { type, name, additional_kwargs: more } = message;
  const said = { role: roles[type] ?? type, content: textOf(message) };
  if (type === "tool") {
    const { tool_call_id } = message as BaseMessage & { readonly tool_call_id: string };
    return { ...said, tool_call_id, ...(name === undefined ? {} : { name }) };
  }
  const { tool_calls = [] } = message as BaseMessage & {
    readonly tool_calls?: readonly { readonly id?: string; readonly name: string; readonly args: unknown }[];
  };
  const thoughts = more["reasoning_content"];
  return {
    ...said,
    ...(typeof thoughts === "string" && thoughts !== "" ? { reasoning_content: thoughts } : {}),
    ...(tool_calls.length === 0
      ? {}
      : {
          tool_calls: tool_calls.map(({ id, name: called, args }) => ({
            id,
            type: "function",
            function: { name: called, arguments: JSON.stringify(args) },
          })),
        }),
  };
}

function textOf({ content }: BaseMessage): string {
  if (typeof content === "string") return content;
  return (content as readonly { readonly type: string; readonly text?: string }[])
    .map(({ type, text }) => {
      if (type === "text" && text !== undefined) return text;
      // What was called and thought stands beside the content too.
      if (type === "tool_use" || type === "tool_call" || type === "thinking" || type === "reasoning") return "";
      throw new InsituError("invalid-argument", `only text is supported, got a part of type "${type}"`);
    })
    .join("");
}
