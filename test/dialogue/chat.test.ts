// Tools in chats of the library: the embedded model with a template, its calls forced by the grammar, functions run and results sent back.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { CausalLM } from "../../src/entry/node.js";
import { CausalLM as WorkerLM } from "../../packages/worker/node.js";
import type { ChatEvent } from "../../src/generate/chat-reply.js";
import { hermesTemplate } from "../serve/scripted-engine.js";

/** The same with thoughts: the prompt opens them unless they are turned off. */
const thinkingTemplate = hermesTemplate.replace(
  "{{- '<|assistant|>' }}",
  "{{- '<|assistant|>' + ('' if enable_thinking is defined and not enable_thinking else '<think>') }}",
);

const seeds = { seed: 7, temperature: 0.8, maxTokens: 110 };
const city = { type: "object", properties: { city: { enum: ["Bern", "Köln"] } }, required: ["city"] };

let lm: CausalLM;
beforeAll(async () => {
  lm = await CausalLM.load(undefined, { threads: 1, chatTemplate: hermesTemplate });
});
afterAll(() => lm.release());

describe("functions", () => {
  test("are run, and their results sent back: a call, its result, an answer", async () => {
    const given: unknown[] = [];
    const chat = lm.chat({
      ...seeds,
      tools: {
        get_weather: {
          description: "The weather in a city",
          parameters: city,
          execute: (asked: { city: string }) => {
            given.push(asked);
            return { temperature: 21 };
          },
        },
      },
    });
    const reply = chat.send("How warm is it?", { toolChoice: "required", parallelToolCalls: false });
    const text = await reply.text();
    expect(given.length).toBe(1);
    expect(["Bern", "Köln"]).toContain((given[0] as { city: string }).city);
    const [user, called, result, answer] = chat.messages;
    expect([user.role, called.role, result.role, answer.role]).toEqual(["user", "assistant", "tool", "assistant"]);
    expect(called["tool_calls"]).toMatchObject([{ type: "function", function: { name: "get_weather" } }]);
    expect(result.content).toBe('{"temperature":21}');
    expect(answer.content).toBe(text);
    expect(chat.turns).toBe(1);
    chat.release();
  });

  test("three steps, told as events", async () => {
    const steps: number[] = [];
    const parameters = { type: "object", properties: { n: { enum: [1, 2, 3] } }, required: ["n"] };
    const execute = ({ n }: { n: number }): number => steps.push(n);
    const chat = lm.chat({
      ...seeds,
      maxTokens: 90,
      tools: { step: { parameters, execute } },
      parallelToolCalls: false,
    });
    const events: ChatEvent[] = [];
    for (const which of ["one", "two", "three"])
      for await (const event of chat.send(which, { toolChoice: "required", maxRounds: 1, stop: ["e"] }).events())
        events.push(event);
    expect(steps.length).toBeGreaterThanOrEqual(3);
    const kinds = events.map(({ type }) => type);
    for (const kind of ["tool-call-start", "tool-call-arguments", "tool-call", "tool-result"] as const)
      expect(kinds.filter((each) => each === kind).length).toBeGreaterThanOrEqual(3);
    const results = events.flatMap((event) => (event.type === "tool-result" ? [event.result] : []));
    expect(results).toEqual(steps.map((_, at) => String(at + 1)));
    chat.release();
  });

  test("schemas of zod are told to the model and read by zod", async () => {
    const parameters = z.object({ day: z.enum(["Monday", "Friday"]), hours: z.number().int().min(1).max(9) });
    let asked: unknown;
    const chat = lm.chat({
      ...seeds,
      tools: { plan: { parameters, execute: (given: z.infer<typeof parameters>) => (asked = given) && "done" } },
      maxRounds: 1,
    });
    await chat.send("Plan it", { toolChoice: { name: "plan" } }).text();
    expect(parameters.parse(asked)).toEqual(asked);
    chat.release();
  });

  test("errors go back to the model; without execute the call is the caller's, whose result goes on", async () => {
    const chat = lm.chat({
      ...seeds,
      tools: { now: { execute: () => Promise.reject(new Error("no clock")) }, ask: {} },
    });
    const first = chat.send("When?", { toolChoice: { name: "now" }, maxRounds: 1 });
    await first.text();
    expect(first.messages.find(({ role }) => role === "tool")?.content).toBe("error: no clock");
    const second = chat.send("Who?", { toolChoice: { name: "ask" } });
    await second.text();
    expect(second.toolCalls.map(({ name, arguments: given }) => [name, JSON.parse(given) as unknown])).toEqual([
      ["ask", {}],
    ]);
    const turns = chat.turns;
    const third = chat.send([{ role: "tool", tool_call_id: second.toolCalls[0].id, content: "me" }], {
      toolChoice: "none",
    });
    await third.text();
    expect(chat.turns).toBe(turns);
    expect(chat.messages.at(-2)).toMatchObject({ role: "tool", content: "me" });
    chat.release();
  });

  test("rounds are bounded, and what is no option is refused", async () => {
    let runs = 0;
    const chat = lm.chat({
      ...seeds,
      tools: { again: { execute: () => ++runs } },
      toolChoice: { name: "again" },
      maxRounds: 0,
    });
    const reply = chat.send("Go");
    await reply.text();
    expect([runs, reply.toolCalls.length]).toEqual([0, 1]);
    expect(() => lm.chat({ tools: { "no name": {} } })).toThrow(/"no name" must have a name/);
    expect(() => lm.chat({ tools: {}, toolChoice: "required" })).toThrow(/toolChoice/);
    expect(() => lm.chat({ tool: {} } as object)).toThrow(/tool/);
    chat.release();
  });

  test("streams: bytes of the text, and lines of events", async () => {
    const chat = lm.chat({ ...seeds, maxTokens: 24 });
    const response = new Response(chat.send("Once").toReadableStream());
    const text = await response.text();
    expect(text).toBe(chat.messages.at(-1)!.content);
    const events = await new Response(chat.send("Again").toReadableStream("events")).text();
    const lines = events
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as ChatEvent);
    expect(lines.map((event) => (event.type === "text" ? event.text : "")).join("")).toBe(
      chat.messages.at(-1)!.content,
    );
    expect(await new Response(lm.generate("Once upon", { maxTokens: 8, seed: 1 }).toReadableStream()).text()).toBe(
      await lm.generate("Once upon", { maxTokens: 8, seed: 1 }).text(),
    );
    chat.release();
  });
});

describe("reasoning", () => {
  let thinker: CausalLM;
  beforeAll(async () => {
    thinker = await CausalLM.load(undefined, { threads: 1, chatTemplate: thinkingTemplate });
  });
  afterAll(() => thinker.release());

  test("is told apart and bounded by a budget: then its end is forced", async () => {
    const chat = thinker.chat({ ...seeds, maxTokens: 40, reasoning: { budget: 12 } });
    const reply = chat.send("Why?");
    const text = await reply.text();
    expect(reply.reasoning).not.toBe("");
    expect(text).not.toBe("");
    expect(thinker.tokenizer.encode(reply.reasoning, { specialTokens: false }).length).toBeLessThanOrEqual(14);
    expect(chat.messages.at(-1)).toMatchObject({
      role: "assistant",
      content: text,
      reasoning_content: reply.reasoning,
    });
    chat.release();
  });

  test("effort none turns it off, and a schema or a call holds behind it", async () => {
    const chat = thinker.chat({ ...seeds, maxTokens: 60, reasoning: { budget: 8 } });
    const plain = chat.send("Why?", { reasoning: { effort: "none" } });
    await plain.text();
    expect(plain.reasoning).toBe("");
    const schema = chat.send("Which?", { jsonSchema: city });
    expect(["Bern", "Köln"]).toContain((JSON.parse(await schema.text()) as { city: string }).city);
    expect(schema.reasoning).not.toBe("");
    const call = chat.send("Do it", {
      tools: { go: { parameters: city } },
      toolChoice: "required",
      parallelToolCalls: false,
      maxTokens: 120,
    });
    await call.text();
    expect([call.reasoning !== "", call.toolCalls.map(({ name }) => name)]).toEqual([true, ["go"]]);
    chat.release();
  });
});

test("the same in a worker: tools run on this side", async () => {
  const remote = await WorkerLM.load(undefined, { threads: 1, chatTemplate: hermesTemplate });
  try {
    const given: unknown[] = [];
    const chat = remote.chat({
      ...seeds,
      tools: { get_weather: { parameters: city, execute: (asked: { city: string }) => (given.push(asked), "warm") } },
    });
    const text = await chat.send("How warm is it?", { toolChoice: "required", parallelToolCalls: false }).text();
    expect(given.length).toBe(1);
    expect(chat.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
    expect(chat.messages.at(-1)!.content).toBe(text);
    const local = lm.chat({ ...seeds, tools: { get_weather: { parameters: city, execute: () => "warm" } } });
    await local.send("How warm is it?", { toolChoice: "required", parallelToolCalls: false }).text();
    expect(local.messages.at(-1)!.content).toBe(text);
    local.release();
    await chat.release();
  } finally {
    await remote.release();
  }
});
