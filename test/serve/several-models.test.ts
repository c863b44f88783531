// Several models in one server: loaded when they are asked for, let go of within a bound on memory, none of the requests lost. What is loaded is
// counted here, by wrappers around loading and releasing. The tests alternate 8 times; INSITU_SOAK=1 does so 100 times, one by one and at once.
import { afterEach, expect, test } from "vitest";
import { Ollama } from "ollama";
import OpenAI from "openai";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CausalLM, EmbeddingModel } from "../../src/index.node.js";
import { writeEncoder, writeRanker } from "../generate/embedding-folders.js";
import { createServer, type ModelSource, type Server, type ServerOptions } from "../../packages/serve/server.js";
import { soak } from "../support/soak.js";

const rounds = soak ? 100 : 8;

/** A model takes about so much: its weights and its pages. */
const bytesOf = (lm: CausalLM): number =>
  lm.session.memory.weightBytes + lm.session.memory.arenaBytes + lm.pages!.byteLength;

class Loads {
  readonly live = new Set<CausalLM>();
  readonly limits: (number | undefined)[] = [];
  readonly counts = new Map<string, number>();
  most = 0;
  mostBytes = 0;

  source(name: string, more: Partial<ModelSource> = {}): ModelSource {
    return {
      name,
      load: async (memoryLimit) => {
        this.limits.push(memoryLimit);
        const limit = memoryLimit === undefined ? {} : { memoryLimit };
        const lm = await CausalLM.load(undefined, { threads: 1, cache: "paged", blocks: 40, ...limit });
        this.live.add(lm);
        this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
        this.most = Math.max(this.most, this.live.size);
        this.mostBytes = Math.max(
          this.mostBytes,
          [...this.live].reduce((sum, each) => sum + bytesOf(each), 0),
        );
        const release = lm.release.bind(lm);
        lm.release = async () => {
          await release();
          this.live.delete(lm);
        };
        return lm;
      },
      ...more,
    };
  }
}

let server: Server | undefined;
afterEach(() => server?.close());

function serve(
  sources: readonly ModelSource[],
  options: ServerOptions = {},
): (
  model: string | undefined,
  seed?: number,
  signal?: AbortSignal,
) => Promise<{ status: number; body: Record<string, unknown> }> {
  const made = createServer(sources, options);
  server = made;
  return async (model, seed = 1, signal) => {
    const body = JSON.stringify({ model, prompt: "Once upon a time", max_tokens: 4, seed });
    const answer = await made.fetch(
      new Request("http://localhost/v1/completions", { method: "POST", body, ...(signal && { signal }) }),
    );
    return { status: answer.status, body: (await answer.json().catch(() => ({}))) as Record<string, unknown> };
  };
}

const models = async (): Promise<readonly Record<string, unknown>[]> => {
  const answer = await server!.fetch(new Request("http://localhost/v1/models"));
  return ((await answer.json()) as { data: Record<string, unknown>[] }).data;
};

async function oneModelBytes(): Promise<number> {
  const lm = await CausalLM.load(undefined, { threads: 1, cache: "paged", blocks: 40 });
  const bytes = bytesOf(lm);
  await lm.release();
  return bytes;
}

test(`two models of which one fits: ${rounds} requests alternate, none is lost, memory stays within the bound`, async () => {
  const memory = Math.round(1.6 * (await oneModelBytes()));
  const loads = new Loads();
  const ask = serve([loads.source("wolf"), loads.source("fox")], { memory });
  await server!.ready;
  expect((await models()).map(({ id, state }) => [id, state])).toEqual([
    ["wolf", "unloaded"],
    ["fox", "unloaded"],
  ]);
  const texts = new Map<string, unknown>();
  for (let round = 0; round < rounds; round++) {
    const name = round % 2 === 0 ? "wolf" : "fox";
    const { status, body } = await ask(name);
    const [{ text }] = body["choices"] as readonly { readonly text: string }[];
    expect([status, body["model"], texts.get(name) ?? text]).toEqual([200, name, text]);
    texts.set(name, text);
  }
  // All at once: they are answered in a few loads, and nobody is turned away.
  const before = (loads.counts.get("wolf") ?? 0) + (loads.counts.get("fox") ?? 0);
  const answers = await Promise.all(Array.from({ length: rounds }, (_, at) => ask(at % 2 === 0 ? "wolf" : "fox", at)));
  expect(answers.map(({ status }) => status)).toEqual(Array<number>(rounds).fill(200));
  expect(answers.map(({ body }) => body["model"])).toEqual(answers.map((_, at) => (at % 2 === 0 ? "wolf" : "fox")));
  const after = (loads.counts.get("wolf") ?? 0) + (loads.counts.get("fox") ?? 0);
  expect(after - before).toBeLessThanOrEqual(4);
  expect(loads.most).toBe(1);
  expect(loads.mostBytes).toBeLessThanOrEqual(memory);
  expect(loads.limits.every((limit) => limit !== undefined && limit <= memory)).toBe(true);
  const facts = await models();
  expect(facts.filter(({ state }) => state === "ready")).toHaveLength(1);
  const metrics = await (await server!.fetch(new Request("http://localhost/metrics"))).text();
  for (const name of ["wolf", "fox"])
    expect(metrics).toContain(`insitu_texts_total{model="${name}",finished_reason="length"} ${rounds}`);
  await server!.close();
  expect(loads.live.size).toBe(0);
}, 600_000);

test("with room for both, each is loaded once; aliases, a default, and names that there are not", async () => {
  const loads = new Loads();
  const ask = serve([loads.source("wolf"), loads.source("fox")], { aliases: { "gpt-4o": "fox" } });
  for (const name of ["wolf", "fox", "gpt-4o", undefined, "fox"]) {
    const { status, body } = await ask(name);
    expect([status, body["model"]]).toEqual([200, name === "gpt-4o" ? "fox" : (name ?? "wolf")]);
  }
  expect([...loads.counts]).toEqual([
    ["wolf", 1],
    ["fox", 1],
  ]);
  expect(await ask("bear")).toMatchObject({
    status: 404,
    body: { error: { message: 'the model "bear" is not served here; there are "wolf", "fox"' } },
  });
  expect(await models()).toMatchObject([
    { id: "wolf", state: "ready", aliases: [] },
    { id: "fox", state: "ready", aliases: ["gpt-4o"] },
  ]);
  const one = await server!.fetch(new Request("http://localhost/v1/models/gpt-4o"));
  expect(await one.json()).toMatchObject({ id: "fox" });
  const client = new OpenAI({
    apiKey: "none",
    baseURL: "http://localhost/v1",
    fetch: (url, init) => server!.fetch(new Request(url as string, init as RequestInit)),
  });
  const listed = await client.models.list();
  expect(listed.data.map(({ id }) => id)).toEqual(["wolf", "fox"]);
  const said = await client.chat.completions.create({
    model: "gpt-4o",
    messages: [{ role: "user", content: "Hello" }],
    max_tokens: 3,
  });
  expect(said.model).toBe("fox");
});

test("pinned ones stay, and one that cannot be beside them is refused", async () => {
  const memory = Math.round(1.6 * (await oneModelBytes()));
  const loads = new Loads();
  const ask = serve([loads.source("wolf", { pinned: true }), loads.source("fox")], { memory, keepAlive: 600 });
  await server!.ready;
  expect(await models()).toMatchObject([{ id: "wolf", state: "ready", pinned: true }, { state: "unloaded" }]);
  const ps = (await (await server!.fetch(new Request("http://localhost/api/ps"))).json()) as {
    readonly models: readonly { readonly name: string; readonly expires_at: string }[];
  };
  expect(ps.models).toMatchObject([{ name: "wolf", expires_at: expect.stringMatching(/^2[1-9]\d\d-/) as string }]);
  const { status, body } = await ask("fox");
  expect([status, JSON.stringify(body)]).toEqual([500, expect.stringMatching(/out-of-memory/)]);
  expect((await ask("wolf")).status).toBe(200);
});

test("a model that nobody asks is let go of after a while, and comes back", async () => {
  const loads = new Loads();
  const ask = serve([loads.source("wolf")], { keepAlive: 0.05 });
  expect((await ask("wolf")).status).toBe(200);
  while (loads.live.size > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  expect((await ask("wolf")).status).toBe(200);
  expect(loads.counts.get("wolf")).toBe(2);
});

test("who leaves while a model is loaded leaves nothing behind; one that fails to load says so, and is tried again", async () => {
  const loads = new Loads();
  let fails = true;
  const broken = loads.source("fox");
  const ask = serve([
    loads.source("wolf"),
    { ...broken, load: (limit) => (fails ? Promise.reject(new Error("no such file")) : broken.load(limit)) },
  ]);
  const leaving = new AbortController();
  const left = ask("wolf", 1, leaving.signal);
  leaving.abort();
  expect((await left).status).toBe(499);
  expect((await ask("fox")).status).toBe(500);
  fails = false;
  expect((await ask("fox")).status).toBe(200);
  expect((await ask("wolf")).status).toBe(200);
});

test("embeddings and ranking by models of their own, and by official clients", async () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-served-embeddings-"));
  const loads = new Loads();
  const encoder = await EmbeddingModel.load(
    writeEncoder(join(folder, "encoder"), "mean_tokens", {
      "config_sentence_transformers.json": { prompts: { query: "w50 " } },
    }),
    { threads: 1 },
  );
  const ranker = await EmbeddingModel.load(writeRanker(join(folder, "ranker")), { threads: 1 });
  try {
    serve([loads.source("wolf")], { embedders: { encoder, ranker }, aliases: { "text-embedding-3-small": "encoder" } });
    const client = new OpenAI({
      apiKey: "none",
      baseURL: "http://localhost/v1",
      fetch: (url, init) => server!.fetch(new Request(url as string, init as RequestInit)),
    });
    const input = ["w5 w6", "w7 w8 w9"];
    const wanted = await encoder.embed(input);
    for (const model of ["encoder", "text-embedding-3-small"]) {
      // The client asks for base64 and reads it by itself.
      const { data, usage } = await client.embeddings.create({ model, input });
      expect(data.map(({ embedding }) => embedding)).toEqual(wanted.map((vector) => [...vector]));
      expect(usage.prompt_tokens).toBe(9);
    }
    const cut = await client.embeddings.create({
      model: "encoder",
      input: "w5",
      dimensions: 8,
      encoding_format: "float",
    });
    expect(cut.data[0].embedding).toEqual([...(await encoder.embed("w5", { dimensions: 8 }))[0]]);
    const post = async (path: string, body: object): Promise<{ status: number; body: Record<string, unknown> }> => {
      const request = new Request(`http://localhost/v1/${path}`, { method: "POST", body: JSON.stringify(body) });
      const answer = await server!.fetch(request);
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
    };
    const asked = await post("embeddings", { model: "encoder", input: "w5", prompt_name: "query" });
    expect(asked.body["data"]).toMatchObject([{ embedding: [...(await encoder.embed("w5", { prompt: "query" }))[0]] }]);
    for (const model of [encoder, ranker]) {
      const documents = ["w5 w6", "w30 w31", { text: "w7" }];
      const ranked = await model.rank("w5", ["w5 w6", "w30 w31", "w7"]);
      const name = model === encoder ? "encoder" : "ranker";
      const { body } = await post("rerank", { model: name, query: "w5", documents, top_n: 2, return_documents: true });
      expect(body["results"]).toMatchObject(
        ranked.slice(0, 2).map(({ index, score }) => ({
          index,
          relevance_score: score,
          document: { text: ["w5 w6", "w30 w31", "w7"][index] },
        })),
      );
    }
    for (const [path, body, status, why] of [
      ["embeddings", { model: "encoder", input: [5] }, 400, "not tokens"],
      ["embeddings", { model: "encoder", input: "w5", dimensions: 65 }, 400, "at most 64"],
      ["embeddings", { model: "encoder", input: "w5", prompt_name: "bear" }, 400, "query"],
      ["embeddings", { model: "ranker", input: "w5" }, 400, "cross encoder"],
      ["embeddings", { model: "wolf", input: "w5" }, 400, "does not output its hidden state"],
      ["rerank", { model: "wolf", query: "w5", documents: ["w5"] }, 400, "does not output its hidden state"],
      ["rerank", { model: "encoder", query: "w5", documents: [] }, 400, "documents"],
      ["completions", { model: "encoder", prompt: "w5" }, 400, "makes embeddings"],
    ] as const) {
      const answer = await post(path, body);
      expect([answer.status, JSON.stringify(answer.body)]).toEqual([status, expect.stringContaining(why)]);
    }
    const ollama = new Ollama({
      fetch: (url, init) => server!.fetch(new Request(`http://localhost${new URL(url as string).pathname}`, init)),
    });
    const embedded = await ollama.embed({ model: "encoder:latest", input });
    expect(embedded.embeddings.map((vector) => vector.map((value) => value.toFixed(5)))).toEqual(
      wanted.map((vector) => Array.from(vector, (value) => value.toFixed(5))),
    );
    expect((await ollama.list()).models.map(({ name }) => name)).toEqual(["wolf", "encoder", "ranker"]);
    expect((await ollama.show({ model: "text-embedding-3-small" })).capabilities).toEqual(["embedding"]);
    expect(await ollama.generate({ model: "wolf", prompt: "" })).toMatchObject({ done_reason: "load" });
    expect((await ollama.ps()).models.map(({ name }) => name)).toEqual(["wolf", "encoder", "ranker"]);
    await expect(ollama.chat({ model: "bear" })).rejects.toMatchObject({ status_code: 404 });
    expect(await models()).toMatchObject([
      { id: "wolf" },
      { id: "encoder", task: "embed", max_model_len: 64 },
      { id: "ranker", task: "rerank" },
    ]);
  } finally {
    await Promise.all([encoder.release(), ranker.release()]);
    rmSync(folder, { recursive: true });
  }
});
