// What goes wrong outside: clients that leave, stall, crowd and send nonsense. After each, every block is free and the next request is right.
import { connect, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import type { CausalLM } from "../../src/entry/node.js";
import type { LogEntry } from "../../packages/serve/server.js";
import {
  eventsOf,
  hermesTemplate,
  loadModel,
  type Running,
  type Script,
  serveScript,
  until,
} from "./scripted-engine.js";
import { soak } from "../support/soak.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const seed = Number(process.env["INSITU_SEED"] ?? Date.now() % 1e9);

let lm: CausalLM;
let running: Running;
let script: Script = {};
/** While nonsense is sent, a text that must obey something has no token. */
let isNonsense = false;
const log: LogEntry[] = [];
const messages = [{ role: "user", content: "Once" }];
const chat = "/v1/chat/completions";

beforeAll(async () => {
  lm = await loadModel(hermesTemplate);
  running = await serveScript(lm, ({ constraint }) => (isNonsense && constraint !== undefined ? {} : script), {
    log: (entry) => log.push(entry),
    limits: { openRequests: 200 },
    waiting: 6,
    slots: 2,
  });
});
afterAll(async () => {
  await running?.stop();
  await lm?.release();
});

afterEach(async () => {
  running.engine.go();
  await until(() => running.engine.figures().running + running.engine.figures().waiting === 0);
  expect(running.engine.figures().blocksUsed).toBe(0);
  script = { text: "All is right." };
  const response = await running.post(chat, { messages });
  const body = (await response.json()) as { choices: { message: object }[] };
  expect(body.choices[0].message).toMatchObject({ content: "All is right." });
});

/** A request by hand, of which nothing is read. */
async function rawRequest(address: string, body: object): Promise<Socket> {
  const text = JSON.stringify(body);
  const { hostname, port } = new URL(address);
  const socket = connect(Number(port), hostname);
  await new Promise((resolve) => socket.once("connect", resolve));
  socket.pause();
  socket.write(
    `POST ${chat} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  );
  return socket;
}

const lastEnd = (): string | undefined => log.at(-1)?.end;

test.each([true, false])("the client leaves before the first token (stream: %s)", async (stream) => {
  running.engine.held = true;
  const leave = new AbortController();
  const asked = running.post(chat, { messages, stream }, { signal: leave.signal });
  asked.catch(() => {});
  await until(() => running.engine.figures().waiting === 1);
  leave.abort();
  await until(() => running.engine.figures().waiting === 0);
  await until(() => lastEnd() === "gone");
});

test("the client leaves in the middle", async () => {
  script = { text: "word ".repeat(400) };
  const leave = new AbortController();
  const response = await running.post(chat, { messages, stream: true, n: 2 }, { signal: leave.signal });
  const reader = response.body!.getReader();
  await reader.read();
  await until(() => running.engine.figures().madeTokens > 3);
  leave.abort();
  await until(() => running.engine.figures().running === 0);
  await until(() => lastEnd() === "gone");
});

test("a reader that stalls: what waits is bounded, its text ends, others go on", async () => {
  const ends: LogEntry[] = [];
  const wide = await serveScript(lm, () => ({ tokens: Array<number>(2_000_000).fill(300) }), {
    log: (entry) => ends.push(entry),
    limits: { waitingBytes: 20_000 },
    context: 4_000_000,
  });
  try {
    // More than the system's own buffers take, and more than any machine makes before the stall is noticed.
    const socket = await rawRequest(wide.address, { messages, stream: true, logprobs: true, top_logprobs: 20 });
    const other = await wide.post(chat, { messages, stream: true, max_tokens: 50 });
    expect(eventsOf(await other.text()).at(-1)).toBe("[DONE]");
    await until(() => ends.length === 2);
    expect(ends.map(({ end }) => end)).toEqual(["length", "slow"]);
    expect(wide.engine.figures()).toMatchObject({ running: 0, blocksUsed: 0 });
    expect(await (await fetch(`${wide.address}/metrics`)).text()).toContain('insitu_lost_streams_total{why="slow"} 1');
    // Whoever reads on finds what waited, and that it is cut there.
    let rest = "";
    socket.on("data", (chunk) => void (rest = (rest + String(chunk)).slice(-1000)));
    socket.resume();
    await until(() => rest.endsWith("0\r\n\r\n"));
    expect(rest).toContain('"code":"slow_reader"');
    socket.destroy();
  } finally {
    await wide.stop();
  }
});

test("ten times more requests than the queue takes: the others hear when to come again", async () => {
  running.engine.held = true;
  script = { text: "a time" };
  let answered = 0;
  const asked = Array.from({ length: 80 }, async () => {
    const response = await running.post(chat, { messages });
    answered++;
    return response;
  });
  await until(() => answered === 74);
  running.engine.go();
  const responses = await Promise.all(asked);
  const refused = responses.filter(({ status }) => status === 429);
  expect([responses.filter(({ status }) => status === 200).length, refused.length]).toEqual([6, 74]);
  expect(refused.every(({ headers }) => headers.get("retry-after") === "3")).toBe(true);
  expect(await refused[0].json()).toMatchObject({ error: { type: "rate_limit_error", code: "queue_full" } });
});

test("of several texts that do not all find room none is made", async () => {
  running.engine.held = true;
  const before = running.engine.figures().madeTokens;
  const response = await running.post(chat, { messages, n: 8 });
  expect(response.status).toBe(429);
  expect(running.engine.figures()).toMatchObject({ waiting: 0, madeTokens: before });
});

test("a request that takes too long ends, whole or streamed", async () => {
  const brief = await serveScript(lm, () => ({ text: "a time" }), { limits: { seconds: 1 } });
  brief.engine.held = true;
  const [whole, streamed] = await Promise.all([
    brief.post(chat, { messages }),
    brief.post(chat, { messages, stream: true }),
  ]);
  expect([whole.status, await whole.json()]).toMatchObject([504, { error: { code: "timeout" } }]);
  expect(eventsOf(await streamed.text()).at(-1)).toMatchObject({ error: { code: "timeout" } });
  expect(brief.engine.figures()).toMatchObject({ waiting: 0, running: 0 });
  await brief.stop();
});

test("one text that fails takes its own request along, and no other", async () => {
  script = { text: "a long way ".repeat(20) };
  running.engine.held = true;
  const other = running.post(chat, { messages });
  await until(() => running.engine.figures().waiting === 1);
  script = {
    text: "a",
    fails: new InsituError("invalid-model", "the model's logits cannot be sampled: the largest is NaN"),
  };
  const asked = running.post(chat, { messages });
  await until(() => running.engine.figures().waiting === 2);
  running.engine.go();
  const failed = await asked;
  expect([failed.status, await failed.json()]).toMatchObject([500, { error: { code: "invalid-model" } }]);
  expect((await other).status).toBe(200);
});

test("a schema that cannot be compiled, among those that can be", async () => {
  const ask = async (schema: unknown): Promise<number> => {
    const response_format = { type: "json_schema", json_schema: { name: "x", schema } };
    const response = await running.post(chat, { messages, response_format });
    await response.arrayBuffer();
    return response.status;
  };
  script = { text: '{"a": 1}' };
  const good = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
  const statuses = await Promise.all([
    ask(good),
    ask({ type: "array", contains: { const: 1 } }),
    ask(good),
    ask({ type: "string", pattern: "(a)\\1" }),
    ask({ $ref: "#/nowhere" }),
    ask("no schema"),
    ask(good),
  ]);
  expect(statuses).toEqual([200, 400, 200, 400, 400, 400, 200]);
});

/** A part of a message as Anthropic's clients send them. */
const block = fc.record(
  {
    type: fc.constantFrom("text", "tool_use", "tool_result", "thinking", "redacted_thinking", "image"),
    text: fc.string(),
    thinking: fc.string(),
    id: fc.string(),
    name: fc.string(),
    input: fc.object(),
    tool_use_id: fc.string(),
    content: fc.oneof(fc.string(), fc.anything()),
  },
  { requiredKeys: ["type"] },
);

/** What stands in for a field of a body that is right. */
const fields: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  model: fc.constantFrom("scripted", "another", null),
  messages: fc.array(
    fc.record(
      {
        role: fc.constantFrom("user", "assistant", "tool", "system", "x"),
        content: fc.oneof(fc.string(), fc.anything(), fc.array(block)),
        tool_calls: fc.array(fc.record({ function: fc.oneof(fc.object(), fc.record({ name: fc.string() })) })),
        images: fc.anything(),
      },
      { requiredKeys: [] },
    ),
  ),
  system: fc.oneof(fc.string(), fc.array(block)),
  thinking: fc.record({ type: fc.constantFrom("enabled", "disabled", "adaptive", "x"), budget_tokens: fc.integer() }),
  stop_sequences: fc.array(fc.string()),
  output_config: fc.record({ effort: fc.string(), format: fc.object() }, { requiredKeys: [] }),
  options: fc.record(
    {
      num_predict: fc.integer({ min: -3, max: 8 }),
      temperature: fc.double({ min: -0.5, max: 2.5 }),
      stop: fc.oneof(fc.string(), fc.array(fc.string())),
      seed: fc.integer(),
      mirostat: fc.anything(),
    },
    { requiredKeys: [] },
  ),
  format: fc.oneof(fc.constantFrom("json", "", "x"), fc.object()),
  think: fc.constantFrom(true, false, "low", 3),
  raw: fc.boolean(),
  input: fc.oneof(fc.string(), fc.array(fc.object())),
  prompt: fc.oneof(fc.string(), fc.array(fc.integer()), fc.array(fc.array(fc.nat(5000)))),
  tools: fc.array(fc.record({ type: fc.constant("function"), function: fc.object() })),
  tool_choice: fc.constantFrom("auto", "none", "required"),
  response_format: fc.record({
    type: fc.constantFrom("json_object", "text", "json_schema"),
    json_schema: fc.record({ schema: fc.object() }),
  }),
  stop: fc.oneof(fc.string(), fc.array(fc.string())),
  stream: fc.boolean(),
  n: fc.integer({ min: -1, max: 4 }),
  max_tokens: fc.integer({ min: -1, max: 8 }),
  logit_bias: fc.dictionary(fc.nat(5000).map(String), fc.integer({ min: -110, max: 110 })),
  logprobs: fc.constantFrom(true, false, 3, null),
  top_logprobs: fc.integer({ min: -1, max: 22 }),
  temperature: fc.double({ min: -0.5, max: 2.5 }),
  seed: fc.integer(),
  stream_options: fc.object(),
  tokens: fc.array(fc.nat(5000)),
};

const right = { model: "scripted", messages, input: "Once", prompt: "Once", tokens: [1, 2], max_tokens: 8 };

/** A body that is right but for a few fields. */
const nearly = fc
  .uniqueArray(
    fc
      .constantFrom(...Object.keys(fields))
      .chain((name) =>
        fc.tuple(
          fc.constant(name),
          fc.oneof({ weight: 3, arbitrary: fields[name] }, { weight: 1, arbitrary: fc.anything() }),
        ),
      ),
    { maxLength: 4, selector: ([name]) => name },
  )
  .map((changed): object => ({ ...right, ...Object.fromEntries(changed) }));

const paths = [
  chat,
  "/v1/completions",
  "/v1/responses",
  "/v1/embeddings",
  "/tokenize",
  "/detokenize",
  "/v1/messages",
  "/v1/messages/count_tokens",
  "/api/chat",
  "/api/generate",
  "/api/embed",
  "/api/show",
];

test("nonsense is answered, never with a failure of ours", async () => {
  script = { text: "a" };
  isNonsense = true;
  const { server } = running;
  const body = fc.oneof(
    { weight: 6, arbitrary: nearly.map((value) => JSON.stringify(value) as string | undefined) },
    { weight: 1, arbitrary: fc.string() },
    { weight: 1, arbitrary: fc.json() },
  );
  const seen = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...paths), body, async (path, text) => {
      const response = await server.fetch(
        new Request(`http://x${path}`, {
          method: "POST",
          body: text ?? "",
          headers: { "content-type": "application/json" },
        }),
      );
      const told = await response.text();
      seen.set(response.status, (seen.get(response.status) ?? 0) + 1);
      expect([200, 400, 404], `${path} ${text}: ${told}`).toContain(response.status);
      const error = path.startsWith("/api/") ? "error" : "error.message";
      if (response.status !== 200) expect(JSON.parse(told)).toHaveProperty(error, expect.any(String));
    }),
    { numRuns: soak ? 10_000 : 300, seed },
  );
  isNonsense = false;
  console.log(`seed ${seed}: ${[...seen].map(([status, count]) => `${count} × ${status}`).join(", ")}`);
});

test.runIf(soak)("clients that come and leave at random leave nothing behind", async () => {
  script = { text: "word ".repeat(60) };
  const settle = async (): Promise<number> => {
    await until(() => running.engine.figures().running + running.engine.figures().waiting === 0);
    collect();
    return process.memoryUsage().heapUsed;
  };
  const round = async (): Promise<void> => {
    for (let count = 0; count < 400; count++) {
      const leave = new AbortController();
      setTimeout(() => leave.abort(), Math.random() * 30);
      const asked = running.post(chat, { messages, stream: count % 2 === 0 }, { signal: leave.signal });
      void asked.then((response) => response.text()).catch(() => {});
      if (count % 4 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  const rounds: number[] = [];
  for (let count = 0; count < 8; count++) {
    await round();
    log.length = 0;
    running.engine.requests.length = 0;
    rounds.push(await settle());
  }
  console.log(`heap after rounds of 400: ${rounds.map((bytes) => (bytes / 2 ** 20).toFixed(1)).join(", ")} MiB`);
  expect(rounds.at(-1)! - rounds[1]).toBeLessThan(8 << 20);
});
