/** `/v1/embeddings`: the mean of the last hidden state, where the model hands it out. */
import * as z from "zod";
import type { Client } from "../keys.js";
import { badField } from "./api-error.js";
import { promptField, promptsOf, severalOf } from "./completions.js";
import { readBody } from "./fields.js";
import type { RequestLimits } from "./limits.js";
import type { ServedModel } from "./served-model.js";

const embeddingsBody = z.object({
  model: z.string().nullish(),
  input: promptField,
  encoding_format: z.enum(["float", "base64"]).nullish(),
  dimensions: z.int().min(1).nullish(),
  user: z.string().nullish(),
});

/** Reads a request; what it comes to are the embeddings of its inputs, one after another. */
export async function prepareEmbeddings(
  given: unknown,
  model: ServedModel,
  limits: RequestLimits,
): Promise<(signal: AbortSignal, client: Client) => Promise<object>> {
  const body = readBody(embeddingsBody, given);
  model.requireName(body.model);
  const { engine } = model;
  const { embed } = engine;
  if (embed === undefined)
    throw badField("model", `the model "${model.name}" has no embeddings: it hands out no hidden state`, "unsupported");
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
    const data: object[] = [];
    for (const [index, input] of inputs.entries()) {
      const embedding = await embed(input, signal, { tenant, isNext: index > 0 });
      if (typeof dimensions === "number" && dimensions !== embedding.length)
        throw badField("dimensions", `dimensions: the model's embeddings have ${embedding.length}, got ${dimensions}`);
      data.push({
        object: "embedding",
        index,
        embedding: encoding_format === "base64" ? base64(embedding) : [...embedding],
      });
    }
    const tokens = inputs.reduce((sum, { length }) => sum + length, 0);
    return { object: "list", model: model.name, data, usage: { prompt_tokens: tokens, total_tokens: tokens } };
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
