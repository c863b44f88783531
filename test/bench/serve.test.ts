// `insitu bench serve`: figures of answers that are known, and a small run that measures nothing.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { figuresOf } from "../../src/bench/serve/figures.js";
import type { ServeReport } from "../../src/bench/serve/run.js";
import { workloads } from "../../src/bench/serve/workload.js";
import { insituHere } from "../support/command-line.js";

const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

test("figures are those of the answers", () => {
  const answer = (pieces: readonly number[], error?: string) => ({
    error,
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
    [main, "bench", "serve", "--quick", "--only", "chat", "--concurrency", "2", "--rate", "50", "--json", "--svg", svg],
    { encoding: "utf8" },
  );
  expect([status, stderr.split("\n").filter((line) => line.startsWith("insitu:"))]).toEqual([0, []]);
  const { rows } = JSON.parse(stdout) as ServeReport;
  expect(rows.map(({ server, pace }) => [server, pace])).toEqual(
    [{ concurrency: 2 }, { rate: 50 }].flatMap((pace) => [
      ["insitu", pace],
      ["one at a time", pace],
    ]),
  );
  expect(rows.every(({ figures }) => figures.errors === 0 && figures.ttft.p99 > 0)).toBe(true);
  expect(readFileSync(svg, "utf8")).toMatch(/^<svg [^]*chat: tokens a second[^]*clients at a time[^]*<\/svg>\n$/);
  rmSync(folder, { recursive: true });
});

test("options that mean nothing are refused", async () => {
  expect((await insituHere(["bench", "serve", "--rate", "often"])).stderr).toMatch(/--rate must hold numbers above 0/);
  expect((await insituHere(["bench", "serve", "--url", "nonsense"])).stderr).toMatch(/--url must be name=http/);
});
