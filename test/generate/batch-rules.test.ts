// Rules for the texts of a batch: structured output, biases and sliding contexts hold for each text as where it is made alone, on linear caches, on pages and on a device; one
// constraint is for one text. The oracle is JSON's own reader, the pattern, and the text alone with its seed. The device is for the soak.
import { afterAll, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import type { GenerateOptions } from "../../src/generate/options.js";
import { noWebgpu } from "../support/backends.js";
import { soak } from "../support/soak.js";

const prompts = ["The animal:", "A wolf, a fox and", "Once upon a time there was a king who had three sons:"];
const animal = {
  type: "object",
  properties: { kind: { enum: ["wolf", "fox"] }, age: { type: "integer", minimum: 1, maximum: 9 } },
  required: ["kind", "age"],
  additionalProperties: false,
};

const ways: Readonly<Record<string, Parameters<typeof CausalLM.load>[1]>> = {
  "linear caches": { context: 128, threads: 1 },
  pages: { context: 128, threads: 1, cache: "paged", blockSize: 4, blocks: 96, batchInvariant: true },
  ...(soak && noWebgpu === undefined ? { "a device": { context: 128, backend: "webgpu" } } : {}),
};
const loaded = new Map<string, Promise<CausalLM>>();
const modelOf = (way: string): Promise<CausalLM> => {
  const model = loaded.get(way) ?? CausalLM.load(undefined, ways[way]);
  loaded.set(way, model);
  return model;
};
afterAll(async () => {
  for (const model of loaded.values()) await (await model).release();
});

/** The batch's texts, and why each ended. */
async function batchOf(lm: CausalLM, options: GenerateOptions): Promise<(readonly [string, string | undefined])[]> {
  const made = prompts.map((): [string, string | undefined] => ["", undefined]);
  for await (const { sample, text, finishReason } of lm.generateBatch(prompts, options)) {
    made[sample][0] += text;
    made[sample][1] = finishReason;
  }
  return made;
}

describe.each(Object.keys(ways))("on %s", (way) => {
  test("each text obeys the schema, and ends by itself", async () => {
    const lm = await modelOf(way);
    for (const seed of [1, 2]) {
      const made = await batchOf(lm, { jsonSchema: animal, temperature: 1.2, seed, stop: ["wolf"] });
      for (const [text, reason] of made) {
        const { kind, age, ...others } = JSON.parse(text) as Record<string, unknown>;
        expect([
          ["wolf", "fox"].includes(kind as string),
          (age as number) >= 1 && (age as number) <= 9,
          others,
          reason,
        ]).toEqual([true, true, {}, "end"]);
      }
    }
  });

  test("patterns and grammars rule each text for itself", async () => {
    const lm = await modelOf(way);
    for (const [text] of await batchOf(lm, { regex: "[a-z ]{4,30}\\.", seed: 3 }))
      expect(text).toMatch(/^[a-z ]{4,30}\.$/);
    const grammar = 'root ::= ("yes" | "no") (", " root)? "!"';
    for (const [text, reason] of await batchOf(lm, { grammar, seed: 4, maxTokens: 40 }))
      if (reason === "end") expect(text).toMatch(/^(yes|no)(, (yes|no))*!+$/);
  });

  test("biases move what is drawn, and log-probabilities stay the model's", async () => {
    const lm = await modelOf(way);
    const [digit] = lm.tokenizer.encode("7");
    const options = { temperature: 0, regex: "[0-9]{3}", logitBias: new Map([[digit, 60]]), logprobs: 1 } as const;
    const made = await batchOf(lm, options);
    expect(made.map(([text]) => text)).toEqual(["777", "777", "777"]);
    for await (const { logprob } of lm.generateBatch(prompts, { ...options, maxTokens: 2 }))
      expect(logprob).toBeLessThan(-0.1);
  });
});

test("texts of a batch are those that are made alone with their seeds", async () => {
  const lm = await modelOf("pages");
  const options = {
    jsonSchema: { type: "array", items: { type: "string", maxLength: 8 }, maxItems: 4 },
    temperature: 1,
  };
  const made = await batchOf(lm, { ...options, seed: 11 });
  for (const [at, prompt] of prompts.entries())
    expect(await lm.generate(prompt, { ...options, seed: 11 + at }).text()).toBe(made[at][0]);
});

test.each([{}, { cache: "paged", blockSize: 4, batchInvariant: true }] as const)(
  "texts that go on when their contexts are full are those that are made alone: %o",
  async (options) => {
    const lm = await CausalLM.load(undefined, { context: 48, threads: 1, ...options });
    const how = { whenFull: "slide", maxTokens: 70, ignoreEnd: true, temperature: 0.8, seed: 2 } as const;
    const made = await batchOf(lm, how);
    for (const [at, prompt] of prompts.entries())
      expect([await lm.generate(prompt, { ...how, seed: 2 + at }).text(), "length"]).toEqual(made[at]);
    await lm.release();
  },
);

test("biases and stop tokens of tokens that there are not are refused", async () => {
  const lm = await modelOf("pages");
  const refused = /is no token of the vocabulary, which has 4096/;
  expect(() => lm.generate("a", { logitBias: new Map([[4096, 1]]) })).toThrow(/^option logitBias: 4096 /);
  expect(() => lm.generateBatch(["a"], { stopTokens: [7, 5000] })).toThrow(refused);
  await expect(lm.samples("a", 2, { stopTokens: [5000] })).rejects.toThrow(refused);
});

test("a batch that is left in the middle lets go of its rules", async () => {
  const lm = await modelOf("linear caches");
  for (let round = 0; round < 3; round++) {
    for await (const _ of lm.generateBatch(prompts, { jsonSchema: animal, seed: round })) break;
    const stop = new AbortController();
    const reading = (async () => {
      for await (const _ of lm.generateBatch(prompts, { jsonSchema: animal, signal: stop.signal }))
        stop.abort(new Error("enough"));
    })();
    await expect(reading).rejects.toThrow("enough");
  }
  expect(JSON.parse((await batchOf(lm, { jsonSchema: animal, seed: 5 }))[2][0])).toHaveProperty("age");
});

test("a constraint of one's own is for one text; a rule that cannot be enforced ends the batch with its reason", async () => {
  const lm = await modelOf("linear caches");
  const held = await lm.constrain({ kind: "regex", pattern: "ab" });
  const constraint = { constraint: held };
  expect(() => lm.generateBatch(prompts, constraint)).toThrow(
    /one constraint follows one text, and generateBatch makes 3/,
  );
  await expect(lm.samples(prompts[0], 2, constraint)).rejects.toThrow(
    /one constraint follows one text, and samples makes 2/,
  );
  let text = "";
  for await (const step of lm.generateBatch([prompts[0]], constraint)) text += step.text;
  expect(text).toBe("ab");
  held.release();
  await expect(batchOf(lm, { regex: "(" })).rejects.toThrow(/regular expression/);
});
