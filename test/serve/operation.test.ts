// Running it: keys, origins, health, metrics, logs, the page, draining, and the command with its signals.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { CausalLM } from "../../src/entry/node.js";
import { createServer, type LogEntry } from "../../packages/serve/server.js";
import { findChromium, howToInstall, startChromium } from "../browser/chromium.js";
import { builtCommand } from "../support/built.js";
import { insituHere } from "../support/command-line.js";
import { eventsOf, loadModel, ScriptedEngine, serveScript, until } from "./scripted-engine.js";

let lm: CausalLM;
const messages = [{ role: "user", content: "Once" }];
const chat = "/v1/chat/completions";

beforeAll(async () => {
  lm = await loadModel();
});
afterAll(() => lm?.release());

describe("keys", () => {
  test("what requests that begin alike have in common is told and kept; keys share beginnings where that is wanted", async () => {
    for (const sharePrefixes of [false, true]) {
      const apiKeys = ["first-key", "second-key"];
      const { engine, post, stop } = await serveScript(lm, () => ({ text: "a" }), { apiKeys, sharePrefixes });
      try {
        const beginning = Array.from({ length: 64 }, (_, at) => 300 + at);
        const told = async (key: string, prompt: readonly number[], header?: string): Promise<string | null> => {
          const headers: Record<string, string> = { authorization: `Bearer ${key}` };
          if (header !== undefined) headers["x-insitu-prefix"] = header;
          return (await post("/v1/completions", { prompt }, { headers })).headers.get("x-insitu-prefix");
        };
        const first = await told("first-key", [...beginning, 1, 2]);
        expect(first).toMatch(/^[0-9a-f]{24}$/);
        expect(await told("first-key", [...beginning, 3, 4, 5])).toBe(first);
        expect(await told("first-key", [...beginning.slice(1), 3, 4, 5])).not.toBe(first);
        expect((await told("second-key", [...beginning, 1, 2])) === first).toBe(sharePrefixes);
        expect(await told("second-key", [7, 8], "my own words")).toBe("my own words");
        expect(await told("second-key", beginning, "x".repeat(300))).toMatch(/^[0-9a-f]{24}$/);
        const [one, , , two] = engine.requests;
        expect([one.tenant === two.tenant, one.salt === two.salt]).toEqual([false, sharePrefixes]);
      } finally {
        await stop();
      }
    }
  });

  test("who shows none or a wrong one is refused; each has a salt of its own", async () => {
    const log: LogEntry[] = [];
    const { server, engine, address, post, stop } = await serveScript(lm, () => ({ text: "a" }), {
      apiKeys: ["first-key", "second-key"],
      log: (entry) => log.push(entry),
      limits: { openRequests: 2 },
    });
    try {
      const ask = (authorization?: string): Promise<Response> =>
        post(chat, { messages }, authorization === undefined ? {} : { headers: { authorization } });
      for (const wrong of [
        undefined,
        "Bearer",
        "Bearer wrong-key",
        "first-key",
        "Basic first-key",
        "Bearer first-key2",
      ]) {
        const response = await ask(wrong);
        expect([wrong, response.status, await response.json()]).toMatchObject([
          wrong,
          401,
          { error: { type: "authentication_error", code: "invalid_api_key" } },
        ]);
      }
      expect((await fetch(`${address}/v1/models`)).status).toBe(401);
      expect((await post("/tokenize", { prompt: "x" })).status).toBe(401);
      for (const open of ["/health", "/metrics", "/"]) expect((await fetch(`${address}${open}`)).status).toBe(200);
      expect(engine.requests).toEqual([]);
      expect((await ask("Bearer first-key")).status).toBe(200);
      expect((await ask("bearer second-key")).status).toBe(200);
      const [one, two] = engine.requests;
      expect([one.tenant === two.tenant, one.salt === two.salt, one.salt!.length]).toEqual([false, false, 64]);
      expect(JSON.stringify(log)).not.toMatch(/first-key|second-key/);
      expect(log.at(-1)!.key).toBe(two.tenant);
      engine.held = true;
      const held = [ask("Bearer first-key"), ask("Bearer first-key")];
      await until(() => engine.figures().waiting === 2);
      const third = await ask("Bearer first-key");
      expect([third.status, third.headers.get("retry-after")]).toEqual([429, "1"]);
      const other = ask("Bearer second-key");
      await until(() => engine.figures().waiting === 3);
      engine.go();
      for (const each of [...held, other]) expect((await each).status).toBe(200);
      expect(server.status).toBe("ready");
    } finally {
      await stop();
    }
  });

  test("options that mean nothing are refused", () => {
    expect(() => createServer(lm, { apiKeys: ["short"] })).toThrow("8 characters");
    expect(() => createServer(lm, { maxQueue: -1 })).toThrow("maxQueue");
    expect(() => createServer(lm, { limits: { bodyBytes: 0 } })).toThrow("limits.bodyBytes");
    expect(() => createServer(lm, { metricsDialect: "other" as "vllm" })).toThrow("metricsDialect");
  });
});

test("pages of other origins ask only where they are let in", async () => {
  const preflight = (address: string): Promise<Response> =>
    fetch(address + chat, {
      method: "OPTIONS",
      headers: { origin: "https://a.example", "access-control-request-method": "POST" },
    });
  for (const [cors, allowed] of [
    [undefined, null],
    ["https://a.example", "https://a.example"],
    ["https://a.example/", "https://a.example"],
    ["https://b.example", null],
    ["*", "*"],
  ] as const) {
    const { address, stop } = await serveScript(lm, () => ({}), cors === undefined ? {} : { cors });
    expect([cors, (await preflight(address)).headers.get("access-control-allow-origin")]).toEqual([cors, allowed]);
    await stop();
  }
});

test("a page of another origin, or under another name, is refused before anything is made", async () => {
  const { server, engine, stop } = await serveScript(lm, () => ({ text: "a" }), {
    cors: "https://friend.example",
    hosts: ["localhost", "127.0.0.1"],
  });
  const ask = async (url: string, headers: Record<string, string>): Promise<number> => {
    const body = JSON.stringify({ messages });
    return (await server.fetch(new Request(`${url}${chat}`, { method: "POST", headers, body }))).status;
  };
  expect(await ask("http://localhost:8080", { origin: "https://evil.example" })).toBe(403);
  expect(await ask("http://localhost:8080", { origin: "null" })).toBe(403);
  expect(await ask("http://evil.example:8080", {})).toBe(403);
  expect(engine.requests).toEqual([]);
  expect(await ask("http://localhost:8080", { origin: "http://localhost:8080" })).toBe(200);
  expect(await ask("http://127.0.0.1:8080", { origin: "https://friend.example" })).toBe(200);
  expect(await ask("http://localhost:8080", {})).toBe(200);
  await stop();
});

test("health tells of loading, ready, draining; a drain lets texts finish and takes no others", async () => {
  let loaded: (of: CausalLM) => void = () => {};
  let engine: ScriptedEngine | undefined;
  const server = createServer(new Promise<CausalLM>((resolve) => (loaded = resolve)), {
    model: "scripted",
    engine: (of) => (engine = new ScriptedEngine(of as CausalLM, () => ({ text: "a time" }))),
  });
  const health = async (): Promise<unknown[]> => {
    const response = await server.fetch(new Request("http://x/health"));
    return [response.status, await response.json()];
  };
  const ask = (stream: boolean): Promise<Response> =>
    server.fetch(new Request(`http://x${chat}`, { method: "POST", body: JSON.stringify({ messages, stream }) }));
  expect(await health()).toEqual([503, { status: "loading" }]);
  const early = await ask(false);
  expect([early.status, early.headers.get("retry-after")]).toEqual([503, "5"]);
  loaded(lm);
  await server.ready;
  expect(await health()).toEqual([200, { status: "ok" }]);
  engine!.held = true;
  const streamed = await ask(true);
  const whole = ask(false);
  await until(() => engine!.figures().waiting === 2);
  const drained = server.drain(5000);
  expect(await health()).toEqual([503, { status: "draining" }]);
  expect((await ask(false)).status).toBe(503);
  engine!.go();
  expect(eventsOf(await streamed.text()).at(-1)).toBe("[DONE]");
  expect((await whole).status).toBe(200);
  await drained;
  expect(server.status).toBe("closed");
});

test("a drain that takes too long says so to those that are left", async () => {
  const { server, engine, post, stop } = await serveScript(lm, () => ({ text: "a time" }));
  engine.held = true;
  const streamed = await post(chat, { messages, stream: true });
  const whole = post(chat, { messages });
  await until(() => engine.figures().waiting === 2);
  await server.drain(20);
  expect(eventsOf(await streamed.text()).at(-1)).toMatchObject({ error: { code: "unavailable" } });
  expect((await whole).status).toBe(503);
  expect(engine.figures()).toMatchObject({ waiting: 0, running: 0 });
  await stop();
});

test("a model that cannot be loaded, or is none, is told by ready and by health", async () => {
  await expect(createServer({} as CausalLM).ready).rejects.toMatchObject({ code: "invalid-argument" });
  const server = createServer(Promise.reject(new Error("no such model")));
  await expect(server.ready).rejects.toThrow("no such model");
  expect((await server.fetch(new Request("http://x/health"))).status).toBe(503);
});

test("requests say who comes first as far as they may", async () => {
  const priorities = async (limit: number, ...given: (number | undefined)[]): Promise<unknown[]> => {
    const { engine, post, stop } = await serveScript(lm, () => ({ text: "a" }), { limits: { priority: limit } });
    const statuses: number[] = [];
    for (const priority of given) statuses.push((await post(chat, { messages, priority })).status);
    await stop();
    return [statuses, engine.requests.map(({ priority }) => priority)];
  };
  expect(await priorities(0, undefined, 0, 1)).toEqual([
    [200, 200, 400],
    [0, 0],
  ]);
  // vLLM counts the other way round: lower ones come first.
  expect(await priorities(5, -5, 2, 6)).toEqual([
    [200, 200, 400],
    [5, -2],
  ]);
});

test("embeddings end with their client, and when they take too long", async () => {
  const log: LogEntry[] = [];
  const { engine, post, stop } = await serveScript(lm, () => ({}), {
    log: (entry) => log.push(entry),
    limits: { seconds: 1 },
  });
  let asked = 0;
  const untilEnded = (_: unknown, signal?: AbortSignal): Promise<Float32Array> =>
    new Promise((_resolve, reject) => {
      asked++;
      signal!.addEventListener("abort", () => reject(signal!.reason as Error));
    });
  engine.embed = untilEnded;
  const leaving = new AbortController();
  const left = post("/v1/embeddings", { input: "x" }, { signal: leaving.signal });
  left.catch(() => {});
  const late = await post("/v1/embeddings", { input: "x" });
  expect([late.status, await late.json()]).toMatchObject([504, { error: { code: "timeout" } }]);
  const again = post("/v1/embeddings", { input: "x" }, { signal: leaving.signal });
  again.catch(() => {});
  await until(() => asked === 3);
  leaving.abort();
  await until(() => log.length === 3);
  expect(log.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([499, 504, 504]);
  await stop();
});

test("metrics, in vLLM's names too where asked for", async () => {
  const { address, post, stop } = await serveScript(lm, () => ({ text: "a time ago" }), { metricsDialect: "vllm" });
  await post(chat, { messages });
  await post(chat, { messages: [] });
  for (const name of ["a", "b"]) await post(`/v1/${name}`, {});
  const told = await (await fetch(`${address}/metrics`)).text();
  for (const line of [
    "insitu_texts_waiting 0",
    "insitu_blocks 1024",
    "insitu_new_tokens_total 3",
    "insitu_first_token_seconds_count 1",
    "insitu_token_seconds_count 2",
    'insitu_requests_total{path="/v1/chat/completions",status="200"} 1',
    'insitu_requests_total{path="/v1/chat/completions",status="400"} 1',
    'insitu_requests_total{path="other",status="404"} 2',
    'insitu_texts_total{finished_reason="stop"} 1',
    'vllm:num_requests_waiting{model_name="scripted"} 0',
    'vllm:num_requests_running{model_name="scripted"} 0',
    'vllm:kv_cache_usage_perc{model_name="scripted"} 0',
    'vllm:cache_config_info{block_size="16",num_gpu_blocks="1024"} 1',
    'vllm:generation_tokens_total{model_name="scripted"} 3',
    'vllm:time_to_first_token_seconds_count{model_name="scripted"} 1',
    'vllm:request_success_total{model_name="scripted",finished_reason="stop"} 1',
  ])
    expect(told).toContain(`${line}\n`);
  await stop();
});

test("one line a request, with its id and without its prompt", async () => {
  const log: LogEntry[] = [];
  const { post, stop } = await serveScript(lm, () => ({ text: "a time" }), { log: (entry) => log.push(entry) });
  const secret = [{ role: "user", content: "my secret" }];
  const response = await post(chat, { messages: secret }, { headers: { "x-request-id": "mine-1" } });
  expect(response.headers.get("x-request-id")).toBe("mine-1");
  await (await post(chat, { messages: secret, stream: true })).text();
  await post(chat, { messages: secret, temperature: "my secret" });
  await until(() => log.length === 3);
  expect(log).toMatchObject([
    { request: "mine-1", status: 200, promptTokens: 3, newTokens: 2, end: "stop" },
    { request: expect.stringMatching(/^req_/) as unknown, status: 200, stream: true },
    { status: 400, error: "invalid_value temperature" },
  ]);
  expect(JSON.stringify(log)).not.toContain("secret");
  await stop();
  const open: LogEntry[] = [];
  const shown = await serveScript(lm, () => ({}), { log: (entry) => open.push(entry), logPrompts: true });
  await shown.post(chat, { messages: secret });
  expect(JSON.stringify(open)).toContain("my secret");
  await shown.stop();
});

const chromium = findChromium();
test.skipIf(chromium === undefined)(`the page talks with the model, on a narrow screen (${howToInstall})`, async () => {
  const { address, engine, stop } = await serveScript(lm, () => ({ text: "I am well, " + "and so ".repeat(40) }), {
    apiKeys: ["a-long-key"],
  });
  const browser = await startChromium(chromium!);
  try {
    const page = await browser.newPage({ viewport: { width: 360, height: 640 } });
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(address);
    await page.getByRole("button", { name: "Enter a key" }).click();
    await page.locator("#key").fill("a-long-key");
    await page.locator("#key").press("Enter");
    await page.getByText("0 / 512").waitFor();
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await page.locator("#say").fill("How are you?");
    await page.locator("#say").press("Enter");
    await page.locator("[data-took]").first().waitFor();
    expect(await page.locator(".message.assistant").innerText()).toMatch(/^I am well, and so/);
    engine.held = true;
    await page.locator("#say").fill("And now?");
    await page.locator("#say").press("Enter");
    await until(() => engine.figures().waiting === 1);
    await page.getByRole("button", { name: "Stop" }).click();
    await until(() => engine.figures().waiting === 0);
    await expect.poll(() => page.locator('[aria-busy="true"]').count()).toBe(0);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
    expect(asked.every((url) => url.startsWith(address) || url.startsWith("data:"))).toBe(true);
  } finally {
    await browser.close();
    await stop();
  }
});

describe("insitu serve", () => {
  test("listens, answers curl, and at SIGTERM finishes what is under way", async () => {
    const folder = mkdtempSync(join(tmpdir(), "insitu-serve-"));
    const keys = join(folder, "keys");
    writeFileSync(keys, "# mine\nkey-in-a-file \t# of this test\n");
    const child = spawn(
      process.execPath,
      [builtCommand, "serve", "--port", "0", "--api-key-file", keys, "--json-logs"],
      {
        env: {
          ...process.env,
          INSITU_METRICS_DIALECT: "vllm",
          INSITU_MAX_TOKENS: "200",
          INSITU_ALIAS: "gpt-4o=embedded, o3=embedded",
          INSITU_CORS: "https://one.example,https://two.example",
        },
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (chunk) => void (stdout += String(chunk)));
    child.stderr.on("data", (chunk) => void (stderr += String(chunk)));
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    try {
      await until(() => stdout.includes("\n") || child.exitCode !== null);
      const address = /^listening on (http:\/\/127\.0\.0\.1:\d+)\n/.exec(stdout)![1];
      expect((await (await fetch(`${address}/metrics`)).text()).includes("vllm:num_requests_waiting")).toBe(true);
      const authorization = "Bearer key-in-a-file";
      for (const [alias, origin] of [
        ["gpt-4o", "https://one.example"],
        ["o3", "https://two.example"],
      ]) {
        const found = await fetch(`${address}/v1/models/${alias}`, { headers: { authorization, origin } });
        expect([found.status, found.headers.get("access-control-allow-origin")]).toEqual([200, origin]);
      }
      const [command] = /^curl -N [^]*?'$/m.exec(readFileSync(new URL("../../README.md", import.meta.url), "utf8"))!;
      const key = `-s -H "Authorization: Bearer key-in-a-file"`;
      const curl = spawnSync("bash", ["-c", command.replace("http://127.0.0.1:8080", `${key} ${address}`)], {
        encoding: "utf8",
      });
      expect(curl.stdout).toMatch(/^data: \{"id":"cmpl-[^]*data: \[DONE\]\n\n$/);
      const streamed = await fetch(`${address}/v1/completions`, {
        method: "POST",
        headers: { authorization },
        body: JSON.stringify({ prompt: "Once upon a time", max_tokens: 120, stream: true, logit_bias: { 0: -100 } }),
      });
      const reader = streamed.body!.pipeThrough(new TextDecoderStream()).getReader();
      let text = (await reader.read()).value ?? "";
      child.kill("SIGTERM");
      for (let next = await reader.read(); !next.done; next = await reader.read()) text += next.value;
      expect(eventsOf(text).slice(-2)).toMatchObject([{ choices: [{ finish_reason: "length" }] }, "[DONE]"]);
      expect(await ended).toBe(0);
      const lines = stderr.split("\n").filter((line) => line.startsWith("{"));
      expect(lines.map((line) => JSON.parse(line) as LogEntry).at(-1)).toMatchObject({ newTokens: 120, end: "length" });
      expect(stderr).toContain("SIGTERM: finishing");
    } finally {
      child.kill("SIGKILL");
      rmSync(folder, { recursive: true });
    }
  });

  test("refuses what it cannot do in one sentence", async () => {
    const port = await insituHere(["serve", "--port", "99999"]);
    expect([port.status, port.stderr.trim()]).toEqual([2, expect.stringMatching(/^insitu: a port is .*99999$/)]);
    for (const blank of [" ", " , ", ",,"]) {
      vi.stubEnv("INSITU_API_KEY", blank);
      const none = await insituHere(["serve", "--port", "0"]);
      vi.unstubAllEnvs();
      expect([none.status, none.stderr]).toEqual([
        1,
        expect.stringMatching(/^insitu: INSITU_API_KEY: there is no key/),
      ]);
    }
    const key = await insituHere(["serve", "--api-key-file", "no-such-file"]);
    expect([key.status, key.stderr.trim()]).toEqual([
      1,
      expect.stringMatching(/^insitu: --api-key-file: no-such-file/),
    ]);
    const folder = await insituHere(["serve", "--port", "0", "--model", "./no-such-folder"]);
    expect([folder.status, folder.stdout]).toEqual([1, ""]);
  });

  test("--json-schema keeps generate to a schema", async () => {
    const schema = {
      type: "object",
      properties: { age: { type: "integer", minimum: 1, maximum: 9 } },
      required: ["age"],
    };
    const made = await insituHere(["generate", "The wolf", "--quiet", "--json-schema", JSON.stringify(schema)]);
    expect(JSON.parse(made.stdout.replace("The wolf", ""))).toEqual({ age: expect.any(Number) as unknown });
    const refused = await insituHere(["generate", "The wolf", "--json-schema", '{"not": {}}']);
    expect([refused.status, refused.stderr]).toEqual([1, expect.stringContaining('has "not"')]);
  });
});
