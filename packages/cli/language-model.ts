/** What `generate` and `chat` share: their options, the model they load, and how numbers are read. */
import { readFileSync } from "node:fs";
import type { CacheType } from "#insitu/cache/pages.js";
import type { ToolFormat } from "#insitu/base/known-names.js";
import { CausalLM } from "#insitu/entry/node.js";
import type { LoadLanguageModelOptions } from "#insitu/generate/causal-lm.js";
import type { WhenFull } from "#insitu/engine/text-ask.js";
import type { DraftHead } from "#insitu/heads/draft-head.js";
import { checkGenerateOptions, type DraftModel, type GenerateOptions } from "#insitu/generate/options.js";
import type { ControlTokens } from "#insitu/generate/tokenizer.js";
import type { BackendName } from "#insitu/entry/backends.js";
import type { SessionOptions } from "#insitu/session/options.js";
import type { Arguments, CommandOption } from "./command.js";
import { FetchProgress } from "./fetch-progress.js";
import { loadProgress, pipelineProgress } from "./load-progress.js";
import { UsageError } from "./usage.js";

/** Which model guesses. */
const draft: CommandOption = {
  value: "name",
  describes:
    "speculative decoding: a smaller model with the same vocabulary that guesses tokens, or head: the model's own",
};

/** Options of every command that makes text. */
export const textOptions: Readonly<Record<string, CommandOption>> = {
  model: {
    value: "name",
    describes: "a short name (insitu models), owner/name on the hub, a folder in its layout, or an ONNX file in one",
  },
  variant: { value: "name", describes: "which ONNX file: q4 is onnx/model_q4.onnx; fp32, fp16, q8, q4f16, …" },
  "max-tokens": { value: "N", describes: "the most new tokens (default: 256, or fewer to end at a sentence)" },
  temperature: { value: "T", describes: "0 takes the most likely token, 1 samples from the model's own distribution" },
  "top-k": { value: "K", describes: "sample from the K most likely tokens only" },
  "top-p": { value: "P", describes: "sample from the most likely tokens that together have probability P" },
  "min-p": { value: "P", describes: "drop tokens less likely than P times the most likely one" },
  "repetition-penalty": { value: "R", describes: "above 1, tokens of the text so far get less likely" },
  "presence-penalty": { value: "R", describes: "above 0, tokens of the answer so far get less likely" },
  "frequency-penalty": { value: "R", describes: "the same, for each time a token occurred" },
  "tool-format": {
    value: "family",
    describes: "how the model writes tool calls and reasoning: hermes, llama3, … (default: found by its chat template)",
  },
  "chat-template": { value: "file", describes: "a chat template (Jinja) to use in place of the model's own" },
  seed: { value: "S", describes: "the same seed gives the same text" },
  context: { value: "N", describes: "the context window: tokens of prompt and answer together" },
  "when-full": { value: "what", describes: "stop, slide (forget the oldest tokens) or error when the context is full" },
  stop: { value: "text", describes: "a string that ends the text" },
  "control-tokens": {
    value: "how",
    describes: "text that looks like a control token: read as one (default for prompts), or plain (default in chats)",
  },
  speculate: { describes: "speculative decoding: guess tokens by what the text said before" },
  draft,
  backend: { value: "name", describes: "wasm, webgpu, auto or reference" },
  threads: { value: "N", describes: "how many threads (default: all cores)" },
  activations: {
    value: "how",
    describes: "activations of products with 2- to 8-bit weights: int8 (default), float, or as the file says",
  },
};

/** Options of pages. */
export const pageOptions: Readonly<Record<"cache" | "cache-type" | "block-size" | "blocks", CommandOption>> = {
  cache: {
    value: "kind",
    describes: "linear (default), or paged: blocks of one pool, shared by prompts that begin alike",
  },
  "cache-type": {
    value: "type",
    describes: "element type of a paged cache: same (default), int8, float8e4m3fn or float8e5m2",
  },
  "block-size": { value: "N", describes: "tokens in a block of a paged cache (default: 16)" },
  blocks: { value: "N", describes: "blocks of the pool (default: four contexts)" },
};

type Options = Arguments["options"];

/** The options with the model that stands before them: `insitu chat qwen3-0.6b` is `insitu chat --model qwen3-0.6b`. */
export function withModel({ positionals: [model], options }: Arguments): Options {
  if (model === undefined) return options;
  if (options["model"] !== undefined)
    throw new UsageError(`the model is named twice: "${model}" and --model "${String(options["model"])}"`);
  return { ...options, model };
}

/** Loads the model that the options name; a signal ends the fetching of one. */
export function loadModel(
  options: Options,
  signal?: AbortSignal,
  more: LoadLanguageModelOptions = {},
): Promise<CausalLM> {
  const { model, backend, variant } = options;
  const progress = new FetchProgress();
  return CausalLM.load(typeof model === "string" && model !== "embedded" ? model : undefined, {
    ...given("chatTemplate", templateOf(options)),
    ...given("context", numberOf(options, "context")),
    ...given("threads", countOf(options, "threads")),
    ...given("activations", options["activations"] as SessionOptions["activations"]),
    ...given("backend", backend as BackendName | undefined),
    ...given("variant", variant as string | undefined),
    ...given("toolFormat", options["tool-format"] as ToolFormat | undefined),
    ...given("cache", options["cache"] as "linear" | "paged" | undefined),
    ...given("cacheType", options["cache-type"] as CacheType | undefined),
    ...given("blockSize", numberOf(options, "block-size")),
    ...given("blocks", numberOf(options, "blocks")),
    ...more,
    onProgress: loadProgress(),
    webgpu: { onPipelines: pipelineProgress() },
    hub: {
      onPlan: (plan) => progress.plan(plan),
      onProgress: (of) => progress.tell(of),
      ...given("signal", signal),
    },
  }).finally(() => progress.close());
}

/** The chat template that the options name. */
function templateOf({ "chat-template": file }: Options): string | undefined {
  if (typeof file !== "string") return undefined;
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new UsageError(`--chat-template ${file} cannot be read: ${(cause as Error).message}`, cause);
  }
}

/** Loads what guesses for a model, where the options name it: the model's own head, or another model, whose texts lie as its own do. */
export async function loadDraft(
  options: Options,
  of: CausalLM | Promise<CausalLM> | undefined,
  signal?: AbortSignal,
): Promise<CausalLM | DraftHead | undefined> {
  const { draft: model, variant: _variant, "tool-format": _format, ...others } = options;
  if (model === "head") return (await of)?.loadHead();
  return typeof model === "string" ? loadModel({ ...others, model }, signal) : undefined;
}

/** Adds the model that guesses to the options of a generation. */
export function withDraft(wanted: GenerateOptions, model: DraftModel | undefined): GenerateOptions {
  if (model === undefined) return wanted;
  return { ...wanted, speculate: { draft: model, ...(wanted.speculate === true && { ngram: 3 }) } };
}

/** The options of a generation; throws for values that mean nothing, before any model is loaded. */
export function generateOptions(options: Options): GenerateOptions {
  const wanted: GenerateOptions = {
    maxTokens: numberOf(options, "max-tokens") ?? 256,
    ...given("temperature", numberOf(options, "temperature")),
    ...given("topK", numberOf(options, "top-k")),
    ...given("topP", numberOf(options, "top-p")),
    ...given("minP", numberOf(options, "min-p")),
    ...given("repetitionPenalty", numberOf(options, "repetition-penalty")),
    ...given("presencePenalty", numberOf(options, "presence-penalty")),
    ...given("frequencyPenalty", numberOf(options, "frequency-penalty")),
    ...given("seed", numberOf(options, "seed")),
    ...given("whenFull", options["when-full"] as WhenFull | undefined),
    ...given("stop", options["stop"] as string | undefined),
    ...given("controlTokens", options["control-tokens"] as ControlTokens | undefined),
    ...(options["speculate"] === true ? { speculate: true } : {}),
  };
  checkGenerateOptions(wanted);
  return wanted;
}

const given = <Name extends string, T>(name: Name, value: T | undefined): Partial<Record<Name, T>> =>
  value === undefined ? {} : ({ [name]: value } as Partial<Record<Name, T>>);

/** The number that an option holds. */
export function numberOf(options: Options, name: string): number | undefined {
  const text = options[name];
  if (typeof text !== "string") return undefined;
  const number = text.trim() === "" ? NaN : Number(text);
  if (Number.isNaN(number)) throw new UsageError(`--${name} must be a number, got "${text}"`);
  return number;
}

/** The whole number from 1 on that an option holds. */
function countOf(options: Options, name: string): number | undefined {
  const count = numberOf(options, name);
  if (count !== undefined && !(Number.isSafeInteger(count) && count >= 1))
    throw new UsageError(`--${name} must be a whole number from 1 on, got ${count}`);
  return count;
}
