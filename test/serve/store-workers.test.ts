// `insitu serve --store` in processes of its own: a conversation that one began goes on with another after the first was killed, with what the
// first had read; keys share nothing.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { builtCommand } from "../support/built.js";
import { insituHere } from "../support/command-line.js";
import { Redis, redisServer } from "../support/redis.js";

/** One server in a process. */
interface Worker {
  readonly child: ChildProcess;
  readonly address: string;
  readonly told: string;
}

/** What a server answers. */
interface Answer {
  readonly text: string;
  readonly prompt: number;
  readonly cached: number;
}

test("what means nothing is refused before a model is served", async () => {
  const both = await insituHere(["serve", "--store", "redis://127.0.0.1:1", "--prefix-cache", "somewhere"]);
  expect([both.status, both.stderr]).toEqual([1, expect.stringContaining("give --prefix-cache or --store")]);
  const address = await insituHere(["serve", "--store", "127.0.0.1"]);
  expect([address.status, address.stderr]).toEqual([1, expect.stringContaining("a store must be redis://host:port")]);
  const secret = await insituHere(["serve", "--store", "redis://127.0.0.1:1", "--store-secret-file", "no-such-file"]);
  expect([secret.status, secret.stderr]).toEqual([1, expect.stringContaining("no-such-file cannot be read")]);
});

describe.skipIf(redisServer === undefined)("workers on one store", () => {
  const workers: ChildProcess[] = [];
  let folder: string;
  let redis: Redis;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "insitu-store-"));
    writeFileSync(join(folder, "keys"), "first-long-key\nsecond-long-key\n");
    writeFileSync(join(folder, "secret"), "what only these workers know\n");
    redis = await Redis.start();
  });
  afterAll(async () => {
    for (const child of workers) child.kill("SIGKILL");
    await redis?.kill();
    rmSync(folder, { recursive: true });
  });

  async function start(): Promise<Worker> {
    const options = ["--port", "0", "--threads", "1", "--api-key-file", join(folder, "keys")];
    const store = ["--store-secret-file", join(folder, "secret"), "--store-deadline", "30000"];
    const child = spawn(process.execPath, [builtCommand, "serve", ...options, ...store], {
      env: { ...process.env, INSITU_STORE: redis.address },
      stdio: ["ignore", "pipe", "pipe"],
    });
    workers.push(child);
    let told = "";
    child.stderr.on("data", (chunk) => void (told += String(chunk)));
    const address = await new Promise<string>((resolve, reject) => {
      child.stdout.once("data", (line) => resolve(/http:\S+/.exec(String(line))![0]));
      child.once("exit", () => reject(new Error(`a worker ended: ${told}`)));
    });
    return { child, address, told };
  }

  async function ask({ address }: Worker, prompt: string, key = "first-long-key"): Promise<Answer> {
    const response = await fetch(`${address}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ prompt, max_tokens: 24, temperature: 0, logit_bias: { 0: -100 } }),
    });
    const { choices, usage } = (await response.json()) as {
      choices: { text: string }[];
      usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } };
    };
    const { prompt_tokens, prompt_tokens_details } = usage;
    return { text: choices[0].text, prompt: prompt_tokens, cached: prompt_tokens_details.cached_tokens };
  }

  const figure = async ({ address }: Worker, name: string): Promise<number> =>
    Number(new RegExp(`^${name} (\\d+)$`, "m").exec(await (await fetch(`${address}/metrics`)).text())![1]);

  test("A is killed, and B goes on with the conversation as A would have", async () => {
    const beginning = `${"Once upon a time a wolf lived in a deep forest near the sea. ".repeat(8)}One day`;
    const [a, b] = await Promise.all([start(), start()]);
    expect(a.told).toMatch(/^insitu: the store is (not read|read for \d+ tokens or more): a block of 16 tokens takes /);
    const first = await ask(a, beginning);
    expect(first.cached).toBe(0);
    // What A alone says next; what B has of it comes from before.
    const saved = Math.floor((first.prompt + 23) / 16);
    await expect.poll(() => figure(a, "insitu_store_saved_total")).toBe(saved);
    const next = `${beginning}${first.text} And then`;
    const here = await ask(a, next);
    a.child.kill("SIGKILL");
    expect((await ask(b, beginning, "second-long-key")).cached).toBe(0);
    expect(await figure(b, "insitu_store_hits_total")).toBe(0);
    const there = await ask(b, next);
    expect(there.text).toBe(here.text);
    expect(there.cached).toBeGreaterThanOrEqual(16 * Math.floor(first.prompt / 16));
    expect(await figure(b, "insitu_store_hits_total")).toBe(there.cached / 16);
    expect(await figure(b, "insitu_store_refused_total")).toBe(0);
  });
});
