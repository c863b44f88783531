// Anthropic's and Ollama's doors, by their official clients, unchanged, against a server on a port: texts, streams, calls, aborts, and what is refused.
import Anthropic from "@anthropic-ai/sdk";
import { Ollama } from "ollama";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import type { CausalLM } from "../../src/entry/node.js";
import { hermesTemplate, loadModel, type Running, type Script, serveScript, until } from "./scripted-engine.js";

let lm: CausalLM;
let running: Running;
let anthropic: Anthropic;
let ollama: Ollama;
/** What the next text is. */
let script: Script = {};

const model = "scripted";
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] } as const;
const messages = [{ role: "user" as const, content: "How is it?" }];
const called = 'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>';
const thinking = hermesTemplate.replace("{{- '<|assistant|>' }}", "{{- '<|assistant|><think>' }}");

/** What the engine was asked for last. */
const asked = () => running.engine.requests.at(-1)!;
const prompt = (): string => lm.tokenizer.decode(asked().prompt);

beforeAll(async () => {
  lm = await loadModel(hermesTemplate);
  running = await serveScript(lm, () => script);
  anthropic = new Anthropic({ baseURL: running.address, apiKey: "not needed", maxRetries: 0 });
  ollama = new Ollama({ host: running.address });
});
afterAll(async () => {
  await running?.stop();
  await lm?.release();
});

describe("Anthropic's client", () => {
  const tools: Anthropic.Tool[] = [
    { name: "weather", description: "of a city", input_schema: { ...parameters, required: ["city"] } },
  ];
  const ask = { model, messages, max_tokens: 200 };

  test("text, with usage, limits and what ended it", async () => {
    script = { text: "It is fine today." };
    const whole = await anthropic.messages.create({ ...ask, system: [{ type: "text", text: "Be brief." }] });
    expect(whole).toMatchObject({
      type: "message",
      role: "assistant",
      model,
      stop_reason: "end_turn",
      stop_sequence: null,
    });
    expect(whole.content).toEqual([{ type: "text", text: "It is fine today." }]);
    expect(whole.usage).toMatchObject({ input_tokens: asked().prompt.length, cache_read_input_tokens: 0 });
    expect(whole._request_id).toMatch(/^req_/);
    expect(prompt()).toBe("<|system|>Be brief.\n<|user|>How is it?\n<|assistant|>");
    // The client has no words for these any more.
    const sampled = { temperature: 0.3, top_p: 0.9, top_k: 7 };
    const cut = await anthropic.messages.create({ ...ask, max_tokens: 2, ...sampled });
    expect([cut.stop_reason, cut.usage.output_tokens]).toEqual(["max_tokens", 2]);
    expect(asked().sampling).toMatchObject({ temperature: 0.3, topP: 0.9, topK: 7 });
    const stopped = await anthropic.messages.create({ ...ask, stop_sequences: ["never", " today"] });
    expect(stopped).toMatchObject({
      stop_reason: "stop_sequence",
      stop_sequence: " today",
      content: [{ text: "It is fine" }],
    });
    expect(await anthropic.messages.countTokens({ model, messages })).toEqual({
      input_tokens: lm.tokenizer.encodeChat(messages).length,
    });
  });

  test("a stream: its events in order, and the same message in the end", async () => {
    script = { text: called };
    const types: string[] = [];
    const stream = anthropic.messages.stream({ ...ask, tools });
    for await (const event of stream) types.push(event.type === "content_block_delta" ? event.delta.type : event.type);
    const { content, stop_reason, usage } = await stream.finalMessage();
    expect(types.filter((type, at) => type !== types[at - 1])).toEqual([
      "message_start",
      "content_block_start",
      "text_delta",
      "content_block_stop",
      "content_block_start",
      "input_json_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    expect([stop_reason, usage.input_tokens]).toEqual(["tool_use", asked().prompt.length]);
    const whole = await anthropic.messages.create({ ...ask, tools });
    const withoutIds = (blocks: Anthropic.ContentBlock[]) => blocks.map((each) => ({ ...each, id: "" }));
    expect(withoutIds(content)).toEqual(withoutIds(whole.content));
    expect(content).toMatchObject([{ text: "I look." }, { name: "weather", input: { city: "Bern" } }]);
  });

  test("a conversation with calls, results and thoughts is written by the template", async () => {
    script = { text: "Fine." };
    await anthropic.messages.create({
      ...ask,
      tools,
      messages: [
        ...messages,
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "Hm.", signature: "" },
            { type: "text", text: "I look." },
            { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Bern" } },
          ],
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "sunny" }] },
            { type: "text", text: "So?" },
          ],
        },
      ],
    });
    expect(prompt()).toContain(
      'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>\n<|tool|>sunny\n<|user|>So?\n<|assistant|>',
    );
  });

  test("an abort ends the text, and the next one is right", async () => {
    script = { text: "word ".repeat(300) };
    const stream = anthropic.messages.stream({ ...ask, max_tokens: 400 });
    await expect(
      (async () => {
        for await (const event of stream) if (event.type === "content_block_delta") stream.abort();
      })(),
    ).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
    await until(() => running.engine.figures().running === 0);
    script = { text: "Right." };
    expect((await anthropic.messages.create(ask)).content).toMatchObject([{ text: "Right." }]);
  });

  test("what is refused is said in Anthropic's form, by class", async () => {
    const image = { type: "image", source: { type: "url", url: "https://example.org/a.png" } } as const;
    const said = (content: unknown) => ({ messages: [{ role: "user", content }] });
    const before = running.engine.requests.length;
    for (const [body, why] of [
      [{ messages }, /max_tokens is required/],
      [{ max_tokens: 5 }, /messages is required/],
      [{ ...ask, ...said([image]) }, /messages\[0\]\.content\[0\]\.type.*"image"/],
      [{ ...ask, ...said([{ type: "text" }]) }, /messages\[0\]\.content\[0\]\.text is required/],
      [
        { ...ask, ...said([{ type: "tool_result", tool_use_id: "x", content: [image] }]) },
        /content\[0\]\.content\[0\]\.type/,
      ],
      [{ ...ask, messages: [...messages, { role: "assistant", content: "It" }] }, /the last one/],
      [{ ...ask, messages: [{ role: "owner", content: "x" }] }, /messages\[0\]\.role/],
      [{ ...ask, temperature: 3 }, /temperature/],
      [{ ...ask, stop_sequences: [""] }, /stop_sequences\[0\]/],
      [
        { ...ask, tools: [{ type: "web_search_20250305", name: "web_search" }] },
        /tools\[0\]\.type.*web_search_20250305/,
      ],
      [{ ...ask, tools, tool_choice: { type: "tool", name: "other" } }, /tool_choice.*"other"/],
      [{ ...ask, tool_choice: { type: "any" } }, /tool_choice/],
      [{ ...ask, mcp_servers: [{}] }, /mcp_servers is not supported/],
      [{ ...ask, thinking: { type: "much" } }, /thinking/],
      ["{", /no JSON/],
    ] as const) {
      const response = await running.post("/v1/messages", body);
      expect([response.status, await response.json()]).toEqual([
        400,
        { type: "error", error: { type: "invalid_request_error", message: expect.stringMatching(why) as unknown } },
      ]);
    }
    expect(running.engine.requests.length).toBe(before);
    await expect(anthropic.messages.create({ ...ask, model: "other" })).rejects.toMatchObject({
      status: 404,
      error: { type: "error", error: { type: "not_found_error" } },
    });
    const response = await fetch(`${running.address}/v1/messages`);
    expect([response.status, await response.json()]).toMatchObject([405, { type: "error" }]);
  });

  test("a text that fails says so, whole and in the middle of a stream", async () => {
    script = { text: "It is", fails: new InsituError("internal", "the pool burst") };
    await expect(anthropic.messages.create(ask)).rejects.toMatchObject({
      status: 500,
      error: { error: { type: "api_error" } },
    });
    await expect(anthropic.messages.stream(ask).finalMessage()).rejects.toThrow(/the pool burst/);
  });

  test("keys come as x-api-key, or as elsewhere", async () => {
    const kept = await serveScript(lm, () => ({ text: "Yes." }), { apiKeys: ["a long secret"] });
    try {
      const asking = (given: object) =>
        new Anthropic({
          baseURL: kept.address,
          maxRetries: 0,
          apiKey: null,
          authToken: null,
          ...given,
        }).messages.create(ask);
      expect((await asking({ apiKey: "a long secret" })).stop_reason).toBe("end_turn");
      expect((await asking({ authToken: "a long secret" })).stop_reason).toBe("end_turn");
      await expect(asking({ apiKey: "wrong" })).rejects.toBeInstanceOf(Anthropic.AuthenticationError);
      const headers = { Authorization: "Bearer a long secret" };
      expect((await new Ollama({ host: kept.address, headers }).list()).models.length).toBe(1);
      await expect(new Ollama({ host: kept.address }).list()).rejects.toMatchObject({ status_code: 401 });
    } finally {
      await kept.stop();
    }
  });
});

describe("Ollama's client", () => {
  const weather = { type: "function", function: { name: "weather", description: "of a city", parameters } };
  const tools = [weather as never];

  test("a chat, whole and as lines, with counts and what ended it", async () => {
    script = { text: "It is fine — 晴れ today." };
    const whole = await ollama.chat({ model, messages });
    expect(whole).toMatchObject({ model, done: true, done_reason: "stop", prompt_eval_count: asked().prompt.length });
    expect(whole.message).toEqual({ role: "assistant", content: script.text });
    expect(whole.total_duration).toBeGreaterThanOrEqual(whole.prompt_eval_duration);
    let text = "";
    const ends: boolean[] = [];
    for await (const part of await ollama.chat({ model, messages, stream: true })) {
      text += part.message.content;
      ends.push(part.done);
    }
    expect([text, ends.indexOf(true)]).toEqual([script.text, ends.length - 1]);
    const options = {
      num_predict: 2,
      temperature: 0.3,
      top_k: 7,
      top_p: 0.9,
      min_p: 0.1,
      seed: 5,
      repeat_penalty: 1.1,
      num_ctx: 9e6,
    };
    const cut = await ollama.chat({ model, messages, options, keep_alive: "5m" });
    expect([cut.done_reason, cut.eval_count]).toEqual(["length", 2]);
    expect(asked().sampling).toMatchObject({
      temperature: 0.3,
      topK: 7,
      topP: 0.9,
      minP: 0.1,
      seed: 5,
      repetitionPenalty: 1.1,
    });
    const stopped = await ollama.chat({ model, messages, options: { stop: [" today"] } });
    expect([stopped.message.content, stopped.done_reason]).toEqual(["It is fine — 晴れ", "stop"]);
  });

  test("streams are lines of JSON unless they are not wanted", async () => {
    script = { text: "Fine." };
    const response = await running.post("/api/chat", { model, messages });
    expect(response.headers.get("content-type")).toBe("application/x-ndjson");
    const lines = (await response.text()).trimEnd().split("\n");
    expect((JSON.parse(lines.at(-1)!) as { done: boolean }).done).toBe(true);
    const whole = await running.post("/api/generate", { model, prompt: "x", stream: false });
    expect([whole.headers.get("content-type"), await whole.json()]).toMatchObject([
      "application/json",
      { response: "Fine." },
    ]);
  });

  test("calls of tools come whole, and go back with their results", async () => {
    script = { text: called };
    const whole = await ollama.chat({ model, messages, tools });
    expect(whole.message.content).toBe("I look.");
    expect(whole.message.tool_calls).toMatchObject([{ function: { name: "weather", arguments: { city: "Bern" } } }]);
    const streamed: object[] = [];
    for await (const part of await ollama.chat({ model, messages, tools, stream: true }))
      streamed.push(...(part.message.tool_calls ?? []));
    expect(streamed).toMatchObject([{ function: { name: "weather", arguments: { city: "Bern" } } }]);
    const cut = await ollama.chat({ model, messages, tools, options: { num_predict: 14 } });
    expect([cut.done_reason, cut.message.tool_calls]).toEqual(["length", undefined]);
    script = { text: "Fine." };
    await ollama.chat({
      model,
      tools,
      messages: [...messages, whole.message, { role: "tool", tool_name: "weather", content: "sunny" }],
    });
    expect(prompt()).toContain('{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>\n<|tool|>sunny');
  });

  test("generate: by the template with a system message, or raw; without a prompt the model is there", async () => {
    script = { text: "Fine." };
    expect((await ollama.generate({ model, prompt: "How?", system: "Be brief." })).response).toBe("Fine.");
    expect(prompt()).toBe("<|system|>Be brief.\n<|user|>How?\n<|assistant|>");
    await ollama.generate({ model, prompt: "Once upon", raw: true });
    expect(asked().prompt).toEqual(lm.tokenizer.encode("Once upon"));
    const before = running.engine.requests.length;
    expect(await ollama.generate({ model, prompt: "" })).toMatchObject({
      done: true,
      done_reason: "load",
      response: "",
    });
    expect(await ollama.chat({ model, messages: [] })).toMatchObject({ done: true, done_reason: "load" });
    for await (const part of await ollama.generate({ model, prompt: "", stream: true })) expect(part.done).toBe(true);
    expect(running.engine.requests.length).toBe(before);
    const told = await ollama.generate({ model, prompt: "How?", logprobs: true, top_logprobs: 2 });
    expect(told.logprobs!.map(({ token }) => token).join("")).toBe("Fine.");
  });

  test("models: listed, shown, loaded; the version", async () => {
    const { models } = await ollama.list();
    expect(models).toMatchObject([{ name: model, model, details: { format: "onnx" } }]);
    expect(models[0].digest).toMatch(/^[0-9a-f]{64}$/);
    expect((await ollama.ps()).models.map(({ name }) => name)).toEqual([model]);
    const shown = await ollama.show({ model: `${model}:latest` });
    expect([shown.template, shown.capabilities]).toEqual([hermesTemplate, ["completion", "tools"]]);
    expect(Object.entries(shown.model_info).find(([name]) => name.endsWith(".context_length"))![1]).toBe(512);
    expect((await ollama.version()).version).toMatch(/^\d+\.\d+\.\d+$/);
  });

  test("embeddings have length 1", async () => {
    running.engine.embed = (tokens) => Promise.resolve(Float32Array.of(3 * tokens.length, 4 * tokens.length));
    const { embeddings, prompt_eval_count } = await ollama.embed({ model, input: ["Once upon", "x"] });
    expect(embeddings.map((each) => each.map((value) => value.toFixed(3)))).toEqual([
      ["0.600", "0.800"],
      ["0.600", "0.800"],
    ]);
    expect(prompt_eval_count).toBe(lm.tokenizer.encode("Once upon").length + lm.tokenizer.encode("x").length);
    delete running.engine.embed;
  });

  test("an abort ends the text, and the next one is right", async () => {
    script = { text: "word ".repeat(300) };
    const stream = await ollama.chat({ model, messages, stream: true });
    await expect(
      (async () => {
        for await (const part of stream) if (part.message.content !== "") stream.abort();
      })(),
    ).rejects.toMatchObject({ name: "AbortError" });
    await until(() => running.engine.figures().running === 0);
    script = { text: "Right." };
    expect((await ollama.chat({ model, messages })).message.content).toBe("Right.");
  });

  test("what is refused is said in Ollama's form", async () => {
    const before = running.engine.requests.length;
    for (const [path, body, status, why] of [
      ["/api/chat", { messages }, 400, /model is required/],
      ["/api/chat", { model: "other", messages }, 404, /"other" is not served/],
      [
        "/api/chat",
        { model, messages: [{ role: "user", content: "x", images: ["aGk="] }] },
        400,
        /messages\[0\]\.images/,
      ],
      ["/api/chat", { model, messages: [{ role: "owner", content: "x" }] }, 400, /messages\[0\]\.role/],
      ["/api/chat", { model, messages, options: { temperature: -1 } }, 400, /options\.temperature/],
      ["/api/chat", { model, messages, options: { mirostat: 1 } }, 400, /options\.mirostat is not supported/],
      ["/api/chat", { model, messages, options: { num_predict: 0 } }, 400, /options\.num_predict/],
      ["/api/chat", { model, messages, think: true }, 400, /think/],
      ["/api/chat", { model, messages, format: { type: "nothing" } }, 400, /format/],
      ["/api/generate", { model, prompt: "x", suffix: "y" }, 400, /suffix is not supported/],
      ["/api/generate", { model, prompt: "x", images: ["aGk="] }, 400, /images is not supported/],
      ["/api/generate", { model, prompt: "x", context: [1] }, 400, /context is not supported/],
      ["/api/embed", { model, input: "x" }, 400, /no embeddings/],
      ["/api/show", {}, 400, /model is required/],
      ["/api/chat", "{", 400, /no JSON/],
      ["/api/pull", { model: "llama3" }, 501, /\/api\/pull is not supported/],
      ["/api/create", { model: "mine" }, 501, /\/api\/create is not supported/],
      ["/api/nothing", {}, 404, /there is no \/api\/nothing/],
    ] as const) {
      const response = await running.post(path, body);
      expect([path, response.status, await response.json()]).toEqual([
        path,
        status,
        { error: expect.stringMatching(why) as unknown },
      ]);
    }
    expect(running.engine.requests.length).toBe(before);
    await expect(ollama.pull({ model: "llama3" })).rejects.toThrow(/those that it was started with/);
    await expect(ollama.delete({ model })).rejects.toThrow(/is not supported/);
    script = { text: "It is", fails: new InsituError("internal", "the pool burst") };
    await expect(ollama.chat({ model, messages })).rejects.toMatchObject({ status_code: 500 });
    const stream = await ollama.chat({ model, messages, stream: true });
    await expect(
      stream[Symbol.asyncIterator]()
        .next()
        .then(async () => {
          for await (const _ of stream);
        }),
    ).rejects.toThrow(/the pool burst/);
  });
});

test("thoughts have a place of their own at both doors", async () => {
  const thinker = await loadModel(thinking);
  const open = await serveScript(thinker, () => ({ text: "Hm, so.</think>Fine." }));
  try {
    const client = new Anthropic({ baseURL: open.address, apiKey: "none" });
    const ask = { model, messages, max_tokens: 100, thinking: { type: "enabled", budget_tokens: 50 } as const };
    const whole = await client.messages.create(ask);
    expect(whole.content).toMatchObject([
      { type: "thinking", thinking: "Hm, so." },
      { type: "text", text: "Fine." },
    ]);
    expect(whole.usage.output_tokens_details!.thinking_tokens).toBeGreaterThan(0);
    expect((await client.messages.stream(ask).finalMessage()).content).toEqual(whole.content);
    const omitted = { ...ask, thinking: { ...ask.thinking, display: "omitted" as const } };
    for (const made of [await client.messages.create(omitted), await client.messages.stream(omitted).finalMessage()])
      expect(made.content).toMatchObject([{ type: "thinking", thinking: "" }, { text: "Fine." }]);
    const other = new Ollama({ host: open.address });
    expect((await other.chat({ model, messages, think: true })).message).toEqual({
      role: "assistant",
      content: "Fine.",
      thinking: "Hm, so.",
    });
    expect(await other.generate({ model, prompt: "x" })).toMatchObject({ response: "Fine.", thinking: "Hm, so." });
    expect((await other.show({ model })).capabilities).toContain("thinking");
  } finally {
    await open.stop();
    await thinker.release();
  }
});

test("pages of other origins may ask where they are let in, and are refused in the door's own form", async () => {
  const open = await serveScript(lm, () => ({ text: "Yes." }), { cors: ["https://let.in"] });
  try {
    for (const path of ["/v1/messages", "/api/chat"]) {
      const headers = { "access-control-request-method": "POST", "access-control-request-headers": "x-api-key" };
      const asking = (method: string, sent: Readonly<Record<string, string>>) =>
        fetch(`${open.address}${path}`, { method, headers: sent });
      const before = await asking("OPTIONS", { ...headers, origin: "https://let.in" });
      expect([before.status, before.headers.get("access-control-allow-headers")]).toEqual([204, "x-api-key"]);
      const refused = await asking("POST", { origin: "https://not.let.in" });
      const told = expect.stringContaining("--cors https://not.let.in") as unknown;
      expect([refused.status, await refused.json()]).toEqual([
        403,
        path === "/api/chat" ? { error: told } : { type: "error", error: { type: "permission_error", message: told } },
      ]);
    }
  } finally {
    await open.stop();
  }
});

test("responses are not kept, and whoever asks for one is told so", async () => {
  for (const [method, path] of [
    ["GET", ""],
    ["DELETE", ""],
    ["GET", "/input_items"],
    ["POST", "/cancel"],
  ]) {
    const response = await fetch(`${running.address}/v1/responses/resp_1${path}`, { method });
    expect([response.status, await response.json()]).toMatchObject([
      404,
      { error: { code: "response_not_kept", message: expect.stringContaining("responses are not kept") as unknown } },
    ]);
  }
  const again = await running.post("/v1/responses", { input: "x", previous_response_id: "resp_1" });
  expect([again.status, await again.json()]).toMatchObject([400, { error: { param: "previous_response_id" } }]);
});
