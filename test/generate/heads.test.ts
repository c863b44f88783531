// Heads that guess for their model by its hidden states: what they guess is what a loop written for the test says, and texts are what they are without.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CausalLM, InferenceSession } from "../../src/entry/node.js";
import type { DraftHead } from "../../packages/heads/draft-head.js";
import { createServer } from "../../packages/serve/server.js";
import type { GenerateOptions } from "../../src/generate/options.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { noWebgpu } from "../support/backends.js";
import { type Counts, countTokens, expectSameDistribution } from "../support/chi-square.js";
import { insituHere } from "../support/command-line.js";
import { type HeadForm, headedDecoder, headedFolder, headModel } from "../support/head-models.js";
import { soak } from "../support/soak.js";
import { expectSameTokens, tokensOf } from "./support.js";

const prompts = ["The king", "a", "An old woman went into", "zzz", "1, 2, 3, 4", "so it was that"].slice(
  0,
  soak ? 6 : 2,
);
const forms: readonly (HeadForm & { readonly name: string })[] = [
  { name: "mtp" },
  { name: "mtp that guesses one token", chains: false },
  { name: "eagle3", kind: "eagle3" },
];
const folders = forms.map((form) => headedFolder(form));
const loaded: CausalLM[] = [];
const heads: DraftHead[] = [];
let models: Readonly<Record<"linear" | "paged" | "apart", CausalLM>>[];

beforeAll(async () => {
  models = [];
  for (const { path } of folders) {
    const linear = await CausalLM.load(path);
    const paged = await CausalLM.load(path, { cache: "paged", blockSize: 4, blocks: 96 });
    const apart = await CausalLM.load(path, { cache: "paged", blockSize: 4, blocks: 96, batchInvariant: true });
    models.push({ linear, paged, apart });
    loaded.push(linear, paged, apart);
  }
});
afterAll(async () => {
  for (const each of [...heads, ...loaded]) await each.release();
  for (const folder of folders) folder.remove();
});

const headOf = async (model: CausalLM): Promise<DraftHead> => {
  const head = await model.loadHead();
  heads.push(head);
  return head;
};

const integers = (list: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(list, BigInt), [1, list.length]);
const one = (count: number): Tensor => new Tensor("int64", BigInt64Array.of(BigInt(count)), [1]);
const likeliest = (row: Float32Array): number => row.reduce((best, x, at) => (x > row[best] ? at : best), 0);

/** A model that is asked for all of a text each time, on caches that are new each time. */
async function asker(bytes: Uint8Array) {
  const session = await InferenceSession.create(bytes, { backend: "reference" });
  return {
    async ask(tokens: readonly number[], beside: Readonly<Record<string, readonly Float32Array[]>> = {}) {
      const state = session.createState({ dims: { batch: 1, capacity: 128 } });
      const fed = Object.entries(beside).map(([name, rows]) => {
        const data = Float32Array.from(rows.flatMap((row) => [...row]));
        return [name, new Tensor("float32", data, [1, rows.length, rows[0].length])];
      });
      const feeds = {
        input_ids: integers(tokens),
        position_ids: integers(tokens.map((_, at) => at)),
        write_indices: one(0),
        nonpad_kv_seqlen: one(tokens.length),
        ...Object.fromEntries(fed),
      };
      const wanted = session.outputNames.filter((name) => !name.startsWith("present"));
      const results = await session.run(feeds, wanted, { state });
      state.release();
      return Object.fromEntries(
        wanted.map((name) => {
          const { data, dims } = results[name];
          const size = dims.at(-1)!;
          return [name, tokens.map((_, at) => (data as Float32Array).slice(at * size, (at + 1) * size))];
        }),
      );
    },
    release: () => session.release(),
  };
}

/** What was expected, by form and prompt. */
const known = new Map<string, ReturnType<typeof found>>();
const expected = (...[form, ...asked]: Parameters<typeof found>): ReturnType<typeof found> => {
  const key = JSON.stringify([form, ...asked]);
  known.set(key, known.get(key) ?? found(form, ...asked));
  return known.get(key)!;
};

/** Greedy text, and what a head guesses on the way: `count` tokens at a time. */
async function found(form: HeadForm, prompt: readonly number[], made: number, count: number) {
  const [target, head] = [await asker(writeModel(headedDecoder())), await asker(writeModel(headModel(form)))];
  const isEagle = form.kind === "eagle3";
  const [feedback, logits] = isEagle ? ["next_hidden", "draft_logits"] : ["hidden_states_out", "logits"];
  const text = [...prompt];
  const hidden: Float32Array[] = [];
  const tokens: number[] = [];
  let [guessed, right] = [0, 0];
  const next = async (): Promise<void> => {
    const told = await target.ask(text);
    hidden.push(told["hidden_states"].at(-1)!);
    tokens.push(likeliest(told["logits"].at(-1)!));
    text.push(tokens.at(-1)!);
  };
  await next();
  while (tokens.length < made) {
    const guesses: number[] = [];
    const own: Float32Array[] = [];
    // The last token of a text is never guessed behind.
    while (guesses.length < Math.min(form.chains === false ? 1 : count, made - tokens.length - 1)) {
      const zeros = new Float32Array(hidden[0].length);
      const beside: Record<string, readonly Float32Array[]> = isEagle
        ? {
            fused_hidden: [...hidden, ...own.map(() => zeros)],
            recycled_hidden: [...hidden.map(() => zeros), ...own],
          }
        : { hidden_states: [...hidden, ...own] };
      const told = await head.ask([...tokens, ...guesses], beside);
      guesses.push(likeliest(told[logits].at(-1)!));
      if (form.chains !== false) own.push(told[feedback].at(-1)!);
    }
    guessed += guesses.length;
    for (const guess of [...guesses, undefined]) {
      await next();
      if (guess !== tokens.at(-1)) break;
      right++;
    }
  }
  await target.release();
  await head.release();
  return { tokens, guessed, right };
}

describe.each(forms)("$name", (form) => {
  const at = forms.indexOf(form);

  test("guesses what it should, and greedy texts are no other", async () => {
    for (const kind of ["linear", "paged", "apart"] as const) {
      const model = models[at][kind];
      const head = await headOf(model);
      let all = 0;
      for (const prompt of prompts) {
        const wanted = await expected(form, model.tokenizer.encode(prompt), 20, 3);
        const options = { temperature: 0, maxTokens: 20, logprobs: 2, ignoreEnd: true };
        const plain = await tokensOf(model.generate(prompt, options));
        const guessed = model.generate(prompt, { ...options, speculate: { draft: head, tokens: 3, adaptive: false } });
        expectSameTokens(await tokensOf(guessed), plain, `${kind}, ${prompt}`);
        expect(plain.map(({ token }) => token)).toEqual(wanted.tokens);
        const { guessedTokens, rightGuesses } = guessed.summary;
        expect([guessedTokens, rightGuesses], `${kind}, ${prompt}`).toEqual([wanted.guessed, wanted.right]);
        all += rightGuesses;
      }
      expect(all).toBeGreaterThan(prompts.length * 2);
    }
  });

  test("sampled texts are no other", async () => {
    const model = models[at].apart;
    const head = await headOf(model);
    let right = 0;
    for (const [seed, prompt] of [...prompts, ...prompts].entries()) {
      const options: GenerateOptions = {
        temperature: 0.7,
        seed,
        maxTokens: 30,
        ignoreEnd: true,
        repetitionPenalty: 1.1,
      };
      const guessed = model.generate(prompt, {
        ...options,
        speculate: { draft: head, tokens: 2, adaptive: seed % 2 === 0 },
      });
      expect((await tokensOf(guessed)).map(({ token }) => token)).toEqual(
        (await tokensOf(model.generate(prompt, options))).map(({ token }) => token),
      );
      right += guessed.summary.rightGuesses;
    }
    expect(right).toBeGreaterThan(0);
  });
});

// A head on a GPU, beside the text of a model on a processor.
test.skipIf(noWebgpu !== undefined)("on a GPU, on linear caches and on pages", async () => {
  const options = { temperature: 0, maxTokens: 12, ignoreEnd: true };
  for (const cache of ["linear", "paged"] as const) {
    const model = await CausalLM.load(folders[0].path, { backend: "webgpu", cache });
    loaded.push(model);
    const head = await headOf(model);
    const guessed = model.generate(prompts[0], { ...options, speculate: { draft: head, tokens: 3, adaptive: false } });
    expect((await tokensOf(guessed)).map(({ token }) => token)).toEqual(
      (await tokensOf(models[0].linear.generate(prompts[0], options))).map(({ token }) => token),
    );
    expect(guessed.summary.guessedTokens).toBeGreaterThan(3);
    // Beside a text whose tokens the device draws.
    const draft = { draft: head, adaptive: false };
    const [one, two] = await Promise.all([
      model.generate(prompts[0], { ...options, speculate: draft }).text(),
      model.generate(prompts[1], options).text(),
    ]);
    expect([one, two]).toEqual([
      await models[0].linear.generate(prompts[0], options).text(),
      await models[0].linear.generate(prompts[1], options).text(),
    ]);
  }
});

// By counts, as tokens are drawn by other seeds without a head.
test.runIf(soak)(
  "sampled tokens are distributed as without guesses",
  async () => {
    const model = models[0].linear;
    const head = await headOf(model);
    const [counts, wanted]: [Counts, Counts] = [new Map(), new Map()];
    for (let seed = 0; seed < 5000; seed++) {
      const options = { temperature: 0.7, maxTokens: 10, ignoreEnd: true };
      const speculate = { draft: head, tokens: 3, adaptive: false };
      await countTokens(counts, model.generate(prompts[0], { ...options, seed, speculate }));
      await countTokens(wanted, model.generate(prompts[0], { ...options, seed: seed + 1_000_000 }));
    }
    expectSameDistribution(counts, wanted);
  },
  1_800_000,
);

test("batches, samples and chats", async () => {
  const model = models[0].apart;
  const head = await headOf(model);
  const options = { temperature: 0.8, seed: 3, maxTokens: 16, ignoreEnd: true };
  const speculate = { draft: head, adaptive: false, tokens: 3 };
  const made = async (given: GenerateOptions) => {
    const texts = prompts.map((): number[] => []);
    for await (const { sample, token } of model.generateBatch(prompts, given)) texts[sample].push(token);
    return texts;
  };
  expect(await made({ ...options, speculate })).toEqual(await made(options));
  const samples = async (given: GenerateOptions) =>
    Promise.all((await model.samples(prompts[0], 3, given)).map((sample) => sample.text()));
  expect(await samples({ ...options, speculate })).toEqual(await samples(options));
  const said = async (given: GenerateOptions) => {
    const chat = model.chat();
    return [await chat.send("One?", given).text(), await chat.send("Two?", given).text()];
  };
  expect(await said({ ...options, speculate })).toEqual(await said(options));
  expect(model.forServers.engine.texts.size).toBe(0);
});

test("the context's end, texts that are left, and a head that is gone", async () => {
  const model = models[0].linear;
  const head = await headOf(model);
  const draft = { draft: head, adaptive: false, tokens: 8 };
  const long = { temperature: 0, ignoreEnd: true };
  const plain = model.generate("The king", long);
  const guessed = model.generate("The king", { ...long, speculate: draft });
  expect([await guessed.text(), guessed.summary.finishReason]).toEqual([
    await plain.text(),
    plain.summary.finishReason,
  ]);
  const slid = { ...long, whenFull: "slide" as const, maxTokens: 160 };
  expect(await model.generate("The king", { ...slid, speculate: draft }).text()).toBe(
    await model.generate("The king", slid).text(),
  );
  for (let most = 0; most < 5; most++) {
    let count = 0;
    for await (const _ of model.generate("so", { ...long, speculate: draft })) if (++count > most * 3) break;
  }
  expect(model.forServers.engine.texts.size).toBe(0);
  const own = await model.loadHead();
  await own.release();
  expect(await model.generate("The king", { ...long, maxTokens: 20, speculate: { draft: own } }).text()).toBe(
    await model.generate("The king", { ...long, maxTokens: 20 }).text(),
  );
});

test("a server and the command line", async () => {
  const model = models[0].paged;
  const head = await headOf(model);
  const server = createServer(model, { draft: head, model: "headed" });
  await server.ready;
  const body = JSON.stringify({ model: "headed", prompt: "The king", max_tokens: 24, temperature: 0 });
  const headers = { "content-type": "application/json" };
  const answer = await server.fetch(new Request("http://localhost/v1/completions", { method: "POST", body, headers }));
  const { choices } = (await answer.json()) as { choices: { text: string }[] };
  const metrics = await (await server.fetch(new Request("http://localhost/metrics"))).text();
  expect(Number(/^insitu_guessed_tokens_total (\d+)$/m.exec(metrics)?.[1])).toBeGreaterThan(0);
  await server.close();
  const args = [
    "generate",
    "The king",
    "--model",
    folders[0].path,
    "--max-tokens",
    "24",
    "--temperature",
    "0",
    "--json",
  ];
  const [plain, guessed] = [await insituHere(args), await insituHere([...args, "--draft", "head"])];
  expect([plain.status, guessed.status]).toEqual([0, 0]);
  const texts = [plain, guessed].map(({ stdout }) => JSON.parse(stdout) as { text: string; guessedTokens: number });
  expect(texts[1].text).toBe(texts[0].text);
  expect(texts[1].text).toBe(choices[0].text);
  expect(texts[1].guessedTokens).toBeGreaterThan(0);
});

describe("refuses", () => {
  const refusal = async (form: HeadForm, options: Parameters<typeof headedFolder>[1]): Promise<string> => {
    const folder = headedFolder(form, options);
    const model = await CausalLM.load(folder.path);
    try {
      return await model.loadHead().then(
        () => "nothing",
        (error: Error) => error.message,
      );
    } finally {
      await model.release();
      folder.remove();
    }
  };
  test("a folder without a head, and models and heads that do not fit", async () => {
    expect(await refusal({}, { withHead: false })).toMatch(/has no head, mtp\.onnx, that guesses for the model/);
    expect(await refusal({}, { handsOut: false })).toMatch(/none of the hidden states that its head reads/);
    expect(await refusal({ size: 16 }, {})).toMatch(/"hidden_states" has 32 numbers a token, and its head reads 16/);
    expect(await refusal({ vocabulary: 64 }, {})).toMatch(
      /the head has 64 tokens in its vocabulary, the model has 256/,
    );
  });
  test("another model's head", async () => {
    const head = await headOf(models[0].linear);
    expect(() => models[0].paged.generate("x", { speculate: { draft: head } })).toThrow(/is the head of another model/);
    const server = createServer(models[0].paged, { draft: head });
    await expect(server.ready).rejects.toThrow(/is the head of another model/);
    await server.close();
  });
});
