// Folders in the hub's layout: decoders as exporters write them (Concat caches, attention_mask), with their tokenizer and templates.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { CausalLM } from "../../src/entry/node.js";
import type { GeneratedToken } from "../../src/generate/generation.js";
import { embedded, expectSameTokens, hubFolder, tokensOf } from "./support.js";

const template =
  "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
const greedy = { maxTokens: 12, temperature: 0, ignoreEnd: true } as const;

describe.each(["llama_op24", "llama_op20_q4", "gpt2_op24", "llama_op24_fp16"])("%s", (decoder) => {
  const folder = hubFolder(decoder, { "tokenizer_config.json": { chat_template: template, eos_token: "\u0100" } });
  let lm: CausalLM;
  let wanted: GeneratedToken[][];
  const prompts = ["ab", "abcdefgh", "Grimm"];
  beforeAll(async () => {
    lm = await CausalLM.load(folder.path);
    wanted = [];
    for (const prompt of prompts) wanted.push(await tokensOf(lm.generate(prompt, { ...greedy, logprobs: 2 })));
  });
  afterAll(async () => {
    await lm.release();
    folder.remove();
  });

  test("text comes out, the same in chunks, with guesses, and from the ONNX file itself", async () => {
    expect(wanted[1]).toHaveLength(12);
    const other = await CausalLM.load(join(folder.path, "onnx/model.onnx"), { chunk: 3, keep: 0 });
    for (const [index, prompt] of prompts.entries()) {
      expectSameTokens(await tokensOf(other.generate(prompt, greedy)), wanted[index], `chunks, prompt ${index}`);
      const guessed = await tokensOf(
        other.generate(prompt, { ...greedy, speculate: { ngram: 2, draft: 3, adaptive: false } }),
      );
      expectSameTokens(guessed, wanted[index], `guesses, prompt ${index}`);
    }
    await other.release();
  });

  test("a batch is padded at the front", async () => {
    const made: GeneratedToken[][] = prompts.map(() => []);
    for await (const token of lm.generateBatch(prompts, greedy)) made[token.sample].push(token);
    made.forEach((tokens, index) => expectSameTokens(tokens, wanted[index], `batch, prompt ${index}`));
  });

  test("messages go through the template, and turns reuse what was read", async () => {
    const chat = lm.chat([{ role: "system", content: "s" }], { ...greedy, maxTokens: 4 });
    const first = await chat.send("hi").text();
    const reply = chat.send("you");
    const made = await tokensOf(reply);
    const prompt = `<system>s\n<user>hi\n<assistant>${first}\n<user>you\n<assistant>`;
    const alone = await tokensOf(lm.generate(prompt, { ...greedy, maxTokens: 4, logprobs: 2 }));
    expectSameTokens(made, alone, "chat");
    expect(reply.summary.reusedTokens).toBeGreaterThan(20);
    chat.release();
  });

  test("a full context stops, refuses, or slides", async () => {
    const small = await CausalLM.load(folder.path, { context: 16, sinks: 2 });
    const stopped = small.generate("abcdefgh", { temperature: 0, ignoreEnd: true });
    expect([(await tokensOf(stopped)).length, stopped.summary.finishReason]).toEqual([9, "context"]);
    await expect(
      small.generate("abcdefgh", { temperature: 0, ignoreEnd: true, whenFull: "error" }).text(),
    ).rejects.toThrow(/context of 16 tokens is full/);
    const slid = small.generate("abcdefgh", { ...greedy, whenFull: "slide", maxTokens: 40 });
    expect(await tokensOf(slid)).toHaveLength(40);
    expectSameTokens(
      await tokensOf(small.generate("abcdefgh", { ...greedy, maxTokens: 9 })),
      wanted[1].slice(0, 9),
      "after sliding",
    );
    await small.release();
  });
});

describe("what a folder must have", () => {
  const refusal = async (path: string, options = {}): Promise<string> => {
    try {
      await (await CausalLM.load(path, options)).release();
    } catch (error) {
      expect(error).toBeInstanceOf(InsituError);
      return (error as Error).message;
    }
    return "nothing was refused";
  };

  test("a tokenizer, a decoder, JSON that is JSON", async () => {
    const folder = hubFolder("llama_op24");
    const { path } = folder;
    expect(await refusal(path, { variant: "q4" })).toMatch(/has no model_q4\.onnx$/);
    writeFileSync(join(path, "config.json"), "{");
    expect(await refusal(path)).toMatch(/config\.json is not JSON/);
    writeFileSync(join(path, "config.json"), "[]");
    expect(await refusal(path)).toMatch(/config\.json must hold a JSON object/);
    writeFileSync(join(path, "config.json"), Uint8Array.of(0xff, 0xfe));
    expect(await refusal(path)).toMatch(/config\.json is not UTF-8 text/);
    rmSync(join(path, "config.json"));
    expect(await refusal(path)).toBe("nothing was refused");
    writeFileSync(join(path, "tokenizer.json"), '{"model":{"type":"Nonsense"}}');
    expect(await refusal(path)).toMatch(/the tokenizer cannot be created from tokenizer\.json/);
    rmSync(join(path, "tokenizer.json"));
    expect(await refusal(path)).toMatch(/has no tokenizer\.json, which turns text into tokens/);
    rmSync(join(path, "onnx"), { recursive: true });
    expect(await refusal(path)).toMatch(/holds no language model/);
    expect(await refusal(join(path, "nowhere"))).toMatch(/there is nothing at ".*nowhere"/);
    folder.remove();
  });

  test("a template that can be read, where messages are given", async () => {
    const broken = hubFolder("llama_op24", { "tokenizer_config.json": { chat_template: "{% for %}" } });
    expect(await refusal(broken.path)).toMatch(/the chat template cannot be read/);
    broken.remove();
    const refusing = hubFolder("llama_op24", { "chat_template.jinja": "{{ raise_exception('only users') }}" });
    const lm = await CausalLM.load(refusing.path);
    expect(() => lm.generate([{ role: "user", content: "x" }])).toThrow(
      /the chat template refuses the messages: .*only users/,
    );
    expect(() => lm.generate("")).toThrow(/the prompt is empty/);
    expect(() => lm.generate([])).toThrow(/the prompt is empty/);
    expect(() => lm.generate([97, -1])).toThrow(/a prompt's tokens must be whole numbers from 0 on, got -1/);
    expect(() => lm.generate([1.5])).toThrow(/got 1\.5/);
    expect(() => lm.generate(undefined!)).toThrow(/a prompt is text, messages or tokens, got undefined/);
    expect(() => lm.generate("a\uD800")).toThrow(/the text is not valid Unicode/);
    expect(() => lm.generate("x".repeat(129))).toThrow(/the prompt has 129 tokens, the context holds 128/);
    expect(() => lm.generate("x", { stopTokens: ["<nothing>"] })).toThrow(/"<nothing>" is no token/);
    expect(() => lm.generate("x", { stop: "" })).toThrow(/stop must hold strings that are not empty/);
    expect(() => lm.generate("x", { maxTokens: -1 })).toThrow(/maxTokens must be a whole number from 0 on, got -1/);
    await lm.release();
    refusing.remove();
  });

  test("the embedded one is such a folder", async () => {
    const lm = await CausalLM.load(embedded);
    expect(await lm.generate("The", { maxTokens: 2, temperature: 0 }).text()).not.toBe("");
    await lm.release();
  });
});
