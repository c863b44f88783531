// The gate itself: which suites run whole, what CONTRIBUTING says of the samples, what is told of missing parts, and the record of the last run on a GPU.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { skipReport } from "../../scripts/closing-line.mjs";
import { isOf, samples, wholeSuites } from "../../scripts/gate.mjs";
import { newerKernels, recordPath } from "../../scripts/on-a-gpu.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const suites = (readdirSync(`${root}test`, { recursive: true }) as string[]).map((path) => `test/${path}`);
const kernels = suites.filter((suite) => isOf(samples[0], suite));

describe("suites that run whole", () => {
  test("every sample is of suites that there are, and guards folders that there are", () => {
    for (const sample of samples) {
      expect(suites.filter((suite) => isOf(sample, suite)).length, sample.suites).toBeGreaterThan(0);
      for (const guard of sample.guards.filter((each) => each.endsWith("/")))
        expect(readdirSync(root + guard)).not.toEqual([]);
    }
  });

  test("none without a name and without a change", () => {
    expect(wholeSuites([], [])).toEqual([]);
    expect(wholeSuites([], ["README.md", "packages/serve/server.ts"])).toEqual([]);
  });

  test.each(["test/webgpu/kernels/norms.test.ts", "test/webgpu/kernels/norms", "kernels/norms", "norms.test.ts"])(
    "one that is named: %s",
    (name) => expect(wholeSuites(["run", name], [])).toEqual(["test/webgpu/kernels/norms.test.ts"]),
  );

  test("a folder names none of its suites", () => {
    expect(wholeSuites(["run", "test/webgpu/kernels/", "test/webgpu/kernels", "test/rewrite"], [])).toEqual([]);
  });

  test("what all kernels share touches all their suites, an operator those that name it, a suite itself", () => {
    expect(kernels.length).toBeGreaterThan(15);
    expect(wholeSuites([], ["src/ops/shared/webgpu/wgsl.ts"])).toEqual(kernels);
    const rotary = wholeSuites([], ["src/ops/rotary-embedding/webgpu.ts"]);
    expect(rotary).toContain("test/webgpu/kernels/rotary.test.ts");
    expect(rotary).not.toContain("test/webgpu/kernels/conv.test.ts");
    expect(wholeSuites([], ["test/rewrite/styles.test.ts"])).toEqual(["test/rewrite/styles.test.ts"]);
  });
});

test("suites ask the soak's helper, not the environment", () => {
  const asking = suites.filter((path) => path.endsWith(".ts") && path !== "test/support/soak.ts");
  const spelled = asking.filter((path) => /env(?:\.|\[")INSITU_SOAK\b(?!_)/.test(readFileSync(root + path, "utf8")));
  expect(spelled).toEqual([]);
});

test("CONTRIBUTING.md tells every sample, and when it is whole", () => {
  const page = readFileSync(`${root}CONTRIBUTING.md`, "utf8");
  const rows = [...page.matchAll(/^\| `(test\/[^`]+)` \| one of (\d+) \| (.*) \|$/gm)].map(([, ...cells]) => cells);
  const told = ({ suites: of, every, guards }: (typeof samples)[number]): string[] => [
    of,
    String(every),
    guards.map((guard) => (guard.endsWith("/") ? `\`${guard}\`` : guard)).join(", "),
  ];
  expect(rows).toEqual(samples.map(told));
});

describe("what was not run", () => {
  const suite = (text: string, sampled: number, others: number) => ({ text, sampled, others });

  test("is told by its reason", () => {
    const skips = [suite("noWebgpu", 30, 5), suite("redisServer", 0, 2), suite("soak", 0, 3)];
    expect(skipReport(skips, new Map([["GPU", "no adapter"]]))).toEqual({
      lines: [
        "not run: 30 tests that are not in the sample (CONTRIBUTING.md says of which suites)",
        expect.stringMatching(/^not run for want of GPU: 5 tests in 1 suites, \d+ at most: no adapter$/),
        "not run: 5 tests of the soak, of other systems, or of packages that are not installed",
      ],
      failures: [],
    });
  });

  test("is a failure beyond the budget of a part, and where the part is expected", () => {
    const beyond = skipReport([suite("haproxy", 0, 10_000)], new Map([["HAProxy", "not installed"]]));
    expect(beyond.failures).toEqual([expect.stringContaining("10000 tests were not run for want of HAProxy")]);
    const expected = skipReport([], new Map([["Redis", "not installed"]]), ["Redis", "GPU"]);
    expect(expected.failures).toEqual(["Redis is expected here (INSITU_PARTS) and missing: not installed"]);
  });
});

test("the record of the last run on a GPU is whole, and it is told when kernels are newer", () => {
  const record = JSON.parse(readFileSync(recordPath, "utf8")) as Record<string, string | null>;
  expect(Object.keys(record)).toEqual(["commit", "date", "device", "result"]);
  if (record["commit"] !== null) {
    expect(record["commit"]).toMatch(/^[0-9a-f]{40}$/);
    expect(record["date"]).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    expect(record["result"]).toMatch(/^\d+ passed, \d+ failed/);
  }
  const newer = newerKernels(record);
  if (newer !== undefined)
    console.log(
      `kernels changed at ${newer}, behind the last run on a GPU (${record["commit"]?.slice(0, 9) ?? record["result"]}): node scripts/on-a-gpu.mjs`,
    );
  expect(newerKernels({ commit: "HEAD" })).toBeUndefined();
});
