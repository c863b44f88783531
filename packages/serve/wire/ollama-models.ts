/** What Ollama's `/api/tags`, `/api/ps`, `/api/show` and `/api/version` tell of the models, and embeddings as `/api/embed` has them. */
import * as z from "zod";
import type { TextEmbedder } from "#insitu/embedding/text-embedder.js";
import { finished } from "#insitu/embedding/pooling.js";
import { ApiError } from "./api-error.js";
import { prepareEmbedded, prepareEmbeddings } from "./embeddings.js";
import { readBody, textsOf } from "./fields.js";
import type { RequestLimits } from "./limits.js";
import { nanoseconds } from "./ollama-answer.js";
import type { Answering } from "./prepared.js";
import type { ServedModel } from "./served-model.js";

/** The version of Ollama whose interface this is: clients ask for it before they use what came with it. */
export const ollamaVersion = "0.13.0";

/** A model as the list of models has it. */
export interface ListedModel {
  readonly name: string;
  /** Seconds since 1970. */
  readonly created: number;
  /** What makes its texts, where that is loaded. */
  readonly model?: ServedModel | undefined;
  /** It is not let go of. */
  readonly pinned: boolean;
  /** Bytes that it took when it was loaded last. */
  readonly bytes?: number | undefined;
  /** What makes embeddings. */
  readonly embedder?: TextEmbedder | undefined;
}

const encoder = new TextEncoder();

/** Clients show a digest's beginning. It is the name's: files are not read for it. */
async function digestOf(name: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", encoder.encode(name)));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const timeOf = (seconds: number): string => new Date(seconds * 1000).toISOString();

function detailsOf(model: ServedModel | undefined): Readonly<Record<string, unknown>> & { readonly family: string } {
  const type = model?.lm.config["model_type"];
  const family = typeof type === "string" ? type : "";
  const families = family === "" ? [] : [family];
  return { parent_model: "", format: "onnx", family, families, parameter_size: "", quantization_level: "" };
}

const sizeOf = ({ bytes, model }: ListedModel): number => bytes ?? model?.lm.session.memory.weightBytes ?? 0;

async function entryOf(listed: ListedModel): Promise<object> {
  const { name, model } = listed;
  return { name, model: name, size: sizeOf(listed), digest: await digestOf(name), details: detailsOf(model) };
}

/** `/api/tags`: all models. */
export async function tagsBody(models: readonly ListedModel[]): Promise<object> {
  const entries = models.map(async (each) => ({ ...(await entryOf(each)), modified_at: timeOf(each.created) }));
  return { models: await Promise.all(entries) };
}

/** Seconds that stand for all time. */
const forever = 100 * 365 * 24 * 3600;

/** `/api/ps`: those that are loaded, and how long they stay so if nobody asks. */
export async function psBody(models: readonly ListedModel[], keepAlive: number): Promise<object> {
  const loaded = models.filter(({ model, embedder }) => model !== undefined || embedder !== undefined);
  const now = Date.now() / 1000;
  const entries = loaded.map(async (each) => ({
    ...(await entryOf(each)),
    expires_at: timeOf(now + (each.pinned ? forever : Math.min(keepAlive, forever))),
    size_vram: each.model?.lm.session.backend === "webgpu" ? sizeOf(each) : 0,
    ...(each.model === undefined ? {} : { context_length: each.model.engine.context }),
  }));
  return { models: await Promise.all(entries) };
}

const showBody = z.object({ model: z.string() });

/** `/api/show` of a model that makes texts. */
export function showModel(given: unknown, model: ServedModel): Promise<Answering> {
  model.requireName(readBody(showBody, given).model);
  const { lm, engine, created } = model;
  const { dialogue, tokenizer, defaults } = lm;
  const details = detailsOf(model);
  const architecture = details.family === "" ? "onnx" : details.family;
  const { temperature, topK, topP, minP, repetitionPenalty } = defaults.sampling;
  const parameters = { temperature, top_k: topK, top_p: topP, min_p: minP, repeat_penalty: repetitionPenalty };
  const told = {
    modelfile: "",
    parameters: Object.entries(parameters)
      .flatMap(([name, value]) => (value === undefined ? [] : [`${name} ${value}`]))
      .join("\n"),
    template: tokenizer.templateSource ?? "",
    details,
    model_info: { "general.architecture": architecture, [`${architecture}.context_length`]: engine.context },
    capabilities: [
      "completion",
      ...(dialogue.hasTools ? ["tools"] : []),
      ...(dialogue.thinking === undefined ? [] : ["thinking"]),
      ...(engine.embed === undefined ? [] : ["embedding"]),
    ],
    modified_at: timeOf(created),
  };
  return Promise.resolve(() => Promise.resolve(told));
}

/** `/api/show` of a model that makes embeddings. */
export function showEmbedder(given: unknown, name: string, embedder: TextEmbedder): Promise<Answering> {
  readBody(showBody, given);
  const told = {
    modelfile: "",
    parameters: "",
    template: "",
    details: detailsOf(undefined),
    model_info: { "general.architecture": "onnx", "general.name": name, "onnx.context_length": embedder.maxTokens },
    // Ollama has no word for ranking.
    capabilities: embedder.isCrossEncoder ? [] : ["embedding"],
  };
  return Promise.resolve(() => Promise.resolve(told));
}

const embedBody = z.object({
  model: z.string(),
  input: z.union([z.string(), textsOf({ least: 1 })]),
  dimensions: z.int().min(1).nullish(),
});

/** What embeddings answer, as far as it is needed. */
interface Embedded {
  readonly model: string;
  readonly data: readonly { readonly embedding: readonly number[] }[];
  readonly usage: { readonly prompt_tokens: number };
}

/** The same in Ollama's words; its embeddings are of length 1. */
function asOllama(answer: Answering): Answering {
  const came = performance.now();
  return async (signal, client) => {
    const { model, data, usage } = (await answer(signal, client)) as Embedded;
    return {
      model,
      embeddings: data.map(({ embedding }) => [...finished(Float32Array.from(embedding), embedding.length, true)]),
      total_duration: nanoseconds(performance.now() - came),
      load_duration: 0,
      prompt_eval_count: usage.prompt_tokens,
    };
  };
}

/** `/api/embed` by the mean of the last hidden state. */
export async function embedByModel(given: unknown, model: ServedModel, limits: RequestLimits): Promise<Answering> {
  return asOllama(await prepareEmbeddings(readBody(embedBody, given), model, limits));
}

/** `/api/embed` by an embedding model. */
export async function embedByEmbedder(
  given: unknown,
  name: string,
  embedder: TextEmbedder,
  limits: RequestLimits,
): Promise<Answering> {
  return asOllama(await prepareEmbedded(readBody(embedBody, given), name, embedder, limits));
}

/** The error of what Ollama does with models and this server does not. */
export const modelsAreFixed = (path: string): ApiError =>
  new ApiError(
    501,
    `${path} is not supported: the models of this server are those that it was started with; give it others by --model`,
    { code: "unsupported" },
  );
