/**
 * `insitu/ai`: a model as the Vercel AI SDK takes them (LanguageModelV3), run in this process: `generateText({ model: insitu(lm), … })`. Tools are the
 * SDK's to run; what forces and reads their calls is insitu's.
 */
import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3FinishReason,
  LanguageModelV3StreamPart,
  LanguageModelV3Usage,
  SharedV3Warning,
} from "@ai-sdk/provider";
import type { LanguageModel } from "#insitu/generate/causal-lm.js";
import type { ChatOptions } from "#insitu/generate/chat-options.js";
import type { ChatReply } from "#insitu/generate/chat-reply.js";
import { conversationOf, optionsOf } from "./call-options.js";

/** Options of `insitu()`: defaults for all calls, and the model's id. */
interface InsituModelOptions extends ChatOptions {
  /**
   * The model's id in the AI SDK.
   * @default "insitu"
   */
  readonly modelId?: string | undefined;
}

/**
 * Makes a loaded model usable by the Vercel AI SDK, in this process. `options` are defaults; the settings of a call come first.
 * @example
 * ```ts
 * import { CausalLM } from "insitu";
 * import { insitu } from "insitu/ai";
 * import { generateText } from "ai";
 *
 * const lm = await CausalLM.load();
 * const { text } = await generateText({ model: insitu(lm), prompt: "Once upon a time" });
 * console.log(text);
 * await lm.release();
 * ```
 */
export function insitu(lm: LanguageModel | Promise<LanguageModel>, options: InsituModelOptions = {}): LanguageModelV3 {
  const { modelId = "insitu", ...defaults } = options;
  const begin = async (
    call: LanguageModelV3CallOptions,
  ): Promise<{ readonly reply: ChatReply; readonly warnings: SharedV3Warning[] }> => {
    const warnings: SharedV3Warning[] = [];
    const given = { ...defaults, ...optionsOf(call, warnings), maxRounds: 0 };
    return { reply: (await lm).reply(conversationOf(call.prompt), given), warnings };
  };
  return {
    specificationVersion: "v3",
    provider: "insitu",
    modelId,
    supportedUrls: {},
    async doGenerate(call) {
      const { reply, warnings } = await begin(call);
      const parts = new ReplyParts(reply);
      for await (const _ of parts.stream());
      return { content: parts.content, finishReason: parts.finishReason, usage: parts.usage, warnings };
    },
    async doStream(call) {
      const { reply, warnings } = await begin(call);
      const parts = new ReplyParts(reply);
      return { stream: streamOf(startWith(warnings, parts)) };
    },
  };
}

async function* startWith(
  warnings: SharedV3Warning[],
  parts: ReplyParts,
): AsyncGenerator<LanguageModelV3StreamPart, void, undefined> {
  yield { type: "stream-start", warnings };
  try {
    yield* parts.stream();
  } catch (error) {
    yield { type: "error", error };
  }
  yield { type: "finish", finishReason: parts.finishReason, usage: parts.usage };
}

/** Parts as a stream: made while they are read, and given up where the reader leaves. */
function streamOf<T>(parts: AsyncGenerator<T, void, undefined>): ReadableStream<T> {
  return new ReadableStream<T>({
    async pull(controller) {
      const { done, value } = await parts.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await parts.return();
    },
  });
}

/** A reply as the SDK's parts, in the order in which they came. */
class ReplyParts {
  readonly #reply: ChatReply;
  readonly content: LanguageModelV3Content[] = [];
  #reasoningTokens = 0;
  #calls = 0;
  /** The text or reasoning that is open. */
  #open: { readonly type: "text" | "reasoning"; readonly id: string; text: string } | undefined;

  constructor(reply: ChatReply) {
    this.#reply = reply;
  }

  async *stream(): AsyncGenerator<LanguageModelV3StreamPart, void, undefined> {
    const names = new Map<number, { readonly id: string; readonly name: string; text: string }>();
    for await (const { text, events } of this.#reply) {
      const told = events ?? (text === "" ? [] : [{ kind: "text", text } as const]);
      if (told.some(({ kind }) => kind === "reasoning")) this.#reasoningTokens++;
      for (const event of told)
        switch (event.kind) {
          case "text":
          case "reasoning":
            yield* this.#piece(event.kind, event.text);
            break;
          case "call":
            yield* this.#close();
            names.set(event.call, { id: event.id, name: event.name, text: "" });
            yield { type: "tool-input-start", id: event.id, toolName: event.name };
            break;
          case "arguments": {
            const call = names.get(event.call)!;
            call.text += event.text;
            yield { type: "tool-input-delta", id: call.id, delta: event.text };
            break;
          }
          case "call-done": {
            const { id, name, text: input } = names.get(event.call)!;
            const made = { type: "tool-call", toolCallId: id, toolName: name, input } as const;
            this.#calls++;
            this.content.push(made);
            yield { type: "tool-input-end", id };
            yield made;
            break;
          }
          default:
            event satisfies never;
        }
    }
    yield* this.#close();
  }

  *#piece(type: "text" | "reasoning", text: string): Generator<LanguageModelV3StreamPart, void, undefined> {
    if (this.#open?.type !== type) {
      yield* this.#close();
      this.#open = { type, id: String(this.content.length), text: "" };
      yield { type: `${type}-start`, id: this.#open.id };
    }
    this.#open.text += text;
    yield { type: `${type}-delta`, id: this.#open.id, delta: text };
  }

  *#close(): Generator<LanguageModelV3StreamPart, void, undefined> {
    if (this.#open === undefined) return;
    const { type, id, text } = this.#open;
    this.#open = undefined;
    this.content.push({ type, text });
    yield { type: `${type}-end`, id };
  }

  get finishReason(): LanguageModelV3FinishReason {
    const { finishReason: raw } = this.#reply.summary;
    if (raw === "length" || raw === "context") return { unified: "length", raw };
    return { unified: this.#calls > 0 ? "tool-calls" : raw === "unfinished" ? "other" : "stop", raw };
  }

  get usage(): LanguageModelV3Usage {
    const { promptTokens, reusedTokens, newTokens } = this.#reply.summary;
    const reasoning = this.#reasoningTokens;
    return {
      inputTokens: {
        total: promptTokens,
        noCache: promptTokens - reusedTokens,
        cacheRead: reusedTokens,
        cacheWrite: undefined,
      },
      outputTokens: { total: newTokens, text: newTokens - reasoning, reasoning },
    };
  }
}
