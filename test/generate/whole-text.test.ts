// One long text of the embedded model, read back in one go and in pieces of every size: at each place the likeliest next token is the
// one that the decode loop made. So the text is the same however a prompt is cut, on every backend, token by token or all at once. The soak
// has more sizes, and reads more on the reference backend.
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CausalLM, InferenceSession } from "../../src/entry/node.js";
import { Decoder } from "../../src/decoder/decoder.js";
import { likeliestTokens } from "../../packages/choice/log-probability.js";
import type { SessionOptions } from "../../src/session/options.js";
import { embedded, tie, tokensOf } from "./support.js";
import { soak } from "../support/soak.js";

/** Prompt and text, as long as the context. */
let text: number[];
let prompt: number;

beforeAll(async () => {
  const lm = await CausalLM.load(undefined, { inPlace: "require" });
  const begin = lm.tokenizer.encode("Once upon a time there was a king who had");
  const generation = lm.generate(begin, { temperature: 0, ignoreEnd: true });
  text = [...begin, ...(await tokensOf(generation)).map(({ token }) => token)];
  prompt = begin.length;
  expect(generation.summary).toMatchObject({ finishReason: "context", movedBytes: 0 });
  expect(text).toHaveLength(lm.contextLength + 1);
  await lm.release();
});

/** Reads the first `count` tokens in pieces; the places where the likeliest next token is another than the text's, ties left out. */
async function differences(
  session: InferenceSession,
  count: number,
  sizes: readonly number[],
  what: string,
): Promise<number[]> {
  const decoder = new Decoder(session);
  const state = decoder.createState(1, count);
  const found: number[] = [];
  for (let at = 0, piece = 0; at < count; piece++) {
    const part = text.slice(at, Math.min(count, at + sizes[piece % sizes.length]));
    const logits = await decoder.run(state, { tokens: [part], positions: [at] });
    part.forEach((_, index) => {
      const next = at + index + 1;
      if (next < prompt) return;
      const [best, second] = likeliestTokens(logits.at(part.length - 1 - index), 2);
      if (best.token === text[next]) return;
      const apart = best.logprob - second.logprob;
      if (apart < tie) console.log(`${what}: a tie at token ${next}, ${apart.toExponential(1)} apart`);
      else found.push(next);
    });
    at += part.length;
  }
  state.release();
  return found;
}

const opened = new Map<string, InferenceSession>();
afterAll(async () => {
  for (const session of opened.values()) await session.release();
});
async function open(options: SessionOptions): Promise<InferenceSession> {
  const key = JSON.stringify(options);
  const session = opened.get(key) ?? (await InferenceSession.create(join(embedded, "onnx/model.onnx"), options));
  opened.set(key, session);
  return session;
}

test.each([
  [2, [7, 512]],
  [1, [1, 100]],
])("with %i threads", async (threads, sizes) => {
  const session = await open({ inPlace: "require", threads });
  for (const size of soak ? [1, 2, 3, 5, 7, 16, 31, 64, 100, 128, 255, 511, 512] : sizes)
    expect(await differences(session, 512, [size], `${threads} threads, pieces of ${size}`)).toEqual([]);
});

test("in pieces of any sizes", async () => {
  const session = await open({ inPlace: "require", threads: 1 });
  const seed = Date.now() % 100_000;
  console.log(`sizes by seed ${seed}`);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 8 }), async (sizes) => {
      expect(await differences(session, 200, sizes, `pieces of ${sizes.join(", ")}`)).toEqual([]);
    }),
    { seed, numRuns: soak ? 100 : 4 },
  );
});

test("without a state's bytes being written in place", async () => {
  expect(await differences(await open({ inPlace: "never" }), 96, [32, 1], "never in place")).toEqual([]);
});

test("on the reference backend, the first tokens", async () => {
  const session = await open({ backend: "reference" });
  const count = soak ? 63 : 7;
  expect(await differences(session, prompt + count, [prompt, count], "reference")).toEqual([]);
});
