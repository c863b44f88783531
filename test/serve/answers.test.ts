// Answers of a model without a chat template: whole where they are kept to a schema, whatever stop strings there are, and never empty. By the
// official clients, by the wire and by the library. The tests have some seeds, and the soak more.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject } from "ai";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { listen, type Listening } from "../../packages/cli/listen.js";
import type { CausalLM } from "../../src/entry/node.js";
import type { ChatOptions } from "../../src/generate/chat-options.js";
import { oneAtATime } from "../../packages/serve/one-at-a-time.js";
import { createServer, type Server } from "../../packages/serve/server.js";
import { loadModel } from "./scripted-engine.js";
import { soak } from "../support/soak.js";

const seeds = Array.from({ length: soak ? 16 : 2 }, (_, at) => at + 1);
/** Seeds with which "Hello" has been answered with an end token at once, and others. */
const greetings = Array.from({ length: soak ? 40 : 12 }, (_, at) => at + 1);
const Hero = z.object({ name: z.string().max(16), age: z.int().min(0).max(150) });
const hello = { messages: [{ role: "user", content: "Hello" }] };

let lm: CausalLM;
beforeAll(async () => {
  lm = await loadModel();
});
afterAll(() => lm?.release());

/** One text at a time is slow: what is common to both engines is asked of the other. */
describe.each(["the engine that batches", "one text at a time"])("served by %s", (name) => {
  const isWhole = soak || !name.startsWith("one");
  let server: Server;
  let listening: Listening;
  let client: OpenAI;
  beforeAll(async () => {
    server = createServer(lm, {
      model: "embedded",
      ...(name.startsWith("one") ? { engine: () => oneAtATime(lm) } : {}),
    });
    await server.ready;
    listening = await listen(server, "127.0.0.1", 0);
    client = new OpenAI({ baseURL: `${listening.address}/v1`, apiKey: "not needed", maxRetries: 0 });
  });
  afterAll(async () => {
    await server?.close();
    await listening?.close();
  });

  const post = async (path: string, body: object): Promise<{ readonly status: number; readonly body: ChatBody }> => {
    const answer = await fetch(`${listening.address}/v1/${path}`, { method: "POST", body: JSON.stringify(body) });
    return { status: answer.status, body: (await answer.json()) as ChatBody };
  };

  test("official clients get what their schema says", async () => {
    const messages = [{ role: "user" as const, content: "A hero" }];
    for (const seed of seeds) {
      const asked = { model: "embedded", messages, seed, response_format: zodResponseFormat(Hero, "hero") };
      const chat = await client.chat.completions.parse(asked);
      expect(chat.choices[0].finish_reason).toBe("stop");
      expect(() => Hero.parse(chat.choices[0].message.parsed)).not.toThrow();
      const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
      expect(streamed.choices[0].message.parsed).toEqual(chat.choices[0].message.parsed);
    }
    const format = zodTextFormat(Hero, "hero");
    const response = await client.responses.parse({ model: "embedded", input: "A hero", text: { format } });
    expect(() => Hero.parse(response.output_parsed)).not.toThrow();
    const provider = createOpenAICompatible({
      name: "insitu",
      baseURL: `${listening.address}/v1`,
      supportsStructuredOutputs: true,
    });
    const { object } = await generateObject({ model: provider("embedded"), schema: Hero, prompt: "A hero", seed: 3 });
    expect(() => Hero.parse(object)).not.toThrow();
  });

  test("a stop string does not end half an object, and what is cut says so", async () => {
    const schema = z.toJSONSchema(Hero);
    const response_format = { type: "json_schema", json_schema: { name: "hero", schema } };
    for (const stop of [["\n"], ["name", ":"], ['"', " ", "e"], ["}"]]) {
      const { body } = await post("chat/completions", { ...hello, response_format, stop, seed: 2, n: 4 });
      for (const { finish_reason, message } of body.choices) {
        expect(finish_reason).toBe("stop");
        expect(() => Hero.parse(JSON.parse(message.content))).not.toThrow();
      }
    }
    const { body } = await post("chat/completions", { ...hello, response_format, max_tokens: 4 });
    expect(body.choices[0].finish_reason).toBe("length");
    // Where the text is whole without it, a stop string ends it.
    const digits = { type: "json_schema", json_schema: { name: "n", schema: { type: "integer", minimum: 10 } } };
    const bias = Object.fromEntries(lm.tokenizer.encode("7").map((token) => [token, 100]));
    const asked = { ...hello, response_format: digits, temperature: 0, max_tokens: 9, logit_bias: bias };
    const plain = (await post("chat/completions", asked)).body.choices[0].message.content;
    const stopped = (await post("chat/completions", { ...asked, stop: "77" })).body.choices[0];
    expect(plain).toMatch(/^7{4,}$/);
    // One digit is none that the schema allows; two are.
    expect([stopped.message.content, stopped.finish_reason]).toEqual(["77", "stop"]);
  });

  test.runIf(isWhole)("json_object: at most one blank in a row, and no line ends", async () => {
    const asked = { ...hello, response_format: { type: "json_object" }, max_tokens: 60, temperature: 1.5, n: 8 };
    for (const seed of seeds)
      for (const { message } of (await post("chat/completions", { ...asked, seed })).body.choices)
        expect(message.content.replaceAll(/"(?:[^"\\]|\\.)*"?/g, '""')).not.toMatch(/\s\s|[\n\r\t]/);
  });

  test("a greeting is answered, unless the client says that it need not be", async () => {
    const empty = async (path: string, body: object): Promise<number> => {
      let count = 0;
      for (const seed of isWhole ? greetings : greetings.slice(0, 4)) {
        const told = (await post(path, { ...body, seed })).body;
        const text = told.choices?.[0].message.content ?? told.output![0].content.map((part) => part.text).join("");
        if (text.trim() === "") count++;
      }
      return count;
    };
    expect(await empty("chat/completions", { ...hello, max_tokens: 8 })).toBe(0);
    if (!isWhole) return;
    expect(await empty("responses", { input: "Hello", max_output_tokens: 8 })).toBe(0);
    expect(await empty("chat/completions", { ...hello, max_tokens: 8, min_tokens: 0 })).toBeGreaterThan(0);
  });

  test("the tokens of logprobs are those of the text, without a stop string's", async () => {
    for (const stop of [undefined, ["\n"], [" the"], ["e", " of"], ["and the "]])
      for (const seed of [1, 2]) {
        const asked = { max_tokens: 24, seed, ...(stop === undefined ? {} : { stop }) };
        const chat = (await post("chat/completions", { ...hello, ...asked, logprobs: true })).body.choices[0];
        const [told, text] = [chat.logprobs!.content!.map(({ token }) => token), chat.message.content];
        // A token may hold the beginning of what ends the text.
        expect(told.join("").startsWith(text)).toBe(true);
        expect(told.slice(0, -1).join("").length).toBeLessThan(Math.max(1, text.length));
      }
  });

  test.each([
    ["chat/completions", { messages: [{ role: "user", content: "x" }] }],
    ["completions", { prompt: "x" }],
    ["responses", { input: "x" }],
    ["embeddings", { input: "x" }],
    ["rerank", { query: "x", documents: ["y"] }],
  ])("a model that is not served is none at /v1/%s", async (path, body) => {
    const { status, body: told } = await post(path, { ...body, model: "bear" });
    expect([status, told.error?.param]).toEqual([404, "model"]);
  });

  test("min_tokens, in completions too", async () => {
    const prompt = "Hello\n";
    const counted = async (body: object): Promise<number[]> => {
      const asked = { prompt, max_tokens: 12, n: 8, seed: 1, logprobs: 0, stop: ["\n", "a"], ...body };
      return (await post("completions", asked)).body.choices.map(({ logprobs }) => logprobs!.tokens.length);
    };
    expect(Math.min(...(await counted({})))).toBeLessThan(6);
    expect(Math.min(...(await counted({ min_tokens: 6 })))).toBeGreaterThanOrEqual(6);
    const refused = await post("completions", { prompt, max_tokens: 3, min_tokens: 4 });
    expect([refused.status, refused.body.error?.param]).toEqual([400, "min_tokens"]);
    // An answer that a client's own stop string begins is empty, as it was asked for.
    const stop = Array.from("abcdefghijklmnop");
    const { body } = await post("chat/completions", { ...hello, stop, seed: 3, n: 8 });
    for (const { message } of body.choices) expect(message.content).not.toMatch(/[a-p]/);
  });
});

interface ChatBody {
  readonly choices: readonly {
    readonly finish_reason: string;
    readonly message: { readonly content: string };
    readonly logprobs?: {
      readonly tokens: readonly string[];
      readonly content?: readonly { readonly token: string }[];
    };
  }[];
  readonly output?: readonly { readonly content: readonly { readonly text: string }[] }[];
  readonly error?: { readonly param: string };
}

describe("in the library", () => {
  const jsonSchema = z.toJSONSchema(Hero);

  /** A chat's first answer. Its pages are given back: the pool is full of those that wait for the collector. */
  async function answerOf(message: string, options: ChatOptions) {
    const chat = lm.chat([]);
    const answer = chat.send(message, options);
    const text = await answer.text();
    chat.release();
    return { text, finishReason: answer.summary.finishReason };
  }

  test("chats keep to a schema, whatever would end them", async () => {
    for (const seed of seeds)
      for (const options of [{}, { stop: ["\n", '"', "a"] }, { stopTokens: lm.tokenizer.encode('"') }]) {
        const { text, finishReason } = await answerOf("A hero", { jsonSchema, seed, ...options });
        expect([finishReason, Hero.safeParse(JSON.parse(text)).success]).toEqual(["end", true]);
      }
    expect((await answerOf("A hero", { jsonSchema, maxTokens: 4 })).finishReason).toBe("length");
    const samples = await lm.samples("A hero\n", 2, { jsonSchema, seed: 1, stop: "\n" });
    for (const text of await Promise.all(samples.map((each) => each.text())))
      expect(() => Hero.parse(JSON.parse(text))).not.toThrow();
  });

  test("a greeting is answered; other texts may be empty", async () => {
    let empty = 0;
    for (const seed of greetings) {
      const options = { seed, maxTokens: 8 };
      expect((await answerOf("Hello", options)).text.trim()).not.toBe("");
      if ((await answerOf("Hello", { ...options, minTokens: 0 })).text === "") empty++;
    }
    expect(empty).toBeGreaterThan(0);
  });

  test("minTokens holds for texts, samples, batches and beams, and guesses change nothing", async () => {
    const all = { minTokens: 6, maxTokens: 10, stop: ["\n", "a", " "], seed: 1 };
    const prompts = ["Hello\n", "The wolf", "Once"];
    const alone: number[][] = [];
    for (const prompt of prompts) {
      const tokens: number[] = [];
      for await (const { token } of lm.generate(prompt, all)) tokens.push(token);
      expect(tokens.length).toBeGreaterThanOrEqual(6);
      const guessed: number[] = [];
      for await (const { token } of lm.generate(prompt, { ...all, speculate: { adaptive: false } }))
        guessed.push(token);
      expect(guessed).toEqual(tokens);
      alone.push(tokens);
    }
    const batch: number[] = [];
    for await (const { token, finishReason } of lm.generateBatch(prompts.slice(0, 1), all))
      if (finishReason !== "end") batch.push(token);
    expect(batch).toEqual(alone[0]);
    for (const each of await lm.samples(prompts[0], 2, all)) {
      await each.text();
      expect(each.summary.newTokens).toBeGreaterThanOrEqual(6);
    }
    const beams = { beams: 3, maxTokens: 6 };
    for (const { tokens } of await lm.beamSearch("Hello\n", { ...beams, minTokens: 5 }))
      expect(tokens.length).toBeGreaterThanOrEqual(5);
    expect(() => lm.generate("x", { minTokens: 5, maxTokens: 4 })).toThrow("minTokens");
    expect(() => lm.generate("x", { minTokens: -1 })).toThrow("minTokens");
  });
});
