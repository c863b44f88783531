/** `/v1/rerank`, as Cohere, Jina and vLLM have it: documents by how well they fit a query. */
import * as z from "zod";
import { cosine } from "#insitu/embedding/pooling.js";
import type { RankedDocument, TextEmbedder } from "#insitu/embedding/text-embedder.js";
import type { Client } from "../keys.js";
import { badField } from "./api-error.js";
import { promptsOf } from "./completions.js";
import { listOf, readBody } from "./fields.js";
import { newId } from "./identity.js";
import type { RequestLimits } from "./limits.js";
import type { ServedModel } from "./served-model.js";

const rerankBody = z.object({
  model: z.string().nullish(),
  query: z.string(),
  documents: listOf(
    z.union([z.string(), z.object({ text: z.string() })]),
    { least: 1 },
    (each) => typeof each === "string",
  ),
  top_n: z.int().min(1).nullish(),
  return_documents: z.boolean().nullish(),
});

type Answering = (signal: AbortSignal, client: Client) => Promise<object>;

function readRerank(given: unknown, limits: RequestLimits) {
  const body = readBody(rerankBody, given);
  const texts = body.documents.map((each) => (typeof each === "string" ? each : each.text));
  if (texts.length > limits.messages)
    throw badField("documents", `documents: at most ${limits.messages} are taken, got ${texts.length}`);
  const answer = (model: string, ranked: readonly RankedDocument[]): object => ({
    id: newId("rerank-"),
    model,
    results: ranked.slice(0, body.top_n ?? undefined).map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(body.return_documents === true ? { document: { text: texts[index] } } : {}),
    })),
  });
  return { asked: body.model, query: body.query, texts, answer };
}

/** Reads a request to an embedding model or a cross encoder. */
export async function prepareRanked(
  given: unknown,
  name: string,
  embedder: TextEmbedder,
  limits: RequestLimits,
): Promise<Answering> {
  const { query, texts, answer } = readRerank(given, limits);
  return async (signal) => answer(name, await embedder.rank(query, texts, { signal }));
}

/** Reads a request to a text model: its embeddings are compared, where it has some. */
export async function prepareRerank(given: unknown, model: ServedModel, limits: RequestLimits): Promise<Answering> {
  const { asked: name, query, texts, answer } = readRerank(given, limits);
  model.requireName(name);
  const { embed } = model.engine;
  if (embed === undefined)
    throw badField(
      "model",
      `the model "${model.name}" cannot rank: it does not output its hidden state`,
      "unsupported",
    );
  const [asked, ...documents] = await promptsOf([query, ...texts], "documents", model);
  return async (signal, { tenant }) => {
    const of = await embed(asked, signal, { tenant });
    const scores: RankedDocument[] = [];
    for (const [index, tokens] of documents.entries())
      scores.push({ index, score: cosine(of, await embed(tokens, signal, { tenant, isNext: true })) });
    return answer(
      model.name,
      scores.toSorted((a, b) => b.score - a.score || a.index - b.index),
    );
  };
}
