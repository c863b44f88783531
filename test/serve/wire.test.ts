// The wire: streams line by line as OpenAI has them, every field taken or refused with its name, texts of several choices, tokens.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CausalLM } from "../../src/entry/node.js";
import { samplingFields } from "../../packages/serve/wire/fields.js";
import { eventsOf, loadModel, type Running, type Script, serveScript } from "./scripted-engine.js";

let lm: CausalLM;
let running: Running;
let script: Script = {};
const messages = [{ role: "user", content: "Once" }];

beforeAll(async () => {
  lm = await loadModel();
  running = await serveScript(lm, () => script, {
    limits: { messages: 8, choices: 4, newTokens: 400, bodyBytes: 20_000 },
    context: 512,
    waiting: 64,
  });
});
afterAll(async () => {
  await running?.stop();
  await lm?.release();
});

interface Refusal {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

async function refused(path: string, body: unknown): Promise<Refusal["error"] & { readonly status: number }> {
  const response = await running.post(path, body);
  return { status: response.status, ...((await response.json()) as Refusal).error };
}

describe("streams", () => {
  test("a chat to the letter", async () => {
    script = { text: "a time" };
    const response = await running.post("/v1/chat/completions", { messages, stream: true });
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const text = await response.text();
    expect(text).toMatch(/^(data: .+\n\n)+$/);
    const events = eventsOf(text) as { id: string; created: number }[];
    const { id, created } = events[0];
    const chunk = (delta: object, finish_reason: string | null = null): object => ({
      id,
      object: "chat.completion.chunk",
      created,
      model: "scripted",
      system_fingerprint: null,
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
    });
    expect(events).toEqual([
      chunk({ role: "assistant", content: "" }),
      chunk({ content: "a" }),
      chunk({ content: " time" }),
      chunk({}, "stop"),
      "[DONE]",
    ]);
  });

  test("a character of several tokens comes whole, a stop string never", async () => {
    script = { text: "A 🦊 ran. STOP here" };
    const response = await running.post("/v1/completions", {
      prompt: "Once",
      stream: true,
      stop: ["STOP"],
      max_tokens: 99,
    });
    const pieces = eventsOf(await response.text())
      .slice(0, -1)
      .map((event) => (event as { choices: { text: string; finish_reason: string | null }[] }).choices[0]);
    expect(pieces.map(({ text }) => text).join("")).toBe("A 🦊 ran. ");
    expect(pieces.some(({ text }) => text.includes("\uFFFD"))).toBe(false);
    expect(pieces.at(-1)).toMatchObject({ text: "", finish_reason: "stop" });
  });

  test("several choices, each with its own seed, role and end", async () => {
    script = { text: "a time" };
    const response = await running.post("/v1/chat/completions", { messages, stream: true, n: 3, seed: 7 });
    const chunks = eventsOf(await response.text()).slice(0, -1) as { choices: { index: number; delta: object }[] }[];
    for (const index of [0, 1, 2]) {
      const own = chunks.flatMap(({ choices }) => choices).filter((choice) => choice.index === index);
      expect(own).toHaveLength(4);
      expect(own[0].delta).toHaveProperty("role");
    }
    expect(running.engine.requests.slice(-3).map(({ sampling }) => sampling.seed)).toEqual([7, 8, 9]);
  });

  test("an error in the middle is the last event", async () => {
    script = { text: "a time", fails: new Error("secret") };
    const response = await running.post("/v1/chat/completions", { messages, stream: true });
    const events = eventsOf(await response.text());
    expect(events.at(-1)).toEqual({
      error: {
        message: "the server failed at this request",
        type: "server_error",
        param: null,
        code: "internal_error",
      },
    });
    const whole = await running.post("/v1/chat/completions", { messages });
    expect([whole.status, await whole.text()]).toEqual([500, expect.not.stringContaining("secret")]);
    const told = await running.post("/v1/responses", { input: "Once", stream: true });
    expect(await told.text()).toMatch(/event: error\n[^]*event: response\.failed\n/);
  });
});

describe("fields", () => {
  test("what is asked for reaches the engine", async () => {
    script = { text: "a" };
    await running.post("/v1/completions", {
      prompt: [5, 6, 7],
      max_tokens: 9,
      temperature: 0.5,
      top_p: 0.25,
      top_k: 3,
      min_p: 0.125,
      presence_penalty: 1,
      frequency_penalty: -1,
      repetition_penalty: 1.5,
      seed: 11,
      logit_bias: { "42": -100 },
      logprobs: 3,
      user: "somebody",
      something_new: { of: "another kind" },
    });
    expect(running.engine.requests.at(-1)).toMatchObject({
      prompt: [5, 6, 7],
      maxTokens: 9,
      logprobs: 3,
      logitBias: new Map([[42, -100]]),
      sampling: {
        temperature: 0.5,
        topP: 0.25,
        topK: 3,
        minP: 0.125,
        presencePenalty: 1,
        frequencyPenalty: -1,
        repetitionPenalty: 1.5,
        seed: 11,
      },
    });
    expect([...running.engine.requests.at(-1)!.endTokens]).toEqual(lm.defaults.endTokens);
  });

  test("what is left out, or null, is the model's own", async () => {
    await running.post("/v1/completions", { prompt: "Once", temperature: null, top_p: null, stop: null, n: null });
    expect(running.engine.requests.at(-1)!.sampling).toMatchObject({ temperature: 0.8, topK: 40, topP: 0.95 });
    await running.post("/v1/completions", { prompt: "Once", top_p: 0, top_k: -1 });
    expect(running.engine.requests.at(-1)!.sampling).toMatchObject({ topK: 1, topP: 1 });
  });

  const chat = "/v1/chat/completions";
  test.each([
    [chat, {}, "messages", "missing_required_parameter"],
    [chat, { messages: [] }, "messages", "invalid_value"],
    [chat, { messages: "hello" }, "messages", "invalid_value"],
    [chat, { messages: [{ role: "user" }] }, "messages[0].content", "missing_required_parameter"],
    [chat, { messages: [{ role: "robot", content: "x" }] }, "messages[0].role", "invalid_value"],
    [chat, { messages: Array(9).fill(messages[0]) }, "messages", "invalid_value"],
    [
      chat,
      { messages: [{ role: "user", content: [{ type: "image_url" }] }] },
      "messages[0].content[0].type",
      "invalid_value",
    ],
    [
      chat,
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "file:///x" }, text: "a" }] }] },
      "messages[0].content[0].type",
      "invalid_value",
    ],
    [
      chat,
      { messages: [{ role: "assistant", content: "x", tool_calls: [0] }] },
      "messages[0].tool_calls[0]",
      "invalid_value",
    ],
    [chat, { messages, repetition_penalty: 1e-40 }, "repetition_penalty", "invalid_value"],
    [chat, { messages, temperature: -1 }, "temperature", "invalid_value"],
    [chat, { messages, temperature: "warm" }, "temperature", "invalid_value"],
    [chat, { messages, top_p: 1.5 }, "top_p", "invalid_value"],
    [chat, { messages, top_k: -2 }, "top_k", "invalid_value"],
    [chat, { messages, min_p: 2 }, "min_p", "invalid_value"],
    [chat, { messages, presence_penalty: 3 }, "presence_penalty", "invalid_value"],
    [chat, { messages, n: 0 }, "n", "invalid_value"],
    [chat, { messages, n: 5 }, "n", "invalid_value"],
    [chat, { messages, max_tokens: 0 }, "max_tokens", "invalid_value"],
    [chat, { messages, max_tokens: 401 }, "max_tokens", "invalid_value"],
    [chat, { messages, seed: 1.5 }, "seed", "invalid_value"],
    [chat, { messages, stop: "" }, "stop", "invalid_value"],
    [chat, { messages, logit_bias: { x: 1 } }, "logit_bias", "invalid_value"],
    [chat, { messages, logit_bias: { "4096": 1 } }, "logit_bias", "invalid_value"],
    [chat, { messages, logit_bias: { "1": 101 } }, "logit_bias.1", "invalid_value"],
    [chat, { messages, top_logprobs: 2 }, "top_logprobs", "invalid_value"],
    [chat, { messages, logprobs: true, top_logprobs: 21 }, "top_logprobs", "invalid_value"],
    [chat, { messages, stream_options: { include_usage: true } }, "stream_options", "invalid_value"],
    [chat, { messages, response_format: { type: "yaml" } }, "response_format.type", "invalid_value"],
    [
      chat,
      { messages, response_format: { type: "json_schema" } },
      "response_format.json_schema",
      "missing_required_parameter",
    ],
    [chat, { messages, tools: [{ type: "function", function: { name: "f" } }] }, "tools", "unsupported"],
    [
      chat,
      { messages, tools: [{ type: "function", function: { name: "a b" } }] },
      "tools[0].function.name",
      "invalid_value",
    ],
    [chat, { messages, tool_choice: "required" }, "tool_choice", "invalid_value"],
    [chat, { messages, functions: [{ name: "f" }] }, "functions", "unsupported"],
    [chat, { messages, modalities: ["audio"] }, "modalities[0]", "invalid_value"],
    [chat, { messages, max_tokens: 401 }, "max_tokens", "invalid_value"],
    [chat, { messages, max_completion_tokens: 401 }, "max_completion_tokens", "invalid_value"],
    [chat, { messages, priority: 1 }, "priority", "unsupported"],
    ["/v1/responses", { input: "x", max_output_tokens: 401 }, "max_output_tokens", "invalid_value"],
    ["/v1/completions", {}, "prompt", "missing_required_parameter"],
    ["/v1/completions", { prompt: "" }, "prompt", "invalid_value"],
    ["/v1/completions", { prompt: [4096] }, "prompt", "invalid_value"],
    ["/v1/completions", { prompt: Array(5).fill("x") }, "prompt", "invalid_value"],
    ["/v1/completions", { prompt: "x", best_of: 3 }, "best_of", "unsupported"],
    ["/v1/completions", { prompt: "x", suffix: "y" }, "suffix", "unsupported"],
    ["/v1/completions", { prompt: "x", echo: true, logprobs: 1 }, "echo", "unsupported"],
    ["/v1/completions", { prompt: "\uD800" }, "prompt", "invalid_value"],
    ["/v1/responses", { input: "x", previous_response_id: "resp_1" }, "previous_response_id", "unsupported"],
    ["/v1/responses", { input: "x", background: true }, "background", "unsupported"],
    ["/v1/responses", { input: [{ type: "item_reference", id: "x" }] }, "input[0].type", "unsupported"],
    [
      "/v1/responses",
      { input: [{ role: "user", content: [{ type: "input_image" }] }] },
      "input[0].content[0].type",
      "invalid_value",
    ],
    ["/v1/responses", { input: [{ type: "function_call", name: "f" }] }, "input[0].call_id", "invalid_value"],
    ["/v1/responses", { input: "x", truncation: "auto" }, "truncation", "unsupported"],
    ["/v1/responses", { input: "x", tools: [{ type: "web_search" }] }, "tools[0].type", "invalid_value"],
    ["/v1/embeddings", { input: "x" }, "model", "unsupported"],
    ["/tokenize", {}, "prompt", "missing_required_parameter"],
    ["/detokenize", { tokens: [4096] }, "tokens", "invalid_value"],
  ])("%s refuses %j", async (path, body, param, code) => {
    const told = await refused(path, body);
    expect(told).toMatchObject({ status: 400, type: "invalid_request_error", param, code });
    expect(told.message.length).toBeGreaterThan(10);
  });

  test("a prompt that is too long is refused before the stream, with both numbers", async () => {
    const prompt = Array<number>(600).fill(5);
    const told = await refused("/v1/completions", { prompt, stream: true });
    expect(told).toMatchObject({ status: 400, code: "context_length_exceeded", param: "prompt" });
    expect(told.message).toMatch(/600 tokens.*512/);
  });

  test("bodies that are none, too large ones, other models, other paths, other methods", async () => {
    expect(await refused(chat, "{")).toMatchObject({ status: 400, code: "invalid_json" });
    expect(await refused(chat, "")).toMatchObject({ status: 400, code: "invalid_json" });
    expect(await refused(chat, "[]")).toMatchObject({ status: 400 });
    expect(await refused(chat, { messages: [{ role: "user", content: "x".repeat(20_000) }] })).toMatchObject({
      status: 413,
    });
    expect(await refused(chat, { messages, model: "gpt-9" })).toMatchObject({ status: 404, code: "model_not_found" });
    expect(await refused("/v1/chat", {})).toMatchObject({ status: 404, code: "unknown_url" });
    const { status, headers } = await fetch(`${running.address}${chat}`);
    expect([status, headers.get("allow")]).toEqual([405, "POST"]);
  });
});

test("where few tokens may be asked for, who asks for none gets as many", async () => {
  const few = await serveScript(lm, () => ({ text: "a time and a place" }), { limits: { newTokens: 3 } });
  for (const [path, body] of [
    ["/v1/completions", { prompt: "x" }],
    ["/v1/chat/completions", { messages: [{ role: "user", content: "x" }] }],
  ] as const)
    expect((await few.post(path, body)).status).toBe(200);
  expect(few.engine.requests.map(({ maxTokens }) => maxTokens)).toEqual([3, 3]);
  await few.stop();
});

test("a text that is far too long is not even read", async () => {
  const wide = await serveScript(lm, () => ({}), { context: 64 });
  for (const [path, body, param] of [
    ["/v1/completions", { prompt: "x".repeat(9000) }, "prompt"],
    ["/v1/chat/completions", { messages: [{ role: "user", content: "x".repeat(9000) }] }, "messages"],
  ] as const) {
    const response = await wide.post(path, body);
    expect([response.status, await response.json()]).toMatchObject([
      400,
      {
        error: {
          code: "context_length_exceeded",
          param,
          message: expect.stringContaining("9000 characters") as unknown,
        },
      },
    ]);
  }
  await wide.stop();
});

test("texts with what they follow on, and where they end", async () => {
  script = { text: "a time", end: "context-full" };
  const response = await running.post("/v1/completions", { prompt: "Once upon", echo: true, max_tokens: 50 });
  const { choices } = (await response.json()) as { choices: object[] };
  expect(choices).toMatchObject([{ text: "Once upona time", finish_reason: "length" }]);
});

test("without a template a chat is paragraphs, and the answer one", async () => {
  script = { text: "One line.\nAnother" };
  const response = await running.post("/v1/chat/completions", {
    messages: [
      { role: "developer", content: "Be kind." },
      {
        role: "user",
        content: [
          { type: "text", text: "Tell " },
          { type: "text", text: "me." },
        ],
      },
    ],
  });
  const body = (await response.json()) as { choices: { message: { content: string } }[] };
  expect(body.choices[0].message.content).toBe("One line.");
  expect(lm.tokenizer.decode(running.engine.requests.at(-1)!.prompt)).toBe("Be kind.\nTell me.\n");
});

test("docs/serve.md tells of every path and field, and of no other path", async () => {
  const page = readFileSync(new URL("../../docs/serve.md", import.meta.url), "utf8");
  const table = /\| path \|[^]*?\n\n/.exec(page)![0];
  const told = [...table.matchAll(/^\| `(GET|POST) (\S+?)`(?:, `(\/\S+?)`)?/gm)].flatMap(([, method, ...paths]) =>
    paths.flatMap((path) => (path === undefined ? [] : [[method, path.replace("NAME", "scripted")] as const])),
  );
  expect(told.length).toBeGreaterThan(9);
  for (const [method, path] of told) {
    const response = await fetch(`${running.address}${path}`, method === "GET" ? {} : { method, body: "{}" });
    expect([path, response.status]).toEqual([path, method === "GET" ? 200 : 400]);
  }
  for (const field of Object.keys(samplingFields)) expect(page).toContain(`\`${field}\``);
});

test("tokens and their text", async () => {
  const ask = async (path: string, body: object): Promise<Record<string, unknown>> =>
    (await (await running.post(path, body)).json()) as Record<string, unknown>;
  const { tokens, count, token_strs } = await ask("/tokenize", { prompt: "Once upon", return_token_strs: true });
  expect([tokens, count, max(token_strs)]).toEqual([lm.tokenizer.encode("Once upon"), 2, 2]);
  expect(await ask("/tokenize", { content: "Once upon" })).toMatchObject({ tokens });
  expect(await ask("/tokenize", { messages })).toMatchObject({ tokens: lm.tokenizer.encode("Once\n") });
  expect(await ask("/detokenize", { tokens })).toMatchObject({ prompt: "Once upon" });
});

const max = (list: unknown): number => (list as unknown[]).length;
