// What one client sends holds nobody else up: bodies are bounded while they come and looked at up to their first fault, nothing is kept of them that
// is not needed, slow ones take nobody's place, texts are measured before they become tokens, and every request ends by its time.
import { connect, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { CausalLM } from "../../src/entry/node.js";
import { type AnswerTools, answerTexts } from "../../packages/serve/answer-texts.js";
import type { LogEntry } from "../../packages/serve/server.js";
import { JsonBounds } from "../../packages/serve/json-bounds.js";
import { Metrics } from "../../packages/serve/metrics.js";
import { readServerOptions } from "../../packages/serve/options.js";
import { RequestRecord } from "../../packages/serve/request-record.js";
import type { Answer } from "../../packages/serve/wire/answer.js";
import { prepareChat } from "../../packages/serve/wire/chat.js";
import { prepareCompletion } from "../../packages/serve/wire/completions.js";
import { prepareEmbeddings } from "../../packages/serve/wire/embeddings.js";
import { prepareResponse } from "../../packages/serve/wire/responses.js";
import { ServedModel } from "../../packages/serve/wire/served-model.js";
import { detokenize, tokenize } from "../../packages/serve/wire/tokens.js";
import { WorkTurns } from "../../packages/serve/work-turns.js";
import {
  eventsOf,
  hermesTemplate,
  loadModel,
  type Running,
  type Script,
  ScriptedEngine,
  serveScript,
  until,
} from "./scripted-engine.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

let lm: CausalLM;
let running: Running;
let script: Script = {};
const log: LogEntry[] = [];
const messages = [{ role: "user", content: "Once" }];
const [chat, completions, responses] = ["/v1/chat/completions", "/v1/completions", "/v1/responses"];
const limits = readServerOptions().limits;

beforeAll(async () => {
  lm = await loadModel(hermesTemplate);
  running = await serveScript(lm, () => script, {
    log: (entry) => log.push(entry),
    limits: { openRequests: 100, seconds: 20 },
    waiting: 100,
  });
});
afterAll(async () => {
  await running?.stop();
  await lm?.release();
});
afterEach(async () => {
  running.engine.go();
  await until(() => running.engine.figures().running + running.engine.figures().waiting === 0);
  script = { text: "All is right." };
  const response = await running.post(completions, { prompt: "Once", max_tokens: 8 });
  expect(await response.json()).toMatchObject({ choices: [{ text: "All is right." }] });
});

interface Refusal {
  readonly error: { readonly message: string; readonly param: string | null; readonly code: string };
}

async function refused(path: string, body: unknown, status = 400): Promise<Refusal["error"]> {
  const response = await running.post(path, body);
  expect(response.status).toBe(status);
  return ((await response.json()) as Refusal).error;
}

describe("bodies that are refused", () => {
  const many = <T>(value: T): T[] => Array<T>(100_000).fill(value);
  const user = (content: unknown): object => ({ messages: [{ role: "user", content }] });
  const model = (): ServedModel => new ServedModel(lm, running.engine, "scripted", new WorkTurns());

  /** The same value, in which each look at an element of a list, or at a name, is counted. */
  function watched(value: unknown, looked: { count: number }): unknown {
    if (typeof value !== "object" || value === null) return value;
    return new Proxy(value, {
      get(target, key) {
        if (typeof key === "string") looked.count++;
        const inner: unknown = Reflect.get(target, key);
        return typeof inner === "object" ? watched(inner, looked) : inner;
      },
    });
  }

  test.each([
    ["tokens that are none", prepareCompletion, { prompt: many(0.5) }, "prompt[0]"],
    ["empty lists of tokens", prepareCompletion, { prompt: many([]) }, "prompt[0]"],
    ["lists of wrong tokens", prepareCompletion, { prompt: many([-1]) }, "prompt[0][0]"],
    ["a wrong token behind right ones", prepareCompletion, { prompt: [...many(5), -1] }, "prompt[100000]"],
    ["messages", prepareChat, { messages: many(0) }, "messages[0]"],
    ["empty messages", prepareChat, { messages: many({}) }, "messages[0].role"],
    ["parts", prepareChat, user(many(0)), "messages[0].content[0]"],
    ["calls", prepareChat, { messages: [{ role: "assistant", tool_calls: many(0) }] }, "messages[0].tool_calls[0]"],
    ["stops", prepareChat, { messages, stop: many(0) }, "stop"],
    ["tools", prepareChat, { messages, tools: many(0) }, "tools"],
    ["modalities", prepareChat, { messages, modalities: many(0) }, "modalities[0]"],
    ["biases", prepareChat, { messages, logit_bias: Object.fromEntries(many("x").entries()) }, "logit_bias.0"],
    ["items", prepareResponse, { input: many(0) }, "input[0]"],
    ["includes", prepareResponse, { input: "x", include: many(0) }, "include[0]"],
    ["metadata", prepareResponse, { input: "x", metadata: Object.fromEntries(many(1).entries()) }, "metadata.0"],
    ["inputs", prepareEmbeddings, { input: many(0.5) }, "input[0]"],
    ["texts", tokenize, { messages: many(0) }, "messages[0]"],
    ["tokens", detokenize, { tokens: many(-1) }, "tokens[0]"],
  ] as const)("%s: up to the first fault", async (_, read, body, param) => {
    const looked = { count: 0 };
    const given = watched(body, looked);
    const fault = await Promise.resolve()
      .then((): Promise<unknown> => read(given, model(), limits))
      .catch((error: unknown) => error);
    expect(fault).toMatchObject({ status: 400, param });
    // Right elements are looked at a few times; those behind the fault never.
    expect(looked.count).toBeLessThan(/\d{5}/.test(param) ? 700_000 : 400);
  });

  test("lists and objects are counted, and how deep they lie, before anything is made of them", async () => {
    const nested = (depth: number): string => `{"prompt":"Once","x":${"[".repeat(depth)}${"]".repeat(depth)}}`;
    script = { text: "a" };
    expect((await running.post(completions, nested(127))).status).toBe(200);
    expect(await refused(completions, nested(128))).toMatchObject({ code: "body_too_complex", param: null });
    expect(
      await refused(responses, `{"input":"a","text":{"format":{"type":"text","y":${"[".repeat(1e5)}`),
    ).toMatchObject({ code: "body_too_complex" });
    const lists = (count: number): string => `{"prompt":"Once","x":[${Array(count).fill("{}").join(",")}]}`;
    expect((await running.post(completions, lists(32_766))).status).toBe(200);
    expect((await refused(completions, lists(32_767))).message).toContain("32768 lists and objects");
    const names = (count: number): string => `{"prompt":"Once","x":{${Array(count).fill('"a":1').join(",")}}}`;
    expect((await running.post(completions, names(131_070))).status).toBe(200);
    expect((await refused(completions, names(131_071))).message).toContain("131072 names");
  });

  test("so are those that arguments of calls hold, as text in text, and all that templates write", async () => {
    const called = (text: string): object => ({
      messages: [{ role: "assistant", tool_calls: [{ function: { name: "x", arguments: text } }] }],
    });
    const param = "messages[0].tool_calls[0].function.arguments";
    expect(await refused(chat, called("[".repeat(20_000)))).toMatchObject({ code: "body_too_complex", param });
    const ones = Array<number>(70_000).fill(1);
    expect((await refused(chat, called(JSON.stringify(ones)))).message).toMatch(/may hold 65536 values, got more$/);
    const tools = [{ type: "function", function: { name: "x", parameters: { enum: ones } } }];
    expect((await refused(chat, { messages, tools })).message).toMatch(/may hold 65536 values/);
  });

  test("brackets in texts are text, wherever the bytes are cut", () => {
    const bytes = new TextEncoder().encode(JSON.stringify({ a: `${'[{\\"'.repeat(500)}:`, "b[": ["\\", '"['] }));
    for (let length = 1; length < 9; length++) {
      const bounds = new JsonBounds();
      for (let at = 0; at < bytes.length; at += length) bounds.push(bytes.subarray(at, at + length));
    }
    expect(() => new JsonBounds().push(new TextEncoder().encode(`"\\\\"${"[".repeat(129)}`))).toThrow(/128 deep/);
  });

  test("who is refused while it still sends hears why", async () => {
    const text = `{"prompt":${"[".repeat(2_000_000)}`;
    for (let count = 0; count < 5; count++)
      expect(await refused(completions, text)).toMatchObject({ code: "body_too_complex" });
  });

  test.each([
    [{ "content-encoding": "gzip" }, 415],
    [{ "content-type": "application/json; charset=utf-16" }, 415],
    [{ "content-type": 'application/json; charset="ISO-8859-1"' }, 415],
    [{ "content-type": "application/json; charset=UTF-8", "content-encoding": "identity" }, 200],
  ])("%j: %i", async (headers, status) => {
    script = { text: "a" };
    const body = JSON.stringify({ prompt: "Once" });
    const response = await fetch(`${running.address}${completions}`, { method: "POST", body, headers });
    expect(response.status).toBe(status);
    await response.text();
  });

  test("a page may not name the host that it is compared with", async () => {
    const headers = { origin: "http://elsewhere.example", "x-forwarded-host": "elsewhere.example" };
    const response = await running.post(completions, { prompt: "Once" }, { headers });
    expect(response.status).toBe(403);
  });
});

describe("what is kept of a request", () => {
  const ballast = (count: number): string => Array(count).fill('{"a":[]}').join(",");

  test("nothing that is not needed, while its text waits", async () => {
    running.engine.held = true;
    collect();
    const before = process.memoryUsage().heapUsed;
    const asked = [responses, chat, completions].flatMap((path) =>
      Array.from({ length: 12 }, () =>
        running.post(
          path,
          `{"input":"Once","prompt":"Once","messages":[{"role":"user","content":"Once","x":[${ballast(4000)}]}],"x":[${ballast(10_000)}],"tool_choice":"none"}`.replace(
            path === responses ? '"prompt":"Once",' : "",
            "",
          ),
        ),
      ),
    );
    await until(() => running.engine.figures().waiting === asked.length);
    collect();
    const kept = process.memoryUsage().heapUsed - before;
    running.engine.go();
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(asked.map(() => 200));
    // Each body takes more than 2 MiB once it is parsed.
    expect(kept / asked.length).toBeLessThan(300_000);
  });

  test("large requests hold so much together and no more; others are served", async () => {
    running.engine.held = true;
    const large = { prompt: "Once", stop: ["x".repeat(4_000_000)] };
    const asked: Promise<Response>[] = [];
    for (let count = 1; count <= 16; count++) {
      asked.push(running.post(completions, large));
      await until(() => running.engine.figures().waiting === count);
    }
    expect(await refused(completions, large, 429)).toMatchObject({ code: "too_many_requests" });
    asked.push(running.post(completions, { prompt: "Once" }));
    await until(() => running.engine.figures().waiting === 17);
    script = { text: "a" };
    running.engine.go();
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(asked.map(() => 200));
    expect((await running.post(completions, large)).status).toBe(200);
  });
});

describe("slow bodies", () => {
  const open = async (address: string, length: number, begin: string): Promise<Socket & { got: string }> => {
    const { hostname, port } = new URL(address);
    const socket = Object.assign(connect(Number(port), hostname), { got: "" });
    socket.on("data", (chunk) => void (socket.got += String(chunk)));
    socket.on("error", () => {});
    await new Promise((resolve) => socket.once("connect", resolve));
    socket.write(`POST ${completions} HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n${begin}`);
    return socket;
  };

  test("take nobody's place", async () => {
    const few = await serveScript(lm, () => ({ text: "a" }), { limits: { openRequests: 2 } });
    const sockets = await Promise.all(Array.from({ length: 20 }, () => open(few.address, 1000, "{")));
    try {
      for (let count = 0; count < 3; count++)
        expect((await few.post(completions, { prompt: "Once" })).status).toBe(200);
      // Once it is there, it is one like any other.
      sockets[0].write(`"prompt":"Once"}`.padEnd(999));
      await until(() => sockets[0].got.includes("200 OK"));
    } finally {
      for (const socket of sockets) socket.destroy();
      await few.stop();
    }
  });

  test("that are large make room for those that are quick", async () => {
    const begin = `{"prompt":"Once","x":"${"x".repeat(100_000)}`;
    const sockets = await Promise.all(Array.from({ length: 12 }, () => open(running.address, 1_000_000, begin)));
    script = { text: "a" };
    const response = await running.post(completions, { prompt: "Once", x: "x".repeat(3_000_000) });
    expect(response.status).toBe(200);
    await until(() => sockets.some(({ got }) => got.includes("408 Request Timeout") && got.includes("body_too_slow")));
    for (const socket of sockets) socket.destroy();
  });
});

describe("texts that are too long", () => {
  const word = Array.from({ length: 300_000 }, (_, at) => "etaoinshrdlu"[(at * at + at * 7) % 12]).join("");
  const tool = { type: "function", function: { name: "x", description: word, parameters: {} } };
  const call = { id: "1", type: "function", function: { name: "x", arguments: JSON.stringify(word) } };

  test.each([
    ["/tokenize", { prompt: word }, "prompt"],
    ["/tokenize", { messages: [{ role: "user", content: word }] }, "messages"],
    [completions, { prompt: word }, "prompt"],
    [completions, { prompt: ["Once", word] }, "prompt"],
    [chat, { messages: [{ role: "user", content: word }] }, "messages"],
    [chat, { messages, tools: [tool] }, "messages"],
    [chat, { messages: [...messages, { role: "assistant", tool_calls: [call] }] }, "messages"],
    [responses, { input: "Once", instructions: word }, "input"],
    [responses, { input: [{ type: "function_call", call_id: "1", name: "x", arguments: word }] }, "input"],
  ])("%s: become no tokens", async (path, body, param) => {
    const { tokenizer } = lm;
    let steps = 0;
    const counted =
      <T extends unknown[]>(begin: (...given: T) => Iterator<void, number[]>) =>
      (...given: T): Iterator<void, number[]> => {
        const work = begin(...given);
        return { next: () => (steps++, work.next()) };
      };
    Object.assign(tokenizer, {
      encodeSteps: counted(tokenizer.encodeSteps.bind(tokenizer)),
      encodeChatSteps: counted(tokenizer.encodeChatSteps.bind(tokenizer)),
    });
    try {
      expect(await refused(path, body)).toMatchObject({ code: "context_length_exceeded", param });
      expect(steps).toBe(0);
    } finally {
      for (const name of ["encodeSteps", "encodeChatSteps"]) Reflect.deleteProperty(tokenizer, name);
    }
  });

  test("tokens that are too many become no text", async () => {
    const { message } = await refused("/detokenize", { tokens: Array<number>(65_537).fill(5) });
    expect(message).toBe("tokens: at most 65536 become text, got 65537");
    expect((await running.post("/detokenize", { tokens: Array<number>(65_536).fill(5) })).status).toBe(200);
  });

  test("prompts are counted before they become tokens", async () => {
    const { message } = await refused(completions, { prompt: Array(60).fill(word.slice(0, 60_000)) });
    expect(message).toBe("prompt: at most 16 completions can be asked for at once, got 60");
  });

  test("what is long and fits is read in turns with others", async () => {
    const wide = await serveScript(lm, () => ({ text: "a" }), { context: 100_000, limits: { bodyBytes: 1 << 20 } });
    const { post, stop } = wide;
    let turns = 0;
    const counting = setInterval(() => turns++, 0);
    const response = await post(completions, { prompt: "There was once a wolf. ".repeat(14_000) });
    clearInterval(counting);
    expect([response.status, turns > 5]).toEqual([200, true]);
    await stop();
  });
});

describe("every request ends by its time", () => {
  test("whatever it waits for", async () => {
    const brief = await serveScript(lm, () => ({ text: "a" }), {
      limits: { seconds: 1 },
      log: (entry) => log.push(entry),
    });
    brief.engine.embed = () => new Promise(() => {});
    const response = await brief.post("/v1/embeddings", { input: "Once" });
    expect([response.status, await response.json()]).toMatchObject([504, { error: { code: "timeout" } }]);
    expect(log.at(-1)).toMatchObject({
      path: "/v1/embeddings",
      status: 504,
      error: "the request took longer than 1 seconds",
    });
    const { hostname, port } = new URL(brief.address);
    const socket = connect(Number(port), hostname);
    let got = "";
    socket.on("data", (chunk) => void (got += String(chunk)));
    socket.write(`POST ${chat} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{`);
    await until(() => got.includes("504 Gateway Timeout"));
    socket.destroy();
    await brief.stop();
  });

  /** An answer that cannot be written. */
  class Unwritable implements Answer {
    readonly heldBytes = 0;
    readonly #broken: string;

    constructor(broken: string) {
      this.#broken = broken;
    }

    readonly #write = (what: string): [{ data: string }] => {
      if (this.#broken.includes(what)) throw new RangeError("Maximum call stack size exceeded");
      return [{ data: JSON.stringify(what) }];
    };
    readonly begin = (): [{ data: string }] => this.#write("begin");
    readonly event = (): [{ data: string }] => this.#write("event");
    readonly end = (): [{ data: string }] => this.#write("end");
    readonly failed = (): [{ data: string }] => this.#write("failed");
    readonly body = (): object => this.#write("body");
  }

  const answer = async (broken: string, stream: boolean): Promise<{ told: unknown; status: number; over: number }> => {
    const engine = new ScriptedEngine(lm, () => ({ text: "a b c" }));
    const entries: LogEntry[] = [];
    const record = new RequestRecord(new Request("http://x/y"), (_, entry) => entries.push(entry));
    let over = 0;
    const tools: AnswerTools = {
      model: new ServedModel(lm, engine, "scripted", new WorkTurns()),
      metrics: new Metrics("insitu", "scripted", () => []),
      limits,
      client: { tenant: "x" },
      record,
      signal: new AbortController().signal,
      hold: () => {},
      over: () => over++,
    };
    const ends = { stop: [], minTokens: 0, stopsFrom: 0, endTokens: new Set<number>() };
    const ask = { prompt: [1], maxTokens: 9, ...ends };
    const sampling = { ...lm.defaults.sampling, seed: 1 } as never;
    const prepared = { asks: [{ ...ask, sampling }], answer: new Unwritable(broken), stream, priority: 0 };
    const response = await answerTexts(prepared, tools).catch((error: unknown) => error);
    if (!(response instanceof Response)) return { told: response, status: 0, over };
    const told: unknown = stream ? eventsOf(await response.text()).at(-1) : await response.json();
    return { told, status: entries[0]?.status ?? response.status, over };
  };

  test("also where its answer cannot be written", async () => {
    expect(await answer("body", false)).toMatchObject({ told: { status: 500, code: "internal_error" }, over: 1 });
    expect(await answer("event", false)).toMatchObject({ told: { status: 500 } });
    for (const broken of ["end", "event"])
      expect(await answer(broken, true)).toMatchObject({ told: "failed", status: 500, over: 1 });
    for (const broken of ["end failed", "event failed"])
      expect(await answer(broken, true)).toMatchObject({ told: { error: { code: "internal_error" } }, status: 500 });
  });
});

describe("streams", () => {
  const ask = {
    input: "Once",
    stream: true,
    max_output_tokens: 400,
    include: ["message.output_text.logprobs"],
    top_logprobs: 20,
  };

  test("who reads has all of it, however much is said in one go", async () => {
    script = { tokens: Array<number>(300).fill(300) };
    const text = await (await running.post(responses, ask)).text();
    expect(text.length).toBeGreaterThan(4 * limits.waitingBytes);
    expect(text).toMatch(/event: response\.completed\ndata: .*\n\n$/);
    script = { text: "a" };
    const metadata = { note: "x".repeat(2 * limits.waitingBytes) };
    const repeated = await (await running.post(responses, { input: "Once", stream: true, metadata })).text();
    expect(repeated).toMatch(/event: response\.completed\ndata: .*\n\n$/);
  });
});
