// Official clients, unchanged, against a server on a port: openai and the AI SDK's provider for what is compatible with it.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { listen, type Listening } from "../../packages/cli/listen.js";
import type { CausalLM } from "../../src/entry/node.js";
import { createServer, type Server } from "../../packages/serve/server.js";
import { hermesTemplate, loadModel, type Running, type Script, serveScript, until } from "./scripted-engine.js";

let lm: CausalLM;
let running: Running;
let client: OpenAI;
/** What the next text is. */
let script: Script = {};

const weather: OpenAI.ChatCompletionTool = {
  type: "function",
  function: {
    name: "weather",
    description: "the weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const called = 'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>';
const messages = [{ role: "user" as const, content: "How is the weather?" }];
const model = "scripted";

beforeAll(async () => {
  lm = await loadModel(hermesTemplate);
  running = await serveScript(lm, () => script);
  client = new OpenAI({ baseURL: `${running.address}/v1`, apiKey: "not needed", maxRetries: 0 });
});
afterAll(async () => {
  await running?.stop();
  await lm?.release();
});

describe("openai", () => {
  test("chat, with usage and a limit", async () => {
    script = { text: "It is fine today." };
    const whole = await client.chat.completions.create({ model, messages });
    expect(whole.choices[0]).toMatchObject({
      index: 0,
      finish_reason: "stop",
      message: { role: "assistant", content: "It is fine today." },
    });
    const prompt = lm.tokenizer.encodeChat(messages).length;
    expect(whole.usage).toMatchObject({ prompt_tokens: prompt, prompt_tokens_details: { cached_tokens: 0 } });
    expect(whole.usage!.total_tokens).toBe(prompt + whole.usage!.completion_tokens);
    const cut = await client.chat.completions.create({ model, messages, max_completion_tokens: 2 });
    expect([cut.choices[0].finish_reason, cut.usage!.completion_tokens]).toEqual(["length", 2]);
  });

  test("chat as a stream: one id, the role first, the reason last, usage after it", async () => {
    script = { text: "It is fine — 晴れ today." };
    const stream = await client.chat.completions.create({
      model,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks[0].choices[0].delta).toEqual({ role: "assistant", content: "" });
    expect(chunks.at(-2)!.choices[0]).toMatchObject({ delta: {}, finish_reason: "stop" });
    expect(chunks.at(-1)!.choices).toEqual([]);
    expect(chunks.at(-1)!.usage!.completion_tokens).toBeGreaterThan(3);
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe(script.text);
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
  });

  test("calls of tools, whole and streamed, and the answer to them", async () => {
    script = { text: called };
    const whole = await client.chat.completions.create({ model, messages, tools: [weather] });
    const [choice] = whole.choices;
    expect(choice).toMatchObject({ finish_reason: "tool_calls", message: { content: "I look." } });
    expect(choice.message.tool_calls).toMatchObject([
      { type: "function", function: { name: "weather", arguments: '{"city": "Bern"}' } },
    ]);
    const stream = client.chat.completions.stream({ model, messages, tools: [weather] });
    const final = await stream.finalChatCompletion();
    expect(final.choices[0].message.tool_calls).toMatchObject([
      { function: { name: "weather", arguments: '{"city": "Bern"}' } },
    ]);
    script = { text: "Fine." };
    const [call] = choice.message.tool_calls!;
    await client.chat.completions.create({
      model,
      tools: [weather],
      messages: [...messages, choice.message, { role: "tool", tool_call_id: call.id, content: "sunny" }],
    });
    const asked = lm.tokenizer.decode(running.engine.requests.at(-1)!.prompt);
    expect(asked).toContain('"name": "weather"');
    expect(asked).toContain(
      '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>\n<|tool|>sunny',
    );
  });

  test("responses, whole and streamed, with tools", async () => {
    script = { text: "It is fine." };
    const whole = await client.responses.create({ model, input: "How is it?", instructions: "Be brief." });
    expect([whole.output_text, whole.status, whole.usage!.output_tokens > 0]).toEqual([
      "It is fine.",
      "completed",
      true,
    ]);
    expect(lm.tokenizer.decode(running.engine.requests.at(-1)!.prompt)).toContain("<|system|>Be brief.");
    script = { text: called };
    const stream = client.responses.stream({
      model,
      input: "How is it?",
      tools: [{ ...weather.function, type: "function", parameters: weather.function.parameters!, strict: false }],
    });
    const types: string[] = [];
    const numbers: number[] = [];
    for await (const event of stream) {
      types.push(event.type);
      numbers.push(event.sequence_number);
    }
    expect(numbers).toEqual(numbers.map((_, at) => at));
    const kinds = types.filter((type, at) => type !== types[at - 1]);
    expect(kinds).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
      "response.completed",
    ]);
    const final = await stream.finalResponse();
    expect(final.output).toMatchObject([
      { type: "message", content: [{ text: "I look." }] },
      { type: "function_call", name: "weather", arguments: '{"city": "Bern"}' },
    ]);
    script = { text: "Sunny." };
    const [, call] = final.output as [unknown, OpenAI.Responses.ResponseFunctionToolCall];
    await client.responses.create({
      model,
      input: [
        { role: "user", content: "How is it?" },
        { type: "function_call", call_id: call.call_id, name: call.name, arguments: call.arguments },
        { type: "function_call_output", call_id: call.call_id, output: "sunny" },
      ],
    });
    expect(lm.tokenizer.decode(running.engine.requests.at(-1)!.prompt)).toMatch(/<tool_call>[^]*<\|tool\|>sunny/);
  });

  test("an abort ends the text, and the next one is right", async () => {
    script = { text: "word ".repeat(300) };
    const stream = await client.chat.completions.create({ model, messages, stream: true });
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) stream.controller.abort();
    }
    await until(() => running.engine.figures().running === 0);
    expect(running.engine.figures().blocksUsed).toBe(0);
    script = { text: "Right." };
    const next = await client.chat.completions.create({ model, messages });
    expect(next.choices[0].message.content).toBe("Right.");
  });

  test("models, completions, logprobs, errors by class", async () => {
    const listed = await client.models.list();
    expect(listed.data.map(({ id }) => id)).toEqual([model]);
    expect((await client.models.retrieve(model)).id).toBe(model);
    script = { text: "there was" };
    const whole = await client.completions.create({ model, prompt: ["Once", "Twice"], n: 2, logprobs: 2 });
    expect(whole.choices.map(({ index, text }) => [index, text])).toEqual([0, 1, 2, 3].map((at) => [at, "there was"]));
    expect(whole.choices[0].logprobs!.token_logprobs!.every((value) => value === -0.5)).toBe(true);
    const chat = await client.chat.completions.create({ model, messages, logprobs: true, top_logprobs: 2 });
    const { content } = chat.choices[0].logprobs!;
    expect(content!.map(({ token }) => token).join("")).toBe("there was");
    expect(content![0].top_logprobs.map(({ logprob }) => logprob)).toEqual([-1, -2]);
    await expect(client.chat.completions.create({ model: "other", messages })).rejects.toBeInstanceOf(
      OpenAI.NotFoundError,
    );
    await expect(client.chat.completions.create({ model, messages, temperature: 3 })).rejects.toMatchObject({
      status: 400,
      param: "temperature",
    });
    await expect(client.embeddings.create({ model, input: "x" })).rejects.toMatchObject({
      status: 400,
      code: "unsupported",
    });
  });

  test("embeddings, where the engine has them", async () => {
    running.engine.embed = (tokens) => Promise.resolve(Float32Array.of(tokens.length, 0.5));
    const made = await client.embeddings.create({ model, input: ["Once upon", "x"] });
    expect(made.data.map(({ embedding }) => embedding[1])).toEqual([0.5, 0.5]);
    expect(made.data[0].embedding[0]).toBeGreaterThan(made.data[1].embedding[0]);
    delete running.engine.embed;
  });
});

describe("the AI SDK", () => {
  const provider = (): ReturnType<typeof createOpenAICompatible> =>
    createOpenAICompatible({ name: "insitu", baseURL: `${running.address}/v1`, includeUsage: true });

  test("text, whole and streamed", async () => {
    script = { text: "It is fine." };
    const { text, usage } = await generateText({ model: provider()(model), prompt: "How is it?", maxRetries: 0 });
    expect([text, usage.outputTokens! > 0]).toEqual(["It is fine.", true]);
    const stream = streamText({ model: provider()(model), prompt: "How is it?", maxRetries: 0 });
    expect(await stream.text).toBe("It is fine.");
    expect(await stream.finishReason).toBe("stop");
  });

  test("a tool is called with what the model said", async () => {
    script = { text: called };
    const asked: string[] = [];
    const stream = streamText({
      model: provider()(model),
      prompt: "How is it?",
      maxRetries: 0,
      tools: {
        weather: tool({
          description: "the weather",
          inputSchema: z.object({ city: z.string() }),
          execute({ city }) {
            asked.push(city);
            return "sunny";
          },
        }),
      },
    });
    expect(await stream.finishReason).toBe("tool-calls");
    expect(asked).toEqual(["Bern"]);
  });
});

describe("the embedded model, kept to a schema", () => {
  let server: Server;
  let listening: Listening;
  let own: OpenAI;

  beforeAll(async () => {
    server = createServer(lm, { model: "embedded" });
    await server.ready;
    listening = await listen(server, "127.0.0.1", 0);
    own = new OpenAI({ baseURL: `${listening.address}/v1`, apiKey: "not needed", maxRetries: 0 });
  });
  afterAll(async () => {
    await server?.close();
    await listening?.close();
  });

  const Animal = z.object({
    name: z.string().max(12),
    kind: z.enum(["wolf", "fox"]),
    age: z.int().min(0).max(20),
    friends: z.array(z.string().max(6)).max(2),
  });

  test("zodResponseFormat, zodTextFormat and generateObject give what the schema says", async () => {
    const chat = await own.chat.completions.parse({
      model: "embedded",
      messages,
      seed: 3,
      response_format: zodResponseFormat(Animal, "animal"),
    });
    expect(chat.choices[0].finish_reason).toBe("stop");
    expect(Animal.parse(chat.choices[0].message.parsed)).toEqual(JSON.parse(chat.choices[0].message.content!));
    const response = await own.responses.parse({
      model: "embedded",
      input: "An animal",
      text: { format: zodTextFormat(Animal, "animal") },
    });
    expect(() => Animal.parse(response.output_parsed)).not.toThrow();
    const provider = createOpenAICompatible({
      name: "insitu",
      baseURL: `${listening.address}/v1`,
      supportsStructuredOutputs: true,
    });
    const { object } = await generateObject({ model: provider("embedded"), schema: Animal, prompt: "An animal" });
    expect(() => Animal.parse(object)).not.toThrow();
  });

  test("a text is the one that generate makes", async () => {
    for (const options of [{ temperature: 0 }, { seed: 5 }]) {
      const made = await own.completions.create({ model: "embedded", prompt: "The wolf", max_tokens: 24, ...options });
      expect(made.choices[0].text).toBe(await lm.generate("The wolf", { maxTokens: 24, ...options }).text());
    }
  });

  test("a tool that must be called is, with arguments that its schema allows", async () => {
    for (const tool_choice of ["required", { type: "function", function: { name: "feed" } }] as const) {
      const stream = own.chat.completions.stream({
        model: "embedded",
        messages,
        seed: 1,
        max_tokens: 200,
        tool_choice,
        parallel_tool_calls: false,
        tools: [
          {
            type: "function",
            function: { name: "feed", strict: true, parameters: z.toJSONSchema(Animal) as Record<string, unknown> },
          },
        ],
      });
      const final = await stream.finalChatCompletion();
      const [call] = final.choices[0].message.tool_calls!;
      expect([final.choices[0].finish_reason, final.choices[0].message.content]).toEqual(["tool_calls", null]);
      expect(call.function.name).toBe("feed");
      expect(() => Animal.parse(JSON.parse(call.function.arguments))).not.toThrow();
    }
  });

  test("patterns hold in the arguments of strict tools", async () => {
    for (const pattern of ["^yes|no$", "^[а-я]{3}$"]) {
      const parameters = z.toJSONSchema(z.object({ a: z.string().regex(new RegExp(pattern)).max(9), b: z.null() }));
      const { choices } = await own.chat.completions.create({
        model: "embedded",
        messages,
        seed: 1,
        n: 4,
        max_tokens: 200,
        tool_choice: "required",
        parallel_tool_calls: false,
        tools: [{ type: "function", function: { name: "say", strict: true, parameters } }],
      });
      for (const { message } of choices) {
        const [call] = message.tool_calls! as OpenAI.ChatCompletionMessageFunctionToolCall[];
        const { a, b } = JSON.parse(call.function.arguments) as { a: string; b: null };
        expect([a, new RegExp(pattern, "u").test(a), b]).toEqual([a, true, null]);
      }
    }
  });

  test("what cannot be enforced is refused, and says what it is", async () => {
    const schema = (of: object): OpenAI.ResponseFormatJSONSchema => ({
      type: "json_schema",
      json_schema: { name: "x", schema: of as Record<string, unknown> },
    });
    for (const [of, why] of [
      [{ type: "array", contains: { const: 2 } }, "contains"],
      [{ type: "nonsense" }, "nonsense"],
      [{ type: "string", pattern: "(a)\\1" }, "refers back"],
    ] as const) {
      const refused = own.chat.completions.create({ model: "embedded", messages, response_format: schema(of) });
      await expect(refused).rejects.toMatchObject({ status: 400, param: "response_format", code: "invalid_schema" });
      await expect(refused).rejects.toThrow(why);
    }
    const next = await own.chat.completions.create({
      model: "embedded",
      messages,
      max_tokens: 40,
      response_format: schema({ type: "object", properties: { ok: { const: true } }, required: ["ok"] }),
    });
    expect(JSON.parse(next.choices[0].message.content!)).toEqual({ ok: true });
  });
});
