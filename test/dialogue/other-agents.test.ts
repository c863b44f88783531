// Anthropic's client, Ollama's and LangChain's run an agent of three steps against the server, LangChain's in the process too, and tell thoughts from answers. The embedded model has
// a template, and the grammar forces its calls; what it says is nonsense, but every call obeys its schema.
import Anthropic from "@anthropic-ai/sdk";
import { AIMessage, type AIMessageChunk, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOllama } from "@langchain/ollama";
import { Ollama, type Message } from "ollama";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { ChatInsitu } from "../../packages/ai/langchain.js";
import { listen, type Listening } from "../../packages/cli/listen.js";
import { CausalLM } from "../../src/entry/node.js";
import { createServer, type Server } from "../../packages/serve/server.js";
import { hermesTemplate } from "../serve/scripted-engine.js";

/** Thoughts are open where they are asked for. */
const template = hermesTemplate.replace(
  "{{- '<|assistant|>' }}",
  "{{- '<|assistant|>' }}{%- if enable_thinking %}{{- '<think>' }}{%- else %}{{- '<think></think>' }}{%- endif %}",
);

let lm: CausalLM;
let server: Server;
let listening: Listening;
beforeAll(async () => {
  lm = await CausalLM.load(undefined, { threads: 1, cache: "paged", chatTemplate: template });
  server = createServer(lm, { model: "tiny" });
  await server.ready;
  listening = await listen(server, "127.0.0.1", 0);
});
afterAll(async () => {
  await server?.close();
  await listening?.close();
  await lm?.release();
});

const step = z.object({ n: z.union([z.literal(1), z.literal(2)]) });
const schema = z.toJSONSchema(step);
const tool = { type: "function", function: { name: "step", description: "one step", parameters: schema } } as const;
const options = { temperature: 0.7, seed: 3, num_predict: 100 };

test("Anthropic's client: three steps, each call answered, then an answer", async () => {
  const client = new Anthropic({ baseURL: listening.address, apiKey: "none" });
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: "Go" }];
  const ask = {
    model: "tiny",
    max_tokens: 100,
    temperature: 0.7,
    tools: [{ name: "step", input_schema: schema as Anthropic.Tool.InputSchema }],
  };
  for (let at = 0; at < 3; at++) {
    const forced = { ...ask, messages, tool_choice: { type: "any", disable_parallel_tool_use: true } as const };
    const made = at === 1 ? await client.messages.stream(forced).finalMessage() : await client.messages.create(forced);
    expect(made.stop_reason).toBe("tool_use");
    const call = made.content.find((block) => block.type === "tool_use")!;
    expect(call.name).toBe("step");
    step.parse(call.input);
    messages.push(
      { role: "assistant", content: made.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: String(at) }] },
    );
  }
  const last = await client.messages.create({ ...ask, messages, tool_choice: { type: "none" }, max_tokens: 12 });
  expect(last.content.map(({ type }) => type)).toEqual(["text"]);
  const { input_tokens } = await client.messages.countTokens({ model: "tiny", messages, tools: ask.tools });
  // Everything was read before but the tools, which the last request did not have.
  expect(input_tokens).toBeGreaterThan(last.usage.input_tokens);
});

test("Ollama's client: three steps, each call answered, then an answer", async () => {
  const client = new Ollama({ host: listening.address });
  const messages: Message[] = [{ role: "user", content: "Go" }];
  const forced = { tool_choice: "required", parallel_tool_calls: false };
  for (let at = 0; at < 3; at++) {
    const ask = { model: "tiny", messages, tools: [tool as never], options, ...forced };
    const calls: NonNullable<Message["tool_calls"]> = [];
    if (at === 1)
      for await (const part of await client.chat({ ...ask, stream: true }))
        calls.push(...(part.message.tool_calls ?? []));
    else calls.push(...((await client.chat(ask)).message.tool_calls ?? []));
    expect(calls.map((call) => call.function.name)).toEqual(["step"]);
    step.parse(calls[0].function.arguments);
    messages.push(
      { role: "assistant", content: "", tool_calls: calls },
      { role: "tool", tool_name: "step", content: String(at) },
    );
  }
  const last = await client.chat({ model: "tiny:latest", messages, options: { ...options, num_predict: 12 } });
  expect([last.done, last.message.content === ""]).toEqual([true, false]);
});

describe.each([
  [
    "ChatOllama, against the server",
    () => {
      // It has no word for calls that must come: they are asked for on the way.
      const forced: typeof fetch = (url, init) => {
        const body = JSON.parse(init!.body as string) as Record<string, unknown>;
        const choice = { tool_choice: "required", parallel_tool_calls: false };
        return fetch(url, { ...init!, body: JSON.stringify("tools" in body ? { ...body, ...choice } : body) });
      };
      const settings = { baseUrl: listening.address, model: "tiny", temperature: 0.7, seed: 3, maxRetries: 0 };
      return {
        calling: new ChatOllama({ ...settings, numPredict: 100, fetch: forced }).bindTools([tool]),
        plain: new ChatOllama({ ...settings, numPredict: 12 }),
      };
    },
  ],
  [
    "ChatInsitu, in the process",
    () => {
      const chat = new ChatInsitu(lm, { temperature: 0.7, seed: 3, maxTokens: 100, parallelToolCalls: false });
      const plain = new ChatInsitu(Promise.resolve(lm), { temperature: 0.7, seed: 3, maxTokens: 12 });
      return { calling: chat.bindTools([tool], { tool_choice: "any" }), plain };
    },
  ],
])("LangChain's %s", (_, models) => {
  test("three steps, each call answered, then an answer", async () => {
    const { calling, plain } = models();
    const messages: BaseMessage[] = [new HumanMessage("Go")];
    for (let at = 0; at < 3; at++) {
      let made: AIMessage;
      if (at === 1) {
        const pieces: AIMessageChunk[] = [];
        for await (const piece of await calling.stream(messages)) pieces.push(piece);
        made = pieces.slice(1).reduce((whole, piece) => whole.concat(piece), pieces[0]);
      } else made = await calling.invoke(messages);
      const [call] = made.tool_calls!;
      expect(call.name).toBe("step");
      step.parse(call.args);
      messages.push(
        new AIMessage({ content: made.content, tool_calls: made.tool_calls! }),
        new ToolMessage({ content: String(at), tool_call_id: call.id ?? "", name: "step" }),
      );
    }
    const last = await plain.invoke(messages);
    expect(last.content).not.toBe("");
    expect(last.usage_metadata!.output_tokens).toBeGreaterThan(0);
  });

  test("a stream's pieces are the text, and an abort ends it", async () => {
    const { plain } = models();
    const pieces: string[] = [];
    for await (const { text } of await plain.stream("Once upon a time")) pieces.push(text);
    expect(pieces.length).toBeGreaterThan(3);
    expect(pieces.join("")).toBe((await plain.invoke("Once upon a time")).text);
    const stop = new AbortController();
    const aborted = (async () => {
      for await (const _piece of await plain.stream("Once upon a time", { signal: stop.signal })) stop.abort();
    })();
    await expect(aborted).rejects.toThrow(/abort/i);
    expect((await plain.invoke("Once upon a time")).text).toBe(pieces.join(""));
  });
});

test("ChatInsitu: structured output is forced, thoughts are told apart, parts that are no text are refused", async () => {
  const chat = new ChatInsitu(lm, { temperature: 0.7, seed: 3, maxTokens: 100 });
  const shape = z.object({ city: z.enum(["Bern", "Rome"]), warm: z.boolean() });
  shape.parse(await chat.withStructuredOutput(shape).invoke("A city"));
  const { raw, parsed } = await chat.withStructuredOutput(shape, { includeRaw: true }).invoke("A city");
  expect([raw.getType(), shape.parse(parsed)]).toEqual(["ai", parsed]);
  const thinker = new ChatInsitu(lm, {
    temperature: 0.7,
    seed: 3,
    maxTokens: 24,
    reasoning: { effort: "low", budget: 6 },
  });
  const made = await thinker.invoke("Why?");
  expect([made.additional_kwargs["reasoning_content"], made.text]).toEqual([
    expect.stringMatching(/\S/),
    expect.stringMatching(/\S/),
  ]);
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } };
  await expect(chat.invoke([new HumanMessage({ content: [image] })])).rejects.toThrow(/"image_url"/);
});

test("thoughts come where they are asked for, apart from the answer", async () => {
  const anthropic = new Anthropic({ baseURL: listening.address, apiKey: "none" });
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: "Why?" }];
  const ask = { model: "tiny", messages, max_tokens: 32, temperature: 0 };
  const kindsOf = ({ content }: Anthropic.Message): string[] => content.map(({ type }) => type);
  const thinking = { type: "enabled", budget_tokens: 6 } as const;
  expect(kindsOf(await anthropic.messages.create(ask))).toEqual(["text"]);
  expect(kindsOf(await anthropic.messages.create({ ...ask, thinking }))).toEqual(["thinking", "text"]);
  const stream = anthropic.messages.stream({ ...ask, thinking });
  let thoughts = "";
  stream.on("thinking", (piece) => void (thoughts += piece));
  const [thought, text] = (await stream.finalMessage()).content;
  expect([thought, text.type]).toMatchObject([{ type: "thinking", thinking: thoughts }, "text"]);
  expect(thoughts).not.toBe("");

  const ollama = new Ollama({ host: listening.address });
  const short = { ...options, num_predict: 8 };
  const chat = { model: "tiny", messages: [{ role: "user", content: "Why?" }], options: short };
  const thought2 = await ollama.chat({ ...chat, think: true });
  expect([thought2.message.content, thought2.message.thinking === "", thought2.done_reason]).toEqual([
    "",
    false,
    "length",
  ]);
  const plain = await ollama.chat({ ...chat, think: false });
  expect([plain.message.content === "", plain.message.thinking]).toEqual([false, undefined]);
  const made = await ollama.generate({ model: "tiny", prompt: "Why?", think: true, options: short });
  expect([made.response, made.thinking === ""]).toEqual(["", false]);
});

test("Anthropic's client: which stop sequence ended the text", async () => {
  const client = new Anthropic({ baseURL: listening.address, apiKey: "none" });
  const ask = { model: "tiny", max_tokens: 24, temperature: 0, messages: [{ role: "user" as const, content: "Once" }] };
  const textOf = ({ content }: Anthropic.Message): string =>
    content.map((each) => (each.type === "text" ? each.text : "")).join("");
  const whole = textOf(await client.messages.create(ask));
  const stop = whole.slice(9, 12);
  const made = await client.messages.create({ ...ask, stop_sequences: ["never said", stop] });
  expect([made.stop_reason, made.stop_sequence, textOf(made)]).toEqual([
    "stop_sequence",
    stop,
    whole.slice(0, whole.indexOf(stop)),
  ]);
});

test("Ollama's format is obeyed", async () => {
  const ollama = new Ollama({ host: listening.address });
  const shape = z.object({ city: z.enum(["Bern", "Rome"]), warm: z.boolean() });
  const messages = [{ role: "user", content: "A city" }];
  const made = await ollama.chat({ model: "tiny", messages, format: z.toJSONSchema(shape), options });
  shape.parse(JSON.parse(made.message.content));
  const raw = await ollama.generate({
    model: "tiny",
    prompt: "A city: ",
    raw: true,
    format: z.toJSONSchema(shape),
    options,
  });
  shape.parse(JSON.parse(raw.response!));
});
