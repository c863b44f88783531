// examples/cluster: two workers on one store behind HAProxy. One of them drains while streams run: none breaks, and what it had read is found by
// the other.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { eventsOf } from "../serve/scripted-engine.js";
import { noteMissing } from "../support/missing.js";
import { howToInstallRedis, redisServer } from "../support/redis.js";

const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin"];
const haproxy = folders.map((folder) => join(folder, "haproxy")).find((path) => existsSync(path));
if (haproxy === undefined) noteMissing("HAProxy", "apt-get install haproxy");
const hasAll = haproxy !== undefined && redisServer?.endsWith("redis-server") === true;
if (!hasAll) console.log(`${howToInstallRedis}; haproxy likewise (apt-get install haproxy)`);

const cluster = join(fileURLToPath(new URL("../../examples", import.meta.url)), "cluster/cluster.mjs");

interface Chunk {
  readonly choices: readonly { readonly text: string; readonly finish_reason: string | null }[];
}

test.skipIf(!hasAll)(
  "a worker drains while streams run: each ends as it would have, and nobody is refused",
  async () => {
    const child = spawn(process.execPath, [cluster, "--quiet", "--threads", "1"], {
      env: { ...process.env, PATH: `${process.env["PATH"]}${delimiter}/usr/sbin` },
      stdio: ["ignore", "pipe", "ignore"],
    });
    const over = new Promise((resolve) => void child.once("exit", resolve));
    let told = "";
    try {
      await new Promise<void>((resolve, reject) => {
        child.stdout.on("data", (text) => {
          told += String(text);
          if (told.includes("all of it")) resolve();
        });
        child.once("exit", () => reject(new Error(`the cluster ended: ${told}`)));
      });
      const door = /all of it: (\S+)/.exec(told)![1];
      const ask = (prefix: number, stream: boolean): Promise<Response> =>
        fetch(`${door}/v1/completions`, {
          method: "POST",
          headers: { "x-insitu-prefix": String(prefix) },
          body: JSON.stringify({
            prompt: `${prefix} wolves`,
            max_tokens: 40,
            temperature: 0,
            stream,
            logit_bias: { 0: -100 },
          }),
        });
      const prefixes = [1, 2, 3, 4, 5, 6];
      const streams = await Promise.all(prefixes.map((prefix) => ask(prefix, true)));
      process.kill(Number(/worker a: process (\d+)/.exec(told)![1]), "SIGTERM");
      const texts = streams.map(async (response) => {
        const events = eventsOf(await response.text());
        expect(events.at(-1)).toBe("[DONE]");
        const choices = (events.slice(0, -1) as Chunk[]).flatMap((chunk) => chunk.choices);
        expect(choices.at(-1)!.finish_reason).toBe("length");
        return choices.map(({ text }) => text).join("");
      });
      const again = prefixes.map(async (prefix) => {
        const response = await ask(prefix, false);
        expect(response.status).toBe(200);
        return ((await response.json()) as Chunk).choices[0].text;
      });
      expect(await Promise.all(texts)).toEqual(await Promise.all(again));
    } finally {
      child.kill("SIGTERM");
      await over;
    }
  },
);
