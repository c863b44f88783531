// The embedded model behind the door, on the engine that a server has by itself: texts beside each other, prefixes, clients that leave.
import { afterAll, beforeAll, expect, test } from "vitest";
import { listen, type Listening } from "../../packages/cli/listen.js";
import type { CausalLM } from "../../src/entry/node.js";
import { createServer, type Server } from "../../packages/serve/server.js";
import { eventsOf, loadModel } from "./scripted-engine.js";
import { soak } from "../support/soak.js";

let lm: CausalLM;
let server: Server;
let listening: Listening;
/** What was in use before anybody asked: the model keeps what it read last. */
let before: string;
/** What texts of these seeds are, made alone before there was a server. */
const alone: string[] = [];
const seeds = Array.from({ length: soak ? 32 : 6 }, (_, at) => at);
const prompt = "There was once a wolf who";
const tokens = 20;

beforeAll(async () => {
  lm = await loadModel();
  for (const seed of seeds) alone.push(await lm.generate(prompt, { maxTokens: tokens, seed }).text());
  server = createServer(lm, { model: "embedded" });
  await server.ready;
  listening = await listen(server, "127.0.0.1", 0);
  before = await left();
});
afterAll(async () => {
  await server?.close();
  await listening?.close();
  await lm?.release();
});

const ask = (body: object, signal?: AbortSignal): Promise<Response> =>
  fetch(`${listening.address}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({ prompt, max_tokens: tokens, ...body }),
    ...(signal === undefined ? {} : { signal }),
  });

interface Whole {
  readonly choices: readonly { readonly text: string }[];
  readonly usage: {
    readonly prompt_tokens: number;
    readonly prompt_tokens_details: { readonly cached_tokens: number };
  };
}

/** The figures of the engine that say whether anything is left. */
async function left(): Promise<string> {
  const told = await (await fetch(`${listening.address}/metrics`)).text();
  return ["texts_waiting", "texts_running", "blocks_used"]
    .map((name) => new RegExp(`^insitu_${name} (.*)$`, "m").exec(told)![1])
    .join();
}

test("texts beside each other are those that are made alone, whole and streamed", async () => {
  const texts = await Promise.all(
    seeds.map(async (seed) => {
      const stream = seed % 2 === 1;
      const response = await ask({ seed, stream });
      if (!stream) return ((await response.json()) as Whole).choices[0].text;
      const events = eventsOf(await response.text()).slice(0, -1) as Pick<Whole, "choices">[];
      return events.map(({ choices }) => choices[0].text).join("");
    }),
  );
  expect(texts).toEqual(alone);
  const several = (await (await ask({ seed: 0, n: 3 })).json()) as Whole;
  expect(several.choices.map(({ text }) => text)).toEqual(alone.slice(0, 3));
});

test("a beginning that was read before is not read again", async () => {
  const long = { prompt: "The old woman said to her son that he should go. ".repeat(8), max_tokens: 4, temperature: 0 };
  const first = (await (await ask(long)).json()) as Whole;
  const again = (await (await ask(long)).json()) as Whole;
  const { prompt_tokens: all, prompt_tokens_details: told } = again.usage;
  expect(all).toBe(lm.tokenizer.encode(long.prompt).length);
  expect(told.cached_tokens).toBeGreaterThan(all / 2);
  expect(told.cached_tokens).toBeLessThan(all);
  expect(again.choices[0].text).toBe(first.choices[0].text);
});

test("clients that leave at any time leave nothing behind, and the others get their texts", async () => {
  const leaving = Array.from({ length: soak ? 200 : 12 }, async (_, at) => {
    const leave = new AbortController();
    const asked = ask({ seed: at, max_tokens: 200, stream: at % 3 > 0 }, leave.signal).then((response) =>
      response.text(),
    );
    await new Promise((resolve) => setTimeout(resolve, at * 4));
    leave.abort();
    await asked.catch(() => {});
  });
  const staying = seeds.map(async (seed) => ((await (await ask({ seed })).json()) as Whole).choices[0].text);
  expect(await Promise.all(staying)).toEqual(alone);
  await Promise.all(leaving);
  await expect.poll(left).toBe(before);
  expect(((await (await ask({ seed: 1 })).json()) as Whole).choices[0].text).toBe(alone[1]);
});

test("what is refused leaves nothing behind", async () => {
  const schema = { type: "json_schema", json_schema: { schema: { not: {} } } };
  for (const body of [
    { prompt: Array<number>(600).fill(5) },
    { response_format: schema },
    { temperature: 9 },
    { n: 99 },
  ])
    expect((await ask(body)).status).toBe(400);
  await expect.poll(left).toBe(before);
});
