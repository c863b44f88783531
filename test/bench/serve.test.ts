// `insitu bench serve`: figures of answers that are known, and a small run that measures nothing.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { boundedHash, roundRobin } from "../../tools/bench/serve/routes.js";
import type { PolicyReport } from "../../tools/bench/serve/targets.js";
import { figuresOf } from "../../tools/bench/serve/figures.js";
import type { ServeReport } from "../../tools/bench/serve/run.js";
import { workloads } from "../../tools/bench/serve/workload.js";
import { builtCommand } from "../support/built.js";
import { insituHere } from "../support/command-line.js";

test("figures are those of the answers", () => {
  const answer = (pieces: readonly number[], error?: string) => ({
    error,
    text: "",
    pieces,
    milliseconds: 1000,
    promptTokens: 100,
    cachedTokens: 25,
    newTokens: pieces.length,
  });
  const figures = figuresOf({
    answers: [answer([100, 120, 160]), answer([600, 610, 620]), answer([10, 100, 210]), answer([], "429")],
    seconds: 2,
  });
  expect(figures).toMatchObject({
    requests: 4,
    errors: 1,
    firstError: "429",
    requestsPerSecond: 1.5,
    tokensPerSecond: 4.5,
    reusedShare: 0.25,
    // The second was late, the third slow.
    goodput: 0.5,
    ttft: { mean: 710 / 3, median: 100, p99: 600 },
    tpot: { mean: (30 + 10 + 100) / 3, median: 30, p99: 100 },
    itl: { median: 40, p99: 110 },
  });
});

test("a seed asks the same", () => {
  const [one, two] = [workloads(7, false), workloads(7, false)];
  for (const [at, load] of one.entries()) expect(load.ask(5)).toEqual(two[at].ask(5));
  expect(one[0].ask(1).prompt.slice(0, 200)).toBe(one[0].ask(2).prompt.slice(0, 200));
  expect(one[1].ask(1)).not.toEqual(one[1].ask(2));
});

test("a small run ends, with a report and a picture", () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-bench-serve-"));
  const svg = join(folder, "serve.svg");
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    // One thread each: llama.cpp's spin where the machine is busy.
    [
      builtCommand,
      "bench",
      "serve",
      ..."--quick --only chat --concurrency 2 --rate 50 --threads 1 --json --svg".split(" "),
      svg,
    ],
    { encoding: "utf8" },
  );
  expect([status, stderr.split("\n").filter((line) => line.startsWith("insitu:"))]).toEqual([0, []]);
  const { rows, llama, missing } = JSON.parse(stdout) as ServeReport;
  // llama.cpp runs beside where the peers are installed: the texts of the same weights are the same.
  expect(llama === null ? missing.length : llama.same).toBe(llama?.compared ?? 1);
  const servers = ["insitu", "one at a time", ...(llama === null ? [] : ["node-llama-cpp"])];
  expect(rows.map(({ server, pace }) => [server, pace])).toEqual(
    [{ concurrency: 2 }, { rate: 50 }].flatMap((pace) => servers.map((server) => [server, pace])),
  );
  expect(rows.every(({ figures }) => figures.errors === 0 && figures.ttft.p99 > 0)).toBe(true);
  expect(readFileSync(svg, "utf8")).toMatch(/^<svg [^]*chat: tokens a second[^]*clients at a time[^]*<\/svg>\n$/);
  rmSync(folder, { recursive: true });
});

test("the same key goes to the same worker, unless that one has much more to do; others go round", () => {
  const targets = ["a", "b", "c"].map((name) => ({ name, address: `http://${name}`, model: "m", key: undefined }));
  const hash = boundedHash(targets);
  const firsts = Array.from({ length: 300 }, (_, at) => {
    const [first, again] = [hash.take(`key ${at}`), hash.take(`key ${at}`)];
    hash.done(first);
    hash.done(again);
    return first.name;
  });
  const sameAgain = firsts.map((_, at) => {
    const taken = hash.take(`key ${at}`);
    hash.done(taken);
    return taken.name;
  });
  expect(sameAgain).toEqual(firsts);
  for (const name of ["a", "b", "c"]) expect(firsts.filter((each) => each === name).length).toBeGreaterThan(60);
  // One key alone: the others help out, and none has more than its share and a half.
  const taken = Array.from({ length: 12 }, () => hash.take("one"));
  const counts = targets.map((target) => taken.filter((each) => each === target).length);
  expect(Math.max(...counts)).toBeLessThanOrEqual(6);
  const round = roundRobin(targets);
  expect(["x", "x", "x", "x"].map((key) => round.take(key).name)).toEqual(["a", "b", "c", "a"]);
});

test("workers and a balancer are asked the same, behind marks of their own", async () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-bench-targets-"));
  const svg = join(folder, "targets.svg");
  // Servers that know what they were asked before, as a worker does.
  const asked: { key: string | undefined; worker: number; prompt: string }[] = [];
  const servers = await Promise.all([0, 1, 2].map((worker) => answering(worker, asked)));
  try {
    const [a, b, door] = servers.map(({ port }) => `http://127.0.0.1:${port}`);
    const args = ["bench", "serve", "--targets", `${a},${b},door=${door}`, "--quick", "--json", "--svg", svg];
    const { status, stdout, stderr } = await insituHere(args);
    expect([status, stderr]).toEqual([0, expect.not.stringContaining("insitu:")]);
    const { rows } = JSON.parse(stdout) as PolicyReport;
    expect(rows.map(({ load, policy, store }) => [load, policy, store])).toEqual(
      ["round-robin + store", "hash + store", "door"].flatMap((policy) =>
        ["shared-prefix", "conversations"].map((load) => [
          load,
          policy,
          policy === "door" ? null : { fetched: 0, saved: 0 },
        ]),
      ),
    );
    for (const { figures } of rows) expect([figures.errors, figures.requests]).toEqual([0, figures.requests]);
    // Turns of one conversation: by hash on one worker. In turns both have as many.
    const workersOf = (mark: string): number[] => {
      const keys = new Set(asked.flatMap(({ key }) => (key?.startsWith(`conversation ${mark}`) ? [key] : [])));
      return [...keys].map((key) => new Set(asked.filter((each) => each.key === key).map(({ worker }) => worker)).size);
    };
    expect(workersOf("2.")).toEqual([1, 1, 1, 1]);
    const inTurns = asked.filter(({ key }) => key?.startsWith("conversation 1."));
    expect(inTurns.filter(({ worker }) => worker === 0).length).toBe(inTurns.length / 2);
    const turns = asked.filter(({ key }) => key === "conversation 3. 0").map(({ prompt }) => prompt);
    expect(turns[1].startsWith(`${turns[0]} and so`)).toBe(true);
    expect(readFileSync(svg, "utf8")).toMatch(/^<svg [^]*conversations[^]*hash \+ store[^]*<\/svg>\n$/);
  } finally {
    for (const { server } of servers) server.close();
    rmSync(folder, { recursive: true });
  }
});

/** A server that says the same to everybody, streamed, and notes what it was asked. */
async function answering(
  worker: number,
  asked: { key: string | undefined; worker: number; prompt: string }[],
): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer((incoming, outgoing) => {
    if (incoming.url === "/metrics") return void outgoing.end("insitu_store_least_tokens 16\n");
    let body = "";
    incoming.on("data", (chunk) => void (body += String(chunk)));
    incoming.on("end", () => {
      const { prompt } = JSON.parse(body) as { prompt: string };
      asked.push({ key: incoming.headers["x-insitu-prefix"] as string | undefined, worker, prompt });
      const usage = { prompt_tokens: 10, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 5 } };
      for (const chunk of [{ choices: [{ text: " and" }] }, { choices: [{ text: " so" }] }, { choices: [], usage }])
        outgoing.write(`data: ${JSON.stringify(chunk)}\n\n`);
      outgoing.end("data: [DONE]\n\n");
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return { server, port: (server.address() as AddressInfo).port };
}

test("options that mean nothing are refused", async () => {
  expect((await insituHere(["bench", "serve", "--rate", "often"])).stderr).toMatch(/--rate must hold numbers above 0/);
  expect((await insituHere(["bench", "serve", "--url", "nonsense"])).stderr).toMatch(/--url must be name=http/);
  expect((await insituHere(["bench", "serve", "--targets", "here"])).stderr).toMatch(/--targets must be addresses/);
  const gone = await insituHere(["bench", "serve", "--targets", "http://127.0.0.1:1"]);
  expect([gone.status, gone.stderr]).toEqual([1, expect.stringContaining("http://127.0.0.1:1: fetch failed")]);
});
