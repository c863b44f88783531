// Files with a mistake anywhere in them, and options of every wrong kind: each either works or is an InsituError that says what is wrong.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { CausalLM } from "../../src/entry/node.js";
import { TextTokenizer } from "../../src/generate/tokenizer.js";
import { seededRandom } from "../../src/graph/call.js";
import { hubFolder } from "./support.js";
import { tokenizerStyles } from "./tokenizer-styles.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 8_080_123);

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** What may stand where something else should. */
const garbage: readonly (Json | undefined)[] = [
  undefined,
  null,
  true,
  0,
  -1,
  1.5,
  1e300,
  "",
  "x",
  "(a+)+$",
  [],
  [null],
  ["a", 1],
  {},
  { type: "Sequence" },
  { Regex: "(" },
  { content: 5 },
];

/** The places in a value: the whole, each item, each field; of long lists and objects only the first few. */
function* placesIn(value: Json, path: readonly (string | number)[] = []): Generator<readonly (string | number)[]> {
  yield path;
  if (typeof value !== "object" || value === null) return;
  for (const [name, inner] of Object.entries(value).slice(0, 12)) yield* placesIn(inner, [...path, name]);
}

/** A copy with something else at one place. */
function changed(value: Json, path: readonly (string | number)[], by: Json | undefined): Json | undefined {
  if (path.length === 0) return by;
  const [name, ...rest] = path;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string, Json | undefined>;
  copy[name] = changed(copy[name] as Json, rest, by);
  if (copy[name] === undefined) delete copy[name];
  return copy as Json;
}

/** Runs something that either works or throws an InsituError. */
async function worksOrRefuses(what: string, work: () => unknown): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!(error instanceof InsituError) || error.code === "internal")
      expect.fail(`${what}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    return false;
  }
}

/** A tokenizer of all parts that there are. */
const everyPart: { readonly [name: string]: Json } = {
  version: "1.0",
  added_tokens: [{ id: 9, content: "<|end|>", special: true, normalized: false, lstrip: true, rstrip: true }],
  normalizer: {
    type: "Sequence",
    normalizers: [
      { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
      { type: "Replace", pattern: { Regex: " {2,}" }, content: " " },
      { type: "Replace", pattern: { String: "q" }, content: "a" },
      { type: "Strip", strip_left: true, strip_right: true },
      { type: "Prepend", prepend: " " },
      { type: "NFC" },
      { type: "Lowercase" },
    ],
  },
  pre_tokenizer: {
    type: "Sequence",
    pretokenizers: [
      { type: "Split", pattern: { Regex: "\\s+" }, behavior: "Isolated", invert: false },
      { type: "Digits", individual_digits: true },
      { type: "Punctuation" },
      { type: "Replace", pattern: { String: "z" }, content: "a" },
      { type: "FixedLength", length: 4 },
      { type: "Metaspace", replacement: "▁", prepend_scheme: "never" },
    ],
  },
  post_processor: {
    type: "Sequence",
    processors: [
      { type: "ByteLevel" },
      {
        type: "TemplateProcessing",
        single: [{ SpecialToken: { id: "<|end|>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
        pair: [],
        special_tokens: {},
      },
    ],
  },
  decoder: {
    type: "Sequence",
    decoders: [
      { type: "Replace", pattern: { String: "▁" }, content: " " },
      { type: "ByteFallback" },
      { type: "Fuse" },
      { type: "Strip", content: " ", start: 1, stop: 0 },
    ],
  },
  model: {
    type: "BPE",
    unk_token: "a",
    fuse_unk: false,
    byte_fallback: false,
    end_of_word_suffix: null,
    vocab: { a: 0, b: 1, ab: 2, "▁": 3, "1": 4, ".": 5 },
    merges: [["a", "b"]],
  },
};

const models: readonly Json[] = [
  {
    type: "Unigram",
    unk_id: 0,
    vocab: [
      ["a", -1],
      ["b", -2],
      ["▁", -3],
    ],
  },
  {
    type: "WordPiece",
    unk_token: "a",
    continuing_subword_prefix: "##",
    max_input_chars_per_word: 100,
    vocab: { a: 0, "##b": 1 },
  },
  { type: "WordLevel", unk_token: "a", vocab: { a: 0, b: 1 } },
  { type: "BPE", unk_token: null, vocab: { a: 0, b: 1, ab: 2 }, merges: ["a b"], ignore_merges: true },
];
const decoders: readonly Json[] = [
  { type: "WordPiece", prefix: "##", cleanup: true },
  { type: "Metaspace", replacement: "▁" },
  { type: "BPEDecoder", suffix: "</w>" },
  { type: "CTC", pad_token: "<pad>", word_delimiter_token: "|", cleanup: true },
  { type: "ByteLevel" },
];
const postProcessors: readonly Json[] = [
  { type: "BertProcessing", sep: ["<|end|>", 9], cls: ["a", 0] },
  { type: "RobertaProcessing", sep: ["<|end|>", 9], cls: ["a", 0] },
];

const config: { readonly [name: string]: Json } = {
  bos_token: "<|end|>",
  eos_token: { content: "<|end|>" },
  additional_special_tokens: ["<|end|>"],
  remove_space: true,
  do_lowercase_and_remove_accent: true,
  chat_template: [{ name: "default", template: "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}" }],
};

/** Uses a tokenizer for all that it is for; its tokens must be tokens. */
async function use(tokenizer: Json | undefined, configuration: Json | undefined): Promise<void> {
  const loaded = await TextTokenizer.load({
    tokenizer: tokenizer as object,
    config: configuration as Readonly<Record<string, unknown>>,
  });
  for (const text of ["", " ab  b1.a<|end|> q\u00e9", "a".repeat(50)]) {
    for (const controlTokens of ["read", "plain"] as const) {
      const tokens = loaded.encode(text, { controlTokens });
      for (const token of tokens)
        expect(Number.isSafeInteger(token) && token >= 0, `token ${String(token)}`).toBe(true);
      expect(typeof loaded.decode(tokens)).toBe("string");
    }
  }
  expect(typeof loaded.decode([0, 1, 5_000_000, 9])).toBe("string");
  if (loaded.hasChatTemplate) loaded.encodeChat([{ role: "user", content: "ab<|end|>" }]);
  expect(["number", "undefined"]).toContain(typeof loaded.endToken);
}

describe("tokenizer.json and tokenizer_config.json with something else at one place", () => {
  const files: Readonly<Record<string, Json>> = {
    "every part": everyPart,
    ...Object.fromEntries(models.map((model, at) => [`model ${at}`, { ...everyPart, pre_tokenizer: null, model }])),
    ...Object.fromEntries(decoders.map((decoder, at) => [`decoder ${at}`, { ...everyPart, decoder }])),
    ...Object.fromEntries(postProcessors.map((each, at) => [`around ${at}`, { ...everyPart, post_processor: each }])),
  };
  test.each(Object.entries(files))("%s", async (name, file) => {
    await use(file, config);
    const random = seededRandom(seed);
    let [worked, refused] = [0, 0];
    for (const path of placesIn(file))
      for (const by of garbage) {
        if (path.length === 0 || (!soak && random() < 0.93)) continue;
        const what = `${name}: ${JSON.stringify(by)} at ${path.join(".")}`;
        if (await worksOrRefuses(what, () => use(changed(file, path, by), config))) worked++;
        else refused++;
      }
    expect(Math.min(worked, refused)).toBeGreaterThan(3);
  });

  test("tokenizer_config.json", async () => {
    const random = seededRandom(seed);
    for (const path of placesIn(config))
      for (const by of garbage) {
        if (path.length === 0 || (!soak && random() < 0.75)) continue;
        const what = `${JSON.stringify(by)} at ${path.join(".")}`;
        await worksOrRefuses(what, () => use(everyPart, changed(config, path, by)));
      }
  });

  test("the message names the place", async () => {
    const cases: readonly (readonly [readonly (string | number)[], Json, RegExp])[] = [
      [
        ["pre_tokenizer", "pretokenizers", 4, "length"],
        0,
        /pre_tokenizer\.pretokenizers\[4\]\.length must be a whole number from 1/,
      ],
      [["model", "vocab", "ab"], "2", /model\.vocab\["ab"\] must be a whole number from 0/],
      [["added_tokens", 0, "content"], 5, /added_tokens\[0\]\.content must be text, got 5/],
      [["normalizer", "normalizers", 1, "pattern", "Regex"], "(a)\\1", /refers back to a group/],
      [["decoder", "decoders", 0, "type"], "Nothing", /decoder\.decoders\[0\]\.type must be one of ByteLevel, /],
    ];
    for (const [path, by, message] of cases)
      await expect(use(changed(everyPart, path, by), config)).rejects.toThrow(message);
    await expect(use(everyPart, { ...config, chat_template: [null] })).rejects.toThrow(/chat_template must be text/);
  });
});

test("a tokenizer whose parts cost too much is refused, or used within bounds", async () => {
  const part = (parts: object): Json => ({ ...everyPart, pre_tokenizer: null, ...parts }) as Json;
  const doubling = Array.from({ length: 60 }, () => ({ type: "Replace", pattern: { String: "a" }, content: "aa" }));
  const evil: Readonly<Record<string, Json>> = {
    "a normaliser that doubles": part({ normalizer: { type: "Sequence", normalizers: doubling } }),
    "a decoder that doubles": part({ decoder: { type: "Sequence", decoders: doubling } }),
    "an added token that a normaliser chokes on": part({
      normalizer: { type: "Replace", pattern: { Regex: "(a+)+$" }, content: "" },
      added_tokens: [{ id: 9, content: `${"a".repeat(40)}!`, special: false, normalized: true }],
    }),
    "a split that chokes": part({
      pre_tokenizer: { type: "Split", pattern: { Regex: "(a|a)*$|(x+x+)+y" }, behavior: "Removed", invert: false },
    }),
    "more parts than there are": part({
      normalizer: { type: "Sequence", normalizers: Array.from({ length: 2_000 }, () => ({ type: "NFC" })) },
    }),
    "parts in parts": part({
      normalizer: Array.from({ length: 500 }).reduce<object>((inner) => ({ type: "Sequence", normalizers: [inner] }), {
        type: "NFC",
      }),
    }),
    "words without end": part({
      model: { type: "WordPiece", unk_token: "a", vocab: { a: 0 }, max_input_chars_per_word: 1e9 },
    }),
    "a piece without end": part({
      model: {
        type: "Unigram",
        unk_id: 0,
        vocab: [
          ["a", 0],
          ["a".repeat(1e5), 0],
        ],
      },
    }),
    "a token without end": part({ added_tokens: [{ id: 9, content: "a".repeat(1e5), special: true }] }),
  };
  for (const [name, file] of Object.entries(evil))
    await worksOrRefuses(name, async () => {
      const tokenizer = await TextTokenizer.load({ tokenizer: file as object });
      const tokens = tokenizer.encode(`${"a".repeat(3_000)}!`);
      tokenizer.decode(tokens);
    });
});

const folder = hubFolder("llama_op24", {
  "tokenizer_config.json": { chat_template: "{% for m in messages %}{{ m.content }}{% endfor %}" },
  "generation_config.json": { do_sample: true, temperature: 1, top_k: 5, top_p: 0.9, eos_token_id: [0] },
});
let lm: CausalLM;
beforeAll(async () => {
  lm = await CausalLM.load(folder.path, { threads: 1, context: 12 });
});
afterAll(async () => {
  await lm.release();
  folder.remove();
});

test("config.json and generation_config.json with something else at one place", async () => {
  for (const name of ["config.json", "generation_config.json"]) {
    const path = join(folder.path, name);
    const file = JSON.parse(readFileSync(path, "utf8")) as Json;
    const random = seededRandom(seed);
    let [worked, refused] = [0, 0];
    for (const place of placesIn(file))
      for (const by of garbage) {
        if (!soak && random() < 0.91) continue;
        const given = changed(file, place, by);
        writeFileSync(path, given === undefined ? "{ not JSON" : JSON.stringify(given));
        const what = `${name}: ${JSON.stringify(by)} at ${place.join(".")}`;
        const works = await worksOrRefuses(what, async () => {
          const model = await CausalLM.load(folder.path, { threads: 1, backend: "reference" });
          try {
            if (soak) await model.generate("ab", { maxTokens: 1 }).text();
            else model.generate("ab", { maxTokens: 1 });
          } finally {
            await model.release();
          }
        });
        if (works) worked++;
        else refused++;
      }
    writeFileSync(path, JSON.stringify(file));
    expect(worked + refused, name).toBeGreaterThan(3);
    if (soak) expect(Math.min(worked, refused), name).toBeGreaterThan(3);
  }
});

/** What callers without types give. */
const wrong: readonly unknown[] = [
  null,
  NaN,
  -1,
  1.5,
  Infinity,
  2 ** 40,
  1n,
  "",
  "x",
  true,
  false,
  [],
  [null],
  {},
  () => 1,
  Symbol("s"),
  new Date(),
  new Uint8Array(2),
];

const optionNames = [
  ..."temperature topK topP minP repetitionPenalty presencePenalty frequencyPenalty seed maxTokens stop stopTokens ignoreEnd".split(
    " ",
  ),
  ..."logprobs whenFull speculate signal templateOptions controlTokens beams lengthPenalty".split(" "),
];

/** JavaScript's view of the model: no types stand in the way. */
const untyped = (): Record<string, (...given: unknown[]) => unknown> =>
  ({
    generate: async (prompt: unknown, options: unknown) => lm.generate(prompt as string, options as object).text(),
    generateBatch: async (prompts: unknown, options: unknown) => {
      for await (const token of lm.generateBatch(prompts as string[], options as object)) void token;
    },
    samples: async (prompt: unknown, count: unknown, options: unknown) => {
      for (const text of await lm.samples(prompt as string, count as number, options as object)) await text.text();
    },
    beamSearch: (prompt: unknown, options: unknown) => lm.beamSearch(prompt as string, options as object),
    chat: async (opening: unknown, options: unknown, content: unknown, more: unknown) => {
      const chat = lm.chat(opening as [], options as object);
      try {
        await chat.send(content as string, more as object).text();
      } finally {
        chat.release();
      }
    },
  }) as Record<string, (...given: unknown[]) => unknown>;

describe("options and arguments of the wrong kind", () => {
  test.each(optionNames)("%s", async (name) => {
    const calls = untyped();
    for (const value of wrong) {
      const options = { maxTokens: 1, [name]: value };
      const what = `${name}: ${String(value)}`;
      await worksOrRefuses(what, () => calls["generate"]("ab", options));
      await worksOrRefuses(what, () => calls["generateBatch"](["ab", "c"], options));
      await worksOrRefuses(what, () => calls["samples"]("ab", 2, options));
      await worksOrRefuses(what, () => calls["beamSearch"]("ab", { beams: 2, ...options }));
      await worksOrRefuses(what, () => calls["chat"]([], options, "ab", {}));
      await worksOrRefuses(what, () => calls["chat"]([], {}, "ab", options));
    }
    // What is null was left out.
    const left = { maxTokens: 2, seed: 1 };
    if (!["maxTokens", "seed"].includes(name))
      expect(await calls["generate"]("ab", { ...left, [name]: null })).toBe(await calls["generate"]("ab", left));
  });

  test("prompts, counts, openings, messages, whole options", async () => {
    const calls = untyped();
    const few = { maxTokens: 1 };
    const tokens = [[NaN], [1.5], [-1], [1, "a"], [1n], [256], [2 ** 40], [Infinity], [undefined], new Array(3)];
    const messages = [
      { role: "user" },
      { role: 5, content: "a" },
      { content: "a" },
      { role: "user", content: 5 },
      { role: "user", content: ["a"] },
      { role: "user", content: [{ type: "text", text: "a" }] },
      { role: "user", content: null },
      { role: "assistant", content: null, tool_calls: [] },
      [],
    ];
    for (const value of [...wrong, ...tokens, ...messages.map((message) => [message])]) {
      const what =
        typeof value === "symbol"
          ? "a symbol"
          : (JSON.stringify(value, (_, each) => (typeof each === "bigint" ? "bigint" : (each as unknown))) ?? "?");
      await worksOrRefuses(what, () => calls["generate"](value, few));
      await worksOrRefuses(what, () => calls["generate"]("a", value));
      await worksOrRefuses(what, () => calls["generateBatch"](value, few));
      await worksOrRefuses(what, () => calls["generateBatch"]([value], few));
      await worksOrRefuses(what, () => calls["generateBatch"](["a"], value === null ? { ...few } : value));
      await worksOrRefuses(what, () => calls["samples"](value, 1, few));
      await worksOrRefuses(what, () => calls["samples"]("a", value, few));
      await worksOrRefuses(what, () => calls["beamSearch"](value, few));
      await worksOrRefuses(what, () => calls["chat"](value, few, "a"));
      await worksOrRefuses(what, () => calls["chat"]([], value, "a", few));
      await worksOrRefuses(what, () => calls["chat"]([], few, value));
    }
    for (const message of messages)
      await worksOrRefuses(JSON.stringify(message), () => calls["chat"]([], few, message));
  });

  const sayings: readonly (readonly [string, () => unknown, RegExp])[] = [
    ["stop", () => lm.generate("a", { stop: 5 as never }), /stop must hold strings that are not empty, got 5/],
    ["stopTokens", () => lm.generate("a", { stopTokens: 5 as never }), /stopTokens must be a list of tokens/],
    ["signal", () => lm.generate("a", { signal: {} as never }), /signal must be an AbortSignal, got an object/],
    ["a token that is none", () => lm.generate([1, NaN]), /tokens must be whole numbers from 0 on, got NaN at 1/],
    [
      "a message without content",
      () => lm.chat().send({ role: "user" } as never),
      /message 0 must have content that is text/,
    ],
    ["options that are none", () => lm.generate("a", 5 as never), /the options of generate must be an object, got 5/],
  ];
  test.each(sayings)("%s, in one sentence", (_, work, message) => {
    expect(work).toThrow(message);
    expect(work).toThrow(InsituError);
  });

  test("a token beyond the vocabulary", async () => {
    expect(() => lm.generate([1, 256], { maxTokens: 1 })).toThrow(InsituError);
    // Nothing is left of it.
    expect(await lm.generate("ab", { maxTokens: 2, temperature: 0 }).text()).toHaveLength(2);
  });

  const loadNames =
    "context chunk sinks variant chatTemplate keep cache cacheType blockSize blocks backend threads inPlace rewrite hub onProgress".split(
      " ",
    );
  test.each(loadNames)("load: %s", async (name) => {
    for (const value of soak ? wrong : [null, NaN, -1, 2 ** 40, "x", {}]) {
      // A symbol cannot be said in the session's own errors.
      if (typeof value === "symbol" && ["backend", "threads", "inPlace", "rewrite"].includes(name)) continue;
      // Values that only ask for much are not wrong.
      if (value === Infinity && name === "threads") continue;
      const options = { threads: 1, backend: "reference", context: 16, [name]: value } as object;
      await worksOrRefuses(`${name}: ${String(value)}`, async () =>
        (await CausalLM.load(folder.path, options)).release(),
      );
    }
  });

  test("load: the source and the whole options", async () => {
    for (const value of wrong) {
      if (value === null) continue; // the model that comes with the package
      const what = `a ${typeof value}`;
      await worksOrRefuses(what, async () => (await CausalLM.load(value as string)).release());
      await worksOrRefuses(what, async () => (await CausalLM.load(folder.path, value as object)).release());
    }
  });

  test("what was saved, in pieces", async () => {
    await lm.generate("abc", { maxTokens: 1 }).text();
    const bytes = await lm.saveContext();
    for (const value of [
      ...wrong,
      bytes.slice(0, 3),
      bytes.slice(0, 20),
      bytes.slice(0, -1),
      new Uint8Array(64).fill(255),
    ])
      await worksOrRefuses("restoreContext", () => lm.restoreContext(value as Uint8Array));
    await lm.restoreContext(bytes);
    expect(await lm.generate("abcd", { maxTokens: 2, temperature: 0 }).text()).toBe(
      await lm.generate("abcd", { maxTokens: 2, temperature: 0 }).text(),
    );
  });

  test("the tokenizer's own methods", async () => {
    const { tokenizer } = lm;
    for (const value of wrong) {
      await worksOrRefuses("encode", () => tokenizer.encode(value as string));
      await worksOrRefuses("encode", () => tokenizer.encode("a", value as object));
      await worksOrRefuses("decode", () => tokenizer.decode(value as number[]));
      await worksOrRefuses("decode", () => tokenizer.decode([value as number]));
      await worksOrRefuses("encodeChat", () => tokenizer.encodeChat(value as []));
      await worksOrRefuses("encodeChat", () => tokenizer.encodeChat([value as never]));
      await worksOrRefuses("renderChat", () => tokenizer.renderChat(value as []));
      await worksOrRefuses("renderChat", () => tokenizer.renderChat([], value as Record<string, unknown>));
      await worksOrRefuses("tokenOf", () => tokenizer.tokenOf(value as string));
      await worksOrRefuses("spellingOf", () => tokenizer.spellingOf(value as number));
    }
  });
});

test("content in parts goes to the template as it is", async () => {
  const template =
    "{% for m in messages %}{% for part in m.content %}[{{ part.type }}:{{ part.text }}]{% endfor %}{% endfor %}";
  const tokenizer = await TextTokenizer.load({
    tokenizer: tokenizerStyles["Qwen"],
    config: { chat_template: template },
  });
  const parts = [{ type: "image" }, { type: "text", text: "what?" }];
  expect(tokenizer.renderChat([{ role: "user", content: parts }])).toBe("[image:][text:what?]");
});
