// A draft behind an engine of many texts: they are what they are without, whatever the pool is short of and whoever leaves.
import { afterAll, beforeAll, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { oneAtATime } from "../../packages/serve/one-at-a-time.js";
import { createEngine } from "../../packages/serve/running/create-engine.js";
import { createServer } from "../../packages/serve/server.js";
import { draftFolder } from "../support/embedded-drafts.js";
import { soak } from "../support/soak.js";
import { submit, type Wanted } from "./engine-support.js";

const folder = draftFolder(5);
let [lm, draft]: CausalLM[] = [];

beforeAll(async () => {
  // Every token is read as if it were alone: texts are the same whatever is read with them.
  lm = await CausalLM.load(undefined, { cache: "paged", blockSize: 4, blocks: 24, batchInvariant: true });
  draft = await CausalLM.load(folder.path, { cache: "paged", blockSize: 4, blocks: 96 });
});
afterAll(async () => {
  await lm.release();
  await draft.release();
  folder.remove();
});

/** Texts that are asked for in a way that is by chance. */
function asked(count: number): Wanted[] {
  let seed = 7;
  const below = (most: number): number => ((seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0), (seed >>> 8) % most);
  const words = "king wolf queen forest castle daughter golden bird old woman poor miller".split(" ");
  return Array.from({ length: count }, (_, at) => ({
    id: `asked ${at}`,
    prompt: lm.tokenizer.encode(
      `The ${Array.from({ length: 1 + below(8) }, () => words[below(words.length)]).join(" ")}`,
    ),
    maxTokens: 1 + below(32),
    salt: ["", "a", "b"][below(3)],
    sampling: below(2) === 0 ? { temperature: 0 } : { temperature: 0.9, seed: at, repetitionPenalty: 1.1 },
    ...(below(3) === 0 ? { stop: [" the"], decoder: lm.tokenizer } : {}),
    ...(below(4) === 0 ? { endTokens: new Set(lm.tokenizer.encode(" and was of")) } : {}),
  }));
}

/** What each text is by itself, made one after another without guesses. */
async function alone(all: readonly Wanted[]): Promise<{ tokens: number[]; end: unknown }[]> {
  const engine = createEngine(lm);
  const made = [];
  for (const each of all) {
    const heard = submit(engine, { ...each, id: `${each.id} alone` });
    await heard.over;
    made.push({ tokens: heard.tokens, end: heard.end });
  }
  await engine.close();
  return made;
}

test.each([true, false])("texts in a small pool are the same with a draft; adaptive: %s", async (adaptive) => {
  const all = asked(soak ? 120 : 24);
  const wanted = await alone(all);
  const engine = createEngine(lm, { draft, mostRunning: 12, mostWaiting: all.length + 2 });
  const speculate = adaptive ? {} : { speculate: { draft: draft.forServers.draft, tokens: 3, adaptive: false } };
  const heard = all.map((each, at) => ({
    ...each,
    heard: submit(engine, {
      ...each,
      ...speculate,
      ...(at % 9 === 8 ? { onToken: (count) => (count === 5 ? "stop" : undefined) } : {}),
    }),
  }));
  // Some leave in the middle.
  const left = submit(engine, { ...all[0], ...speculate, id: "left", maxTokens: 60 });
  const aborts = submit(engine, {
    ...all[1],
    ...speculate,
    id: "left at a token",
    maxTokens: 60,
    onToken: (count) => (count === 3 ? (aborts.text.cancel(), undefined) : undefined),
  });
  await Promise.race([heard[0].heard.over, left.over]);
  left.text.cancel();
  for (const [at, each] of heard.entries()) {
    await each.heard.over;
    const stopped = at % 9 === 8 && wanted[at].tokens.length >= 5;
    expect(each.heard.tokens, each.id).toEqual(stopped ? wanted[at].tokens.slice(0, 5) : wanted[at].tokens);
    if (!stopped) expect(each.heard.end, each.id).toBe(wanted[at].end);
  }
  const { preemptions, guessedTokens = 0, rightGuesses = 0, blocksUsed } = engine.figures();
  console.log({ preemptions, guessedTokens, rightGuesses });
  if (!adaptive) {
    expect(preemptions).toBeGreaterThan(0);
    expect(rightGuesses).toBeGreaterThan(0);
    expect(guessedTokens).toBeGreaterThan(rightGuesses);
  }
  await engine.close();
  expect(blocksUsed).toBe(0);
  // A context that nobody's salt is on may wait; those of salts are gone.
  expect(draft.forServers.engine.texts.size).toBe(0);
  expect(draft.pages!.pool.sequences.length).toBeLessThanOrEqual(1);
});

test("one after another, too", async () => {
  const all = asked(6).map((each) => ({ ...each, maxTokens: 20 }));
  const made = [];
  const engine = oneAtATime(lm, 16, draft);
  for (const each of all) {
    const heard = submit(engine, { ...each, speculate: { draft: draft.forServers.draft, tokens: 3, adaptive: false } });
    await heard.over;
    made.push({ tokens: heard.tokens, end: heard.end });
  }
  const { guessedTokens = 0 } = engine.figures();
  expect(guessedTokens).toBeGreaterThan(0);
  await engine.close();
  expect(made).toEqual(await alone(all));
});

test("metrics count guesses, and a server refuses what cannot guess", async () => {
  const server = createServer(lm, { draft, model: "embedded" });
  await server.ready;
  const body = JSON.stringify({ model: "embedded", prompt: "The king", max_tokens: 20, temperature: 0 });
  const headers = { "content-type": "application/json" };
  const answer = await server.fetch(new Request("http://localhost/v1/completions", { method: "POST", body, headers }));
  expect(answer.status).toBe(200);
  await answer.text();
  const metrics = await (await server.fetch(new Request("http://localhost/metrics"))).text();
  expect(metrics).toMatch(/^insitu_guessed_tokens_total \d+$/m);
  expect(metrics).toMatch(/^insitu_right_guesses_total \d+$/m);
  await server.close();
  expect(() => createServer(lm, { draft: {} as CausalLM })).toThrow(/draft must be a language model/);
  expect(() => createEngine(lm, { draft: { vocabulary: 5, forServers: draft.forServers } })).toThrow(
    /has 5 tokens in its vocabulary, the model has 4096/,
  );
});
