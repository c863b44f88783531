/** `/v1/embeddings`: by an embedding model, or the mean of the last hidden state, where a text model hands it out. */
import * as z from "zod";
import { finished } from "#insitu/embedding/pooling.js";
import type { TextEmbedder } from "#insitu/embedding/text-embedder.js";
import { badField } from "./api-error.js";
import { promptField, promptsOf, severalOf } from "./completions.js";
import { readBody } from "./fields.js";
import type { RequestLimits } from "./limits.js";
import type { Answering } from "./prepared.js";
import type { ServedModel } from "./served-model.js";

const embeddingsBody = z.object({
  model: z.string().nullish(),
  input: promptField,
  encoding_format: z.enum(["float", "base64"]).nullish(),
  dimensions: z.int().min(1).nullish(),
  user: z.string().nullish(),
  /** Which of an embedding model's prompts stands before the texts, by either of the names that servers have for it. */
  prompt_name: z.string().nullish(),
  input_type: z.string().nullish(),
});

/** Reads a request to an embedding model. */
export async function prepareEmbedded(
  given: unknown,
  name: string,
  embedder: TextEmbedder,
  limits: RequestLimits,
): Promise<Answering> {
  const { input, encoding_format, dimensions, prompt_name, input_type } = readBody(embeddingsBody, given);
  const texts = severalOf(input);
  if (texts.length > limits.messages)
    throw badField("input", `input: at most ${limits.messages} are taken, got ${texts.length}`);
  if (!texts.every((text) => typeof text === "string"))
    throw badField("input", `input: the model "${name}" embeds text, not tokens`, "unsupported");
  const wanted = prompt_name ?? input_type ?? undefined;
  if (typeof prompt_name === "string" && !Object.hasOwn(embedder.prompts, prompt_name))
    throw badField(
      "prompt_name",
      `prompt_name: the model has ${Object.keys(embedder.prompts).join(", ") || "none"}, got "${prompt_name}"`,
    );
  const prompt = wanted !== undefined && Object.hasOwn(embedder.prompts, wanted) ? { prompt: wanted } : {};
  return async (signal) => {
    const more = typeof dimensions === "number" ? { dimensions } : {};
    const { vectors, tokens } = await embedder.embedCounted(texts, { ...prompt, ...more, signal });
    return embeddingsAnswer(name, vectors, tokens, encoding_format);
  };
}

function embeddingsAnswer(
  model: string,
  vectors: readonly Float32Array[],
  tokens: number,
  format: "float" | "base64" | null | undefined,
): object {
  const data = vectors.map((vector, index) => ({
    object: "embedding",
    index,
    embedding: format === "base64" ? base64(vector) : [...vector],
  }));
  return { object: "list", model, data, usage: { prompt_tokens: tokens, total_tokens: tokens } };
}

/** Reads a request; what it comes to are the embeddings of its inputs, one after another. */
export async function prepareEmbeddings(given: unknown, model: ServedModel, limits: RequestLimits): Promise<Answering> {
  const body = readBody(embeddingsBody, given);
  model.requireName(body.model);
  const { engine } = model;
  const { embed } = engine;
  if (embed === undefined)
    throw badField(
      "model",
      `the model "${model.name}" has no embeddings: it does not output its hidden state`,
      "unsupported",
    );
  const several = severalOf(body.input);
  if (several.length > limits.messages)
    throw badField("input", `input: at most ${limits.messages} are taken, got ${several.length}`);
  const inputs = await promptsOf(several, "input", model);
  const long = inputs.find(({ length }) => length > engine.context);
  if (long !== undefined)
    throw badField(
      "input",
      `input: has ${long.length} tokens, and the context holds ${engine.context}`,
      "context_length_exceeded",
    );
  const { encoding_format, dimensions } = body;
  return async (signal, { tenant }) => {
    const vectors: Float32Array[] = [];
    for (const [index, input] of inputs.entries()) {
      const embedding = await embed(input, signal, { tenant, isNext: index > 0 });
      if (typeof dimensions === "number" && dimensions > embedding.length)
        throw badField("dimensions", `dimensions: the model's embeddings have ${embedding.length}, got ${dimensions}`);
      vectors.push(typeof dimensions === "number" ? finished(embedding, dimensions, true) : embedding);
    }
    const tokens = inputs.reduce((sum, { length }) => sum + length, 0);
    return embeddingsAnswer(model.name, vectors, tokens, encoding_format);
  };
}

/** The bytes of float32 numbers, little-endian as OpenAI's. */
function base64(numbers: Float32Array): string {
  const bytes = new DataView(new ArrayBuffer(numbers.length * 4));
  numbers.forEach((number, at) => bytes.setFloat32(at * 4, number, true));
  let text = "";
  for (const byte of new Uint8Array(bytes.buffer)) text += String.fromCharCode(byte);
  return btoa(text);
}
