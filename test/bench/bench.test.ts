// The harness: everyone has a turn in every round, wrong results are named, the report has the documented fields. Nothing here
// depends on how long anything takes. The tests run the first group of each load once, the soak all of them as a quick run does.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { reportSvg } from "../../tools/bench/chart.js";
import { differentBits, differentNumbers, likeTheFirst, type Load, type Setting } from "../../tools/bench/load.js";
import { findLoads, loads } from "../../tools/bench/loads.js";
import { measure, median, quantile } from "../../tools/bench/measure.js";
import { findPeers } from "../../tools/bench/peers.js";
import type { Report } from "../../tools/bench/report.js";
import { runBench } from "../../tools/bench/run.js";
import { ratioText, reportText, timeText } from "../../tools/bench/table.js";
import { builtCommand } from "../support/built.js";
import { insituHere } from "../support/command-line.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const alone = { peers: [], missing: [{ name: "onnxruntime-node", install: "npm --prefix peers ci" }] };

/** A load whose contestants give fixed results at once. */
const made = (results: readonly number[]): Load => ({
  name: "made",
  description: "for tests",
  groups: () => [
    {
      name: "a <group>",
      contestants: results.map((value, at) => ({
        name: `contestant ${at}`,
        runtime: at === 0 ? "insitu" : "peer",
        start: () =>
          Promise.resolve({
            run: () => Promise.resolve(),
            result: () => Promise.resolve(Float32Array.of(value)),
            stop: () => Promise.resolve(),
          }),
      })),
      check: likeTheFirst(differentBits),
    },
  ],
});

const fields = {
  report: ["command", "quick", "backend", "threads", "machine", "versions", "missing", "loads"],
  machine: ["cpu", "cores", "memoryBytes", "platform", "node", "gpu", "loadAverage"],
  contestant: `name runtime medianMs lowerQuartileMs upperQuartileMs repeats samples runsPerSample
    ratio kernelMs kernelRatio agrees problem costs figures`.split(/\s+/),
};

const sorted = (names: readonly string[]): string[] => names.toSorted();

test("the report of a quick run has the documented fields, and insitu is right", async () => {
  const tried = loads.map((load) => ({ ...load, groups: (setting: Setting) => load.groups(setting).slice(0, 1) }));
  const report = await runBench(soak ? loads : tried, { quick: true, found: alone, repeats: soak ? undefined : 1 });
  const json = JSON.parse(JSON.stringify(report)) as Report;
  expect(sorted(Object.keys(json))).toEqual(sorted(fields.report));
  expect(sorted(Object.keys(json.machine))).toEqual(sorted(fields.machine));
  expect(json.loads.map(({ name }) => name)).toEqual(loads.map(({ name }) => name));
  for (const { contestants } of json.loads.flatMap((load) => load.groups)) {
    expect(contestants[0].ratio).toBe(1);
    for (const contestant of contestants) {
      expect(sorted(Object.keys(contestant))).toEqual(sorted(fields.contestant));
      expect(contestant).toMatchObject({ runtime: "insitu", agrees: true, problem: null });
    }
  }
  const documented = readFileSync(join(root, "tools/bench/README.md"), "utf8");
  for (const name of Object.values(fields).flat()) expect(documented).toContain(`\`${name}\``);
  for (const { name } of loads) expect(documented).toContain(`| \`${name}\` |`);
});

test("a wrong result is named, keeps its time and gets no ratio", async () => {
  const report = await runBench([made([1, 2, 1])], { quick: true, found: alone });
  const [first, wrong, right] = report.loads[0].groups[0].contestants;
  expect([first.agrees, wrong.agrees, right.agrees]).toEqual([true, false, true]);
  expect(wrong).toMatchObject({ ratio: null, kernelRatio: null, problem: "differs from byte 2 on" });
  expect(wrong.medianMs).toBeGreaterThan(0);
  const text = reportText(report);
  expect(text).toContain("wrong result");
  expect(text).toContain("contestant 1: differs from byte 2 on");
  expect(text).toContain("npm --prefix peers ci");
  expect(text).toContain(report.machine.cpu);
  const svg = reportSvg(report);
  expect(svg).toContain("a &lt;group&gt;");
  expect(svg).toContain("logarithmic scale");
  // A dot a contestant.
  expect(svg.match(/<circle [^>]*r="5"/g)).toHaveLength(3);
  expect(svg).not.toContain("var(");
});

test("what there is not enough memory for is told, and nothing else fails; without leave it does", async () => {
  const lacking = (mayLackMemory: boolean, others: Load): Load => ({
    ...others,
    groups: (setting) => {
      const [group] = others.groups(setting);
      const start = (): never => {
        throw new InsituError("out-of-memory", "caches of 4 GiB cannot be allocated");
      };
      const large = { name: "large", runtime: "insitu", mayLackMemory, start };
      return [{ ...group, contestants: [...group.contestants, large] }];
    },
  });
  const problem = "there is not enough memory for it: caches of 4 GiB cannot be allocated";
  for (const results of [[1], []]) {
    const report = await runBench([lacking(true, made(results))], { quick: true, found: alone });
    const [{ contestants, failed }] = report.loads[0].groups;
    expect([contestants.length, failed]).toEqual([results.length, [{ name: "large", problem }]]);
    expect(reportText(report)).toContain(`large failed: ${problem}`);
    expect(reportSvg(report)).toContain("</svg>");
  }
  const refused = runBench([lacking(false, made([1]))], { quick: true, found: alone });
  await expect(refused).rejects.toThrow("caches of 4 GiB");
});

test("everyone has a turn in every round, in changing order", async () => {
  const turns: string[] = [];
  const runnable = (name: string): { run(): Promise<void> } => ({
    run: async () => {
      if (turns.at(-1) !== name) turns.push(name);
      await new Promise((resolve) => setTimeout(resolve, 1));
    },
  });
  const starts: number[] = [];
  const timings = await measure(
    ["a", "b", "c"].map(runnable),
    { repeats: 6, sampleMs: 0, turnMs: 0, warmUpMs: 0 },
    () => {
      starts.push(turns.length);
      turns.push("round");
    },
  );
  const rounds = starts.map((start, at) => turns.slice(start + 1, starts[at + 1]));
  for (const round of rounds) expect(sorted(round)).toEqual(["a", "b", "c"]);
  expect(new Set(rounds.map(String)).size).toBeGreaterThan(1);
  expect(timings).toMatchObject(Array.from({ length: 3 }, () => ({ repeats: 6, samples: 6, runsPerSample: 1 })));
});

test("medians and quartiles", () => {
  expect(median([3, 1, 2])).toBe(2);
  expect(median([4, 1, 2, 3])).toBe(2.5);
  expect(quantile([0, 10, 20, 30, 40], 0.25)).toBe(10);
  expect(quantile([7], 0.75)).toBe(7);
});

test("results are compared by bits or within a tolerance", () => {
  expect(differentBits(Float32Array.of(0), Float32Array.of(-0))).toBe("differs from byte 3 on");
  expect(differentBits(Float32Array.of(NaN), Float32Array.of(NaN))).toBeUndefined();
  expect(differentBits(new Uint8Array(1), new Uint8Array(2))).toBe("has 1 bytes instead of 2");
  const tolerance = { rtol: 0.01, atol: 0 };
  expect(differentNumbers(Float32Array.of(100.5), Float32Array.of(100), tolerance)).toBeUndefined();
  expect(differentNumbers(Float32Array.of(1, 102), Float32Array.of(1, 100), tolerance)).toContain("at element 1");
  expect(differentNumbers(Float32Array.of(NaN), Float32Array.of(1), tolerance)).toContain("at element 0");
});

test("times and ratios are readable", () => {
  expect([0.0114, 48.94, 1234, 0.5].map(timeText)).toEqual(["11.4 µs", "48.9 ms", "1.23 s", "500 µs"]);
  expect([1, 4229.7, 0.5].map(ratioText)).toEqual(["1 ×", "4,230 ×", "0.5 ×"]);
});

test("an unknown load is refused", () => {
  expect(() => findLoads("nonsense")).toThrow('"nonsense" is no load of insitu bench; there are scatter');
  expect(findLoads(undefined)).toBe(loads);
});

test("where no peer is installed, the way to install it is told", () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-peers-"));
  try {
    const { peers, missing } = findPeers([folder]);
    expect(peers).toEqual([]);
    expect(missing).toEqual(
      ["onnxruntime-node", "onnxruntime-web"].map((name) => ({ name, install: "npm --prefix peers ci" })),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** Runs the built command line. */
const insitu = (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
  new Promise((resolve) => {
    execFile(process.execPath, [builtCommand, ...args], { cwd: root }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });

test("the command prints JSON and nothing else, and draws; installed peers agree bit for bit", async () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-bench-"));
  try {
    const svg = join(folder, "out.svg");
    const { code, stdout } = await insitu("bench", "scatter", "--quick", "--json", "--svg", svg, "--repeats", "2");
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as Report;
    expect(report.command).toBe("npx insitu bench scatter --quick --repeats 2");
    for (const contestant of report.loads.flatMap((load) => load.groups.flatMap((group) => group.contestants))) {
      expect(contestant.repeats).toBe(2);
      if (contestant.runtime !== "onnxruntime-web") expect(contestant).toMatchObject({ agrees: true });
    }
    expect(readFileSync(svg, "utf8")).toMatch(/^<svg /);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.each([
  [["bench", "nonsense"], "is no load of insitu bench; there are scatter"],
  [["bench", "foo"], "device, serve"],
  [["bench", "scatter", "more"], "takes 0 to 1 argument"],
  [["bench", "--nonsense"], "--nonsense"],
  [["bench", "--quick", "--only", "nonsense"], 'has no group with "nonsense" in its name'],
  [["bench", "--repeats", "none"], "--repeats must be a whole number from 1 on"],
])("the command refuses %j", async (args, message) => {
  const { status, stdout, stderr } = await insituHere(args);
  expect(status).toBe(args.includes("--only") ? 1 : 2);
  expect(stdout).toBe("");
  expect(stderr).toContain(message);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});
