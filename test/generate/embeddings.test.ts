// Embeddings and ranking of small models made by code: beside sums written here over the hidden states of each text by itself, and, where the peers are
// installed, beside transformers.js on onnxruntime-node.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { EmbeddingModel } from "../../src/index.node.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { missing, onOnnxruntime, runClient } from "../clients/project.js";
import { writeDecoder, writeEncoder, writeRanker } from "./embedding-folders.js";

const texts = [
  "w5 w17 w3 w40 w8 w2",
  "w9 w8",
  "w30 w31 w32 w33",
  "w7",
  "w5 w17 w3 w40 w8 w9",
  Array.from({ length: 40 }, (_, at) => `w${4 + at}`).join(" "),
];
const query = "w5 w17 w30";
let folder: string;
const at = (name: string): string => join(folder, name);

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "insitu-embeddings-"));
  writeEncoder(at("mean"), "mean_tokens", {
    "config_sentence_transformers.json": { prompts: { query: "w50 w51 ", passage: "w60 " }, default_prompt_name: null },
  });
  writeEncoder(at("cls"), "cls_token");
  writeEncoder(at("last"), "lasttoken");
  writeRanker(at("ranker"));
  writeDecoder(at("decoder"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const idsOf = (text: string): number[] =>
  text
    .split(" ")
    .filter((word) => word !== "")
    .map((word) => Number(word.slice(1)));

/** The rows of one text, run by itself. */
async function rowsOf(model: EmbeddingModel, ids: readonly number[]): Promise<number[][]> {
  const tensor = (fill: (id: number) => number): Tensor =>
    new Tensor(
      "int64",
      BigInt64Array.from(ids, (id) => BigInt(fill(id))),
      [1, ids.length],
    );
  const feeds = { input_ids: tensor((id) => id), attention_mask: tensor(() => 1), token_type_ids: tensor(() => 0) };
  const { last_hidden_state: rows } = await model.session.run(feeds);
  const size = rows.dims[2];
  return ids.map((_, row) => Array.from((rows.data as Float32Array).slice(row * size, (row + 1) * size)));
}

const unit = (vector: readonly number[]): number[] => {
  const length = Math.hypot(...vector);
  return vector.map((each) => each / length);
};
const cosine = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  const [one, other] = [unit(Array.from(a)), unit(Array.from(b))];
  return one.reduce((sum, each, place) => sum + each * other[place], 0);
};
const mean = (rows: readonly (readonly number[])[]): number[] =>
  rows[0].map((_, place) => rows.reduce((sum, row) => sum + row[place], 0) / rows.length);

test.each([
  ["mean", mean],
  ["cls", (rows: number[][]) => rows[0]],
  ["last", (rows: number[][]) => rows.at(-1)!],
] as const)("pooling by the model's configuration: %s, in batches as alone", async (name, pool) => {
  const model = await EmbeddingModel.load(at(name), { threads: 1 });
  expect([model.pooling, model.isCrossEncoder, model.maxTokens]).toEqual([name, false, 64]);
  const vectors = await model.embed(texts);
  for (const [place, text] of texts.entries()) {
    const wanted = pool(await rowsOf(model, [2, ...idsOf(text), 3]));
    expect(cosine(vectors[place], wanted)).toBeGreaterThan(0.99999);
    expect(Math.hypot(...vectors[place])).toBeCloseTo(1, 5);
  }
  const [short] = await model.embed(texts[0], { dimensions: 16 });
  expect(Array.from(short)).toEqual(
    unit(Array.from(vectors[0].slice(0, 16))).map((each) => expect.closeTo(each, 5) as unknown),
  );
  const [plain] = await model.embed(texts[0], { normalize: false });
  expect(Math.hypot(...plain)).not.toBeCloseTo(1, 2);
  await model.release();
});

test("prompts by name and as text, texts that are too long, and what is refused", async () => {
  const model = await EmbeddingModel.load(at("mean"), { threads: 1 });
  expect(model.prompts).toEqual({ query: "w50 w51 ", passage: "w60 " });
  const [named, written, spelled] = [
    await model.embed("w7", { prompt: "query" }),
    await model.embed("w7", { prompt: "w50 w51 " }),
    await model.embed("w50 w51 w7"),
  ];
  expect(named).toEqual(written);
  expect(named).toEqual(spelled);
  const long = Array.from({ length: 200 }, (_, place) => `w${4 + (place % 60)}`);
  expect(await model.embed(long.join(" "))).toEqual(await model.embed(long.slice(0, 62).join(" ")));
  expect(await model.embed([])).toEqual([]);
  await expect(model.embed("w7", { dimensions: 65 })).rejects.toThrow("at most 64");
  await expect(model.embed([7 as never])).rejects.toThrow("got 7");
  await expect(model.embed("w7", { dimension: 3 } as never)).rejects.toThrow("did you mean dimensions?");
  await expect(model.embed("w7", { signal: AbortSignal.abort(new Error("not any more")) })).rejects.toThrow(
    "not any more",
  );
  await model.release();
  await expect(EmbeddingModel.load(at("mean"), { pooling: "median" as never })).rejects.toThrow("pooling");
});

test("ranking by embeddings, and by a cross encoder", async () => {
  const model = await EmbeddingModel.load(at("cls"), { threads: 1 });
  const vectors = await model.embed([query, ...texts]);
  const wanted = texts
    .map((_, index) => ({ index, score: cosine(vectors[0], vectors[index + 1]) }))
    .toSorted((a, b) => b.score - a.score);
  const ranked = await model.rank(query, texts);
  expect(ranked.map(({ index }) => index)).toEqual(wanted.map(({ index }) => index));
  for (const [place, { score }] of ranked.entries()) expect(score).toBeCloseTo(wanted[place].score, 4);
  await model.release();
  const ranker = await EmbeddingModel.load(at("ranker"), { threads: 1 });
  expect(ranker.isCrossEncoder).toBe(true);
  const scored = await ranker.rank(query, texts);
  expect(scored.map(({ score }) => score)).toEqual(scored.map(({ score }) => score).toSorted((a, b) => b - a));
  for (const { index, score } of scored) {
    const [alone] = await ranker.rank(query, [texts[index]]);
    expect(alone.score).toBeCloseTo(score, 4);
  }
  await expect(ranker.embed("w7")).rejects.toThrow("cross encoder");
  await ranker.release();
});

describe.skipIf(missing !== undefined)("beside transformers.js on onnxruntime-node", () => {
  test("an encoder, a decoder and a ranker: cosines of 0.9999 and more, and the same order", async () => {
    const asked = {
      encoders: [
        ["mean", "mean"],
        ["cls", "cls"],
      ],
      decoders: ["decoder"],
      rankers: ["ranker"],
      texts,
      query,
    };
    const other = runClient<Record<string, number[][]> & { ranker: number[] }>(
      onOnnxruntime,
      "embed.mjs",
      folder,
      JSON.stringify(asked),
    );
    for (const name of ["mean", "cls", "decoder"]) {
      const model = await EmbeddingModel.load(at(name), { threads: 1 });
      const vectors = await model.embed(texts);
      const cosines = vectors.map((vector, place) => cosine(vector, other[name][place]));
      console.log(`${name}: cosines from ${Math.min(...cosines).toFixed(7)}`);
      for (const each of cosines) expect(each).toBeGreaterThan(0.9999);
      await model.release();
    }
    const ranker = await EmbeddingModel.load(at("ranker"), { threads: 1 });
    const ranked = await ranker.rank(query, texts);
    const wanted = other.ranker.map((score, index) => ({ index, score })).toSorted((a, b) => b.score - a.score);
    expect(ranked.map(({ index }) => index)).toEqual(wanted.map(({ index }) => index));
    for (const [place, { score }] of ranked.entries()) expect(score).toBeCloseTo(wanted[place].score, 4);
    await ranker.release();
  });
});
