// Models that keep states without rows beside their caches, in texts, chats, samples, guesses, forks and saved contexts: tokens and logits are those of a
// fresh reading, and what was read is not read again but for the few tokens behind a checkpoint. The oracle reads each text from its first token on, in
// one run, on a state of its own.
import { afterAll, expect, test, vi } from "vitest";
import { CausalLM, InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { hybridDecoder, hybridFolder } from "../support/hybrid-decoder.js";
import { publishedFiles, writeFolder } from "../support/published-folders.js";
import { tokensOf } from "./support.js";
import { soak } from "../support/soak.js";

const folder = hybridFolder({ positions: 1024 });
const published = writeFolder(publishedFiles("lfm2-int4-cpu"));
afterAll(() => {
  folder.remove();
  published.remove();
});

const greedy = { maxTokens: 6, temperature: 0, ignoreEnd: true, logprobs: true } as const;

const backends = soak ? (["wasm", "webgpu"] as const) : (["wasm"] as const);

/** Hears how many tokens each run of a model reads. */
function listen(lm: CausalLM): { read: () => number } {
  const run = vi.spyOn(lm.session, "run");
  return {
    read: () => {
      const count = run.mock.calls.reduce((sum, [feeds]) => {
        const { dims } = (feeds as Record<string, Tensor>)["input_ids"];
        return sum + dims[0] * dims[1];
      }, 0);
      run.mockClear();
      return count;
    },
  };
}

interface Step {
  readonly token: number;
  readonly logprob?: number;
}

function expectSame(actual: readonly Step[], wanted: readonly Step[], what: string): void {
  expect(
    actual.map(({ token }) => token),
    what,
  ).toEqual(wanted.map(({ token }) => token));
  for (const [at, { logprob }] of wanted.entries())
    expect(Math.abs(actual[at].logprob! - logprob!), `${what}, token ${at}`).toBeLessThan(2e-3);
}

const caches = ["linear", "paged"] as const;

test("a decoder of recurrent states alone: texts on linear caches, whole and in parts; pages are refused with the way out", async () => {
  const alone = hybridFolder({ layers: ["conv", "recurrent"] });
  const texts: Step[][] = [];
  for (const chunk of [64, 3]) {
    const lm = await CausalLM.load(alone.path, { threads: 1, chunk, keep: 0 });
    const text: Step[] = [];
    for await (const step of lm.generate("states, no rows", greedy)) text.push(step);
    texts.push(text);
    await lm.release();
  }
  expectSame(texts[1], texts[0], "in parts");
  await expect(CausalLM.load(alone.path, { cache: "paged" })).rejects.toThrow(
    /has recurrent states alone \("past_[a-z]+\.\d"\), .*: use linear caches$/,
  );
  alone.remove();
});

test.each(caches)("a chat of ten turns reads each token once, %s", async (cache) => {
  const lm = await CausalLM.load(folder.path, { threads: 1, cache });
  const chat = lm.chat([{ role: "system", content: "be brief ".repeat(9) }], { ...greedy, maxTokens: 20 });
  const { read } = listen(lm);
  let readInAll = 0;
  for (let turn = 0; turn < 10; turn++) {
    await tokensOf(chat.send(`question ${turn}`));
    readInAll += read();
  }
  const answers = chat.messages.map(({ content }) => content as string);
  const text = lm.tokenizer.encode(
    answers.map((content, at) => `<${"sua"[at === 0 ? 0 : 1 + ((at - 1) % 2)]}>${content}\n`).join(""),
  );
  // Without the line behind the last answer, and its last token, which nobody has read.
  expect(readInAll).toBeLessThanOrEqual(text.length);
  expect(readInAll).toBeGreaterThan(text.length - 24);
  await lm.release();
});

test.each(caches)(
  "turns taken back, asked again and answered again are read from a checkpoint on, %s",
  async (cache) => {
    const lm = await CausalLM.load(folder.path, { threads: 1, keep: 0, cache });
    const fresh = await CausalLM.load(folder.path, { threads: 1, keep: 0 });
    const chat = lm.chat([{ role: "system", content: "be brief ".repeat(20) }], greedy);
    const { read } = listen(lm);
    for (let turn = 0; turn < 4; turn++) await tokensOf(chat.send(`question ${turn}`));
    for (const [count, words] of [
      [1, "question 3"],
      [1, "another one"],
      [3, "further back"],
    ] as const) {
      chat.undo(count);
      read();
      const again = await tokensOf(chat.send(words));
      // What is new, the answer, and what lies behind the nearest checkpoint.
      expect(read(), words).toBeLessThan(greedy.maxTokens + words.length + 28);
      const wanted = await tokensOf(fresh.generate(chat.messages.slice(0, -1), greedy));
      expectSame(again, wanted, words);
    }
    await Promise.all([lm.release(), fresh.release()]);
  },
);

for (const backend of backends)
  for (const [name, path, vocabulary, cache] of [
    ["three kinds of layers", folder.path, 250, "linear"],
    ["three kinds of layers", folder.path, 250, "paged"],
    ["LFM2 as it is published", published.path, 150, "linear"],
    ["LFM2 as it is published", published.path, 150, "paged"],
  ] as const)
    test(`${name}, ${cache} on ${backend}: prompts that part anywhere from those before, as a fresh reading has them`, async () => {
      const random = seededRandom(7);
      const below = (count: number): number => Math.floor(random() * count);
      const lm = await CausalLM.load(path, { threads: 1, chunk: 24, keep: 2, cache, backend });
      const fresh = await CausalLM.load(path, { threads: 1, keep: 0, backend });
      let prompt = Array.from({ length: 90 }, () => 3 + below(vocabulary));
      const { read } = listen(lm);
      for (let round = 0; round < (soak ? (backend === "wasm" ? 60 : 4) : 6); round++) {
        const texts = await tokensOf(lm.generate(prompt, greedy));
        expectSame(texts, await tokensOf(fresh.generate(prompt, greedy)), `round ${round}`);
        read();
        await tokensOf(lm.generate(prompt, greedy));
        // The same again: no more than a block, its last token among it, is read of the prompt.
        expect(read(), `round ${round} again`).toBeLessThanOrEqual(16 + greedy.maxTokens);
        const more = Array.from({ length: 1 + below(30) }, () => 3 + below(vocabulary));
        const parted = [...prompt, ...texts.map(({ token }) => token)].slice(0, 20 + below(prompt.length - 20));
        prompt = [...parted, ...more].slice(0, 200);
      }
      await Promise.all([lm.release(), fresh.release()]);
    });

test("guesses that were wrong are taken back", async () => {
  const lm = await CausalLM.load(folder.path, { threads: 1 });
  const prompt = Array.from({ length: 40 }, (_, at) => 65 + (at % 5));
  const options = { ...greedy, maxTokens: 40 };
  const plain = await tokensOf(lm.generate(prompt, options));
  const generation = lm.generate(prompt, { ...options, speculate: { ngram: 2, draft: 4, adaptive: false } });
  expectSame(await tokensOf(generation), plain, "with guesses");
  await lm.release();
});

test.each(caches)("samples, beams and saved contexts go on from what was read, %s", async (cache) => {
  const lm = await CausalLM.load(folder.path, { threads: 1, cache });
  const fresh = await CausalLM.load(folder.path, { threads: 1, keep: 0 });
  const prompt = Array.from({ length: 70 }, (_, at) => 3 + ((at * 37) % 240));
  const wanted = await tokensOf(fresh.generate(prompt, greedy));
  const { read } = listen(lm);
  for (const sample of await lm.samples(prompt, 3, greedy)) expectSame(await tokensOf(sample), wanted, "a sample");
  expect(read()).toBeLessThanOrEqual(prompt.length + 3 * greedy.maxTokens);
  const [beam] = await lm.beamSearch(prompt, { maxTokens: 6, beams: 1, ignoreEnd: true });
  expect(beam.tokens).toEqual(wanted.map(({ token }) => token));
  await tokensOf(lm.generate(prompt, greedy));
  const saved = await lm.saveContext();
  const other = await CausalLM.load(folder.path, { threads: 1, cache });
  await other.restoreContext(saved);
  const heard = listen(other);
  const longer = [...prompt, ...wanted.slice(0, 5).map(({ token }) => token), 9, 9];
  expectSame(
    await tokensOf(other.generate(longer, greedy)),
    await tokensOf(fresh.generate(longer, greedy)),
    "restored",
  );
  expect(heard.read()).toBeLessThanOrEqual(3 + greedy.maxTokens);
  await Promise.all([lm.release(), fresh.release(), other.release()]);
});

test("a state goes back to a checkpoint, from a fork too, and to nothing", async () => {
  const { session, ...lm } = await loaded();
  const state = session.createState({ dims: { batch: 1, capacity: 64 } });
  const wanted = await lm.read(state, [5, 6, 7, 8]);
  const point = state.checkpoint();
  const behind = await lm.read(state, [9, 10]);
  expect(() => state.rewind(4)).toThrow(/has no rows to go back to: take a checkpoint of the state before/);
  const fork = state.fork();
  fork.goBack(point);
  expect(fork.lengths).toEqual([4]);
  expect(await lm.read(fork, [9, 10])).toEqual(behind);
  state.goBack(point);
  expect(await lm.read(state, [9, 10])).toEqual(behind);
  state.reset();
  expect(await lm.read(state, [5, 6, 7, 8])).toEqual(wanted);
  fork.reset();
  expect(() => fork.goBack(point)).toThrow(/checkpoint has \[4\] rows, the state \[0\]/);
  point.release();
  expect(() => state.goBack(point)).toThrow(/checkpoint was released/);
  await lm.release();
});

/** A session of the hybrid, and the last logits of tokens read on a state. */
async function loaded(): Promise<{
  session: CausalLM["session"];
  read: (
    state: ReturnType<CausalLM["session"]["createState"]>,
    tokens: readonly number[],
  ) => Promise<readonly number[]>;
  release: () => Promise<void>;
}> {
  const session = await InferenceSession.create(writeModel(hybridDecoder()), { threads: 1 });
  return {
    session,
    release: () => session.release(),
    async read(state, tokens) {
      const input = new Tensor("int64", BigInt64Array.from(tokens, BigInt), [1, tokens.length]);
      const all = state.lengths[0] + tokens.length;
      const mask = new Tensor("int64", new BigInt64Array(all).fill(1n), [1, all]);
      const { logits } = await session.run({ input_ids: input, attention_mask: mask }, { logits: null }, { state });
      return Array.from((logits.data as Float32Array).subarray(-256));
    },
  };
}

test("states are paired by what depends on them, whatever they are called; one that cannot be paired is told with the way out", async () => {
  const layers = ["conv", "recurrent", "attention", "conv", "recurrent"] as const;
  const prompt = Array.from({ length: 20 }, (_, at) => 40 + ((at * 7) % 80));
  const usual = hybridFolder({ layers });
  const wanted = await textIn(usual.path, prompt);
  usual.remove();
  for (const names of [
    (layer: number, kind: string) => [`${kind}_state_in.${layer}`, `${kind}_state_out.${layer}`],
    (layer: number, kind: string) => [`past_key_values.${layer}.${kind}_state`, `present.${layer}.${kind}_state`],
    (layer: number, kind: string) => [`state.${layer}.${kind}`, `new_state.${layer}.${kind}`],
  ] as const) {
    const own = hybridFolder({ layers, names: (...of) => names(...of) as [string, string] });
    expect(await textIn(own.path, prompt), names(0, "conv").join()).toEqual(wanted);
    own.remove();
  }
  const odd = hybridFolder({ names: (layer, kind) => [`${kind}_memory.${layer}`, `z${"q".repeat(layer + 1)}`] });
  await expect(CausalLM.load(odd.path, { threads: 1 })).rejects.toThrow(
    /input "conv_memory\.0" looks like a state, float32\[batch,32,3\], and no output is known .* "zq": name one, pairs: \{ "conv_memory\.0": "zq" \}/,
  );
  const pairs = { "conv_memory.0": "zq" };
  const lm = await CausalLM.load(odd.path, { threads: 1, pairs });
  expect((await tokensOf(lm.generate(prompt, greedy))).length).toBe(greedy.maxTokens);
  expect(lm.session.explain()).toMatch(
    /checkpoint +1\.4 KiB × batch: ".*" and 1 more have no rows to go back to; a text keeps 32 at most/,
  );
  await lm.release();
  odd.remove();
});

async function textIn(path: string, prompt: readonly number[]): Promise<number[]> {
  const lm = await CausalLM.load(path, { threads: 1 });
  const tokens = await tokensOf(lm.generate(prompt, greedy));
  await lm.release();
  return tokens.map(({ token }) => token);
}

test("a context past the rotary tables is refused when the model is loaded, with table, node and file", async () => {
  await expect(CausalLM.load(folder.path, { context: 5000 })).rejects.toThrow(
    /option context is 5000, and the rotary table "table_0" of GroupQueryAttention "node_attended_1" in ".*model\.onnx" has 1024 rows: ask for context: 1024 or less/,
  );
});
