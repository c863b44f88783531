// `insitu bench serve --backend webgpu`: figures of answers that are known, a small run of every load on the compiled kernels, where that is quick, and
// one on the device itself. Nothing here depends on how long anything takes.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { fullServeSizes, loadText, longestOf, smallServeSizes } from "../../tools/bench/serve-device/loads.js";
import { longestGap, measureLoad } from "../../tools/bench/serve-device/measure-load.js";
import { deviceServeText } from "../../tools/bench/serve-device/print.js";
import { rowsOf } from "../../tools/bench/serve-device/rows.js";
import { type DeviceServeReport, runDeviceServeBench } from "../../tools/bench/serve-device/run.js";
import type { Teller } from "../../tools/bench/serve-device/teller.js";
import type { Answered } from "../../tools/bench/serve/client.js";
import { noWebgpu } from "../support/backends.js";
import { builtCommand } from "../support/built.js";
import { insituHere } from "../support/command-line.js";
import { soak } from "../support/soak.js";

const answer = (pieces: readonly number[], error?: string): Answered => ({
  error,
  text: "",
  pieces,
  milliseconds: pieces.at(-1) ?? 0,
  promptTokens: 1,
  cachedTokens: 0,
  newTokens: pieces.length,
});

/** One who answers what is known beforehand. */
const knows = (name: string, answers: readonly Answered[]): Teller => ({
  name,
  runtime: "insitu",
  stream: (_prompt, _tokens, onPiece) => {
    answers[0].pieces.forEach((_, at) => onPiece?.(at + 1));
    return Promise.resolve(answers[0]);
  },
  together: () => Promise.resolve(answers),
});

const prompt = (length: number): number[] => Array.from({ length }, () => 1);

test("figures are those of the answers, ratios those of the figures", async () => {
  const load = { kind: "many", clients: 2, prompt: 8, tokens: 3 } as const;
  const who = [
    knows("generate", [answer([100, 110, 120]), answer([100, 120, 200])]),
    knows("insitu serve", [answer([200, 210, 220]), answer([300, 340, 400])]),
  ];
  const turns = await Promise.all(who.map(async (teller) => [await measureLoad(teller, load, prompt)]));
  expect(turns[0][0].figures).toEqual({ firstToken: 100, token: 50, tokensPerSecond: 30, longestGap: null });
  const [first, second] = rowsOf(load, who, turns);
  expect([first.who, second.who]).toEqual(["generateBatch", "insitu serve"]);
  expect(first.ratios).toEqual({ firstToken: null, token: null, tokensPerSecond: null, longestGap: null });
  expect(second.ratios).toEqual({ firstToken: 3, token: 1, tokensPerSecond: 0.5, longestGap: null });
});

test("a step counts from when all texts have their first token, and an error is told", async () => {
  const load = { kind: "step", texts: 2, prompt: 8, tokens: 3 } as const;
  const made = await measureLoad(knows("generate", [answer([10, 30, 50]), answer([20, 40, 60])]), load, prompt);
  expect(made.figures.token).toBe(20);
  const failed = await measureLoad(knows("generate", [answer([10]), answer([], "no room")]), load, prompt);
  expect(failed).toMatchObject({ errors: 1, firstError: "no room", figures: { token: null } });
});

test("the longest gap is the one in which the long prompt was read", () => {
  // The prompt was sent at 25 and had its first token at 65; what came before and after does not count.
  expect(longestGap([0, 20, 30, 60, 70, 200], 25, 65)).toBe(30);
  expect(longestGap([0, 20, 90], 25, 65)).toBe(70);
  expect(longestGap([0, 20], 25, 65)).toBe(0);
});

test("the loads are those that are spoken of", () => {
  expect(fullServeSizes.loads.map(loadText)).toEqual([
    ...[16, 512, 2048, 4000].map((length) => `1 client, prompt ${length}`),
    "8 clients, prompt 128",
    "32 clients, prompt 128",
    "32 clients, prompt 1024",
    "64 clients, prompt 128",
    "1 client that streams beside a prompt of 8000",
    "a step of 1 text, prompt 128",
    ...[2, 4, 8].map((texts) => `a step of ${texts} texts, prompt 128`),
  ]);
  for (const { loads, server } of [fullServeSizes, smallServeSizes])
    for (const load of loads) expect(longestOf(load), loadText(load)).toBeLessThanOrEqual(server.context);
});

/** Where a report has numbers and where it has none. */
function expectFigures({ rows }: DeviceServeReport): void {
  const told = { one: "firstToken,token", many: "firstToken,token,tokensPerSecond", step: "token" };
  for (const { kind, figures, who, ratios, errors, firstError } of rows) {
    expect([errors, firstError], who).toEqual([0, null]);
    const names = Object.entries(figures).flatMap(([name, value]) => (value === null ? [] : [name]));
    expect(names.join()).toBe(kind === "beside" ? "firstToken,token,longestGap" : told[kind]);
    expect(ratios.token === null).toBe(who.startsWith("generate"));
  }
}

test("every load runs, the server beside generate and generateBatch", async () => {
  const report = await runDeviceServeBench({
    program: [process.execPath, builtCommand],
    command: "npx insitu bench serve",
    backend: "wasm",
    model: undefined,
    server: {},
    only: undefined,
    rounds: undefined,
    alone: true,
    small: true,
    onProgress: () => {},
  });
  expect(report.rows.map(({ load, who }) => [load, who])).toEqual(
    smallServeSizes.loads.flatMap((load) => {
      const name = loadText(load);
      if (load.kind === "step") return [[name, "generateBatch"]];
      return [
        [name, load.kind === "many" ? "generateBatch" : "generate"],
        [name, "insitu serve"],
      ];
    }),
  );
  expectFigures(report);
  expect(report.agreement).toEqual([{ who: "insitu serve", runtime: "insitu", compared: 8, same: 8 }]);
  expect([report.skipped, report.failed, report.missing]).toEqual([[], [], []]);
  const text = deviceServeText(report);
  for (const part of ["÷ generate", "longest gap", "tokens/s whole", "÷ one text's", "--context 128 --blocks 40"])
    expect(text).toContain(part);
});

test.skipIf(noWebgpu !== undefined)(
  "a small run on the device ends, with a report; what is too long is left out",
  () => {
    const only = soak ? [] : ["--only", "1 client"];
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [builtCommand, "bench", "serve", ..."--backend webgpu --quick --alone --context 64 --json".split(" "), ...only],
      { encoding: "utf8" },
    );
    expect([status, stderr.split("\n").filter((line) => line.startsWith("insitu:"))]).toEqual([0, []]);
    const report = JSON.parse(stdout) as DeviceServeReport;
    expect([report.backend, report.quick, report.server.context]).toEqual(["webgpu", true, 64]);
    expect(report.machine.gpu).not.toBeNull();
    expectFigures(report);
    expect(report.rows.slice(0, 2).map(({ who }) => who)).toEqual(["generate", "insitu serve"]);
    expect(report.skipped).toEqual([
      {
        load: "1 client that streams beside a prompt of 96",
        reason: "a text of 104 tokens does not fit a context of 64; --context asks for a longer one",
      },
    ]);
  },
);

test("options that mean nothing are refused", async () => {
  const said = async (...args: readonly string[]): Promise<unknown> => {
    const { status, stderr } = await insituHere(["bench", "serve", ...args]);
    return [status, stderr];
  };
  const usage = (text: string): unknown => [2, expect.stringContaining(text)];
  expect(await said("--backend", "webgpu", "--rate", "5")).toEqual(
    usage("--rate is an option of the load without a GPU"),
  );
  expect(await said("--backend", "webgpu", "--blocks", "many")).toEqual(
    usage("--blocks must be a whole number from 1"),
  );
  expect(await said("--backend", "reference")).toEqual(usage('--backend must be wasm or webgpu, got "reference"'));
  expect(await said("--model", "here")).toEqual(usage("--model needs --backend webgpu"));
});

test("a folder without what is needed is refused by its name", async () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-bench-model-"));
  const run = (): Promise<unknown> =>
    runDeviceServeBench({
      program: [],
      command: "",
      backend: "wasm",
      model: folder,
      server: {},
      only: undefined,
      rounds: 1,
      alone: true,
      small: true,
      onProgress: () => {},
    });
  try {
    await expect(run()).rejects.toThrow("--model must be a folder in the hub's layout, with a config.json");
    writeFileSync(join(folder, "config.json"), "{}");
    await expect(run()).rejects.toThrow("vocab_size must be a number");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
