// Official clients run an agent of three steps: openai and the AI SDK against the server, and the AI SDK in the process. The embedded model has a
// template, and the grammar forces its calls; what it says is nonsense, but every call obeys its schema.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, Output, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { insitu } from "../../packages/ai/provider.js";
import { listen, type Listening } from "../../packages/cli/listen.js";
import { CausalLM } from "../../src/entry/node.js";
import { createServer, type Server } from "../../packages/serve/server.js";
import { hermesTemplate } from "../serve/scripted-engine.js";

const thinkingTemplate = hermesTemplate.replace("{{- '<|assistant|>' }}", "{{- '<|assistant|><think>' }}");

let lm: CausalLM;
let server: Server;
let listening: Listening;
beforeAll(async () => {
  lm = await CausalLM.load(undefined, { threads: 1, cache: "paged", chatTemplate: hermesTemplate });
  server = createServer(lm, { model: "tiny" });
  await server.ready;
  listening = await listen(server, "127.0.0.1", 0);
});
afterAll(async () => {
  await server.close();
  await listening.close();
  await lm.release();
});

const step = z.object({ n: z.union([z.literal(1), z.literal(2)]) });
const sampled = { temperature: 0.7, seed: 3 };

test("openai: three steps, each call answered, then an answer", async () => {
  const client = new OpenAI({ baseURL: `${listening.address}/v1`, apiKey: "none" });
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Go" }];
  const tools: OpenAI.ChatCompletionTool[] = [
    { type: "function", function: { name: "step", parameters: z.toJSONSchema(step), strict: true } },
  ];
  for (let at = 0; at < 3; at++) {
    const isStreamed = at === 1;
    const ask = {
      model: "tiny",
      messages,
      tools,
      tool_choice: "required",
      parallel_tool_calls: false,
      max_tokens: 120,
      ...sampled,
    } as const;
    const { choices } = isStreamed
      ? await client.chat.completions.stream(ask).finalChatCompletion()
      : await client.chat.completions.create(ask);
    const { message, finish_reason } = choices[0];
    expect(finish_reason).toBe("tool_calls");
    const [call] = message.tool_calls!;
    if (call.type !== "function") throw new Error("no function");
    expect(call.function.name).toBe("step");
    step.parse(JSON.parse(call.function.arguments));
    messages.push(message, { role: "tool", tool_call_id: call.id, content: String(at) });
  }
  const last = await client.chat.completions.create({
    model: "tiny",
    messages,
    tools,
    tool_choice: "none",
    max_tokens: 12,
    ...sampled,
  });
  expect(last.choices[0].message.content).not.toBe("");
});

test("openai: tools together with response_format; calls or JSON, nothing else", async () => {
  const client = new OpenAI({ baseURL: `${listening.address}/v1`, apiKey: "none" });
  const schema = {
    type: "object",
    properties: { ok: { type: "boolean" } },
    required: ["ok"],
    additionalProperties: false,
  };
  for (const seed of [1, 2, 3]) {
    const { choices } = await client.chat.completions.create({
      model: "tiny",
      messages: [{ role: "user", content: "Go" }],
      tools: [{ type: "function", function: { name: "step", parameters: z.toJSONSchema(step) } }],
      response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
      max_tokens: 120,
      temperature: 1,
      seed,
    });
    const { message } = choices[0];
    if (message.tool_calls === undefined)
      expect(typeof (JSON.parse(message.content!) as { ok: unknown }).ok).toBe("boolean");
    else
      for (const call of message.tool_calls)
        if (call.type === "function") step.parse(JSON.parse(call.function.arguments));
  }
});

describe.each([
  [
    "against the server",
    () =>
      createOpenAICompatible({
        name: "insitu",
        baseURL: `${listening.address}/v1`,
        supportsStructuredOutputs: true,
        includeUsage: true,
      })("tiny"),
  ],
  ["in the process", () => insitu(lm, { parallelToolCalls: false })],
] as const)("the AI SDK %s", (where, model) => {
  test("runs three steps", async () => {
    const done: number[] = [];
    const made = await generateText({
      model: model(),
      prompt: "Go",
      tools: { step: tool({ inputSchema: step, execute: ({ n }) => done.push(n) }) },
      // Of no meaning in the process, where the model is told so itself.
      providerOptions: where === "in the process" ? {} : { insitu: { parallel_tool_calls: false } },
      stopWhen: stepCountIs(4),
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber < 3 ? "required" : "none" }),
      maxOutputTokens: 100,
      ...sampled,
    });
    expect(made.steps.length).toBe(4);
    expect(done.length).toBeGreaterThanOrEqual(3);
    expect(made.steps.slice(0, 3).map(({ finishReason }) => finishReason)).toEqual([
      "tool-calls",
      "tool-calls",
      "tool-calls",
    ]);
    expect(made.text).not.toBe("");
  });

  test("streams text and calls", async () => {
    const seen = new Set<string>();
    const streamed = streamText({
      model: model(),
      prompt: "Go",
      tools: { step: tool({ inputSchema: step }) },
      toolChoice: "required",
      maxOutputTokens: 100,
      ...sampled,
    });
    for await (const part of streamed.fullStream) seen.add(part.type);
    expect([...seen]).toEqual(expect.arrayContaining(["tool-input-start", "tool-input-delta", "tool-call", "finish"]));
    const text = streamText({ model: model(), prompt: "Once upon a time", maxOutputTokens: 8, ...sampled });
    let whole = "";
    for await (const piece of text.textStream) whole += piece;
    expect(whole).toBe(await text.text);
    expect((await text.usage).outputTokens).toBeGreaterThan(0);
  });

  test("makes objects", async () => {
    const schema = z.object({ city: z.enum(["Bern", "Rome"]), warm: z.boolean() });
    const { object } = await generateObject({ model: model(), schema, prompt: "A city", ...sampled });
    schema.parse(object);
    const { output } = await generateText({
      model: model(),
      output: Output.object({ schema }),
      prompt: "A city",
      ...sampled,
    });
    schema.parse(output);
  });
});

describe("reasoning", () => {
  let thinker: CausalLM;
  beforeAll(async () => {
    thinker = await CausalLM.load(undefined, { threads: 1, cache: "paged", chatTemplate: thinkingTemplate });
  });
  afterAll(() => thinker.release());

  test("the AI SDK in the process has it apart from the text", async () => {
    const made = await generateText({
      model: insitu(Promise.resolve(thinker), { reasoning: { budget: 6 } }),
      prompt: "Why?",
      maxOutputTokens: 24,
      ...sampled,
    });
    expect([made.reasoningText === "", made.text === ""]).toEqual([false, false]);
    expect(made.usage.outputTokenDetails.reasoningTokens).toBeGreaterThan(0);
  });

  test("chat completions and responses: streamed, whole, counted", async () => {
    const door = createServer(thinker, { model: "thinker" });
    await door.ready;
    const open = await listen(door, "127.0.0.1", 0);
    try {
      const client = new OpenAI({ baseURL: `${open.address}/v1`, apiKey: "none" });
      const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Why?" }];
      const ask = { model: "thinker", messages, max_tokens: 24, ...sampled };
      const budget = { thinking_token_budget: 6 };
      const whole = await client.chat.completions.create({ ...ask, ...budget });
      const { content, reasoning_content } = whole.choices[0].message as OpenAI.ChatCompletionMessage & {
        readonly reasoning_content: string;
      };
      expect([content === "", reasoning_content === ""]).toEqual([false, false]);
      // Six tokens of thought, and those of the mark that ends them.
      const mark = thinker.tokenizer.encode("</think>", { specialTokens: false }).length;
      expect(whole.usage!.completion_tokens_details!.reasoning_tokens).toBe(6 + mark);
      const deltas = { content: "", reasoning_content: "" };
      for await (const chunk of await client.chat.completions.create({ ...ask, ...budget, stream: true })) {
        const delta = chunk.choices[0]?.delta as Partial<typeof deltas> | undefined;
        deltas.content += delta?.content ?? "";
        deltas.reasoning_content += delta?.reasoning_content ?? "";
      }
      expect(deltas).toEqual({ content, reasoning_content });
      const response = await client.responses.create({
        model: "thinker",
        input: "Why?",
        max_output_tokens: 16,
        ...sampled,
      });
      expect(response.output[0].type).toBe("reasoning");
      expect(response.usage!.output_tokens_details.reasoning_tokens).toBe(16);
      const events: string[] = [];
      for await (const event of await client.responses.create({
        model: "thinker",
        input: "Why?",
        max_output_tokens: 8,
        stream: true,
        ...sampled,
      }))
        events.push(event.type);
      expect(events).toEqual(expect.arrayContaining(["response.reasoning_text.delta", "response.reasoning_text.done"]));
    } finally {
      await door.close();
      await open.close();
    }
  });
});
