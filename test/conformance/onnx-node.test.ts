// ONNX's own node tests (1,884 cases of onnx 1.23.1): every case passes or is an exception with a reason.
// An exception that starts passing fails the build, so that the list stays true. On other backends and with passes the tests run some of them,
// always the same ones, and the soak all.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { runCase } from "../../tools/conformance/case.js";
import { InferenceSession } from "../../src/entry/node.js";
import type { SessionOptions } from "../../src/session/options.js";
import { archivedCases } from "../support/archived-cases.js";
import { soak } from "../support/soak.js";

interface Exceptions {
  /** Operators insitu does not have, and why. */
  readonly operators: Readonly<Record<string, string>>;
  /** Single cases, and why. */
  readonly cases: Readonly<Record<string, string>>;
}

const exceptions = JSON.parse(readFileSync(new URL("exceptions.json", import.meta.url), "utf8")) as Exceptions;
const cases = archivedCases(new URL("onnx-node-1.23.1.tar.br", import.meta.url));
const family =
  /attention|tensorscatter|tensor_scatter|linear_attention|causal_conv|flexattention|flex_attention|rotary|rms_norm|swiglu/;

const passing = new Set<string>();
const missing = new Set<string>();

describe("ONNX's node tests on the reference implementation", () => {
  for (const files of cases) {
    test(files.name, async (context) => {
      const result = await runCase(files, (model) =>
        InferenceSession.create(model, { backend: "reference", graphOptimizationLevel: "disabled" }),
      );
      const operator = /operator (\w+) of domain ([\w.]+)/.exec(result.reason ?? "");
      const name =
        operator === null ? undefined : operator[2] === "ai.onnx" ? operator[1] : `${operator[2]}::${operator[1]}`;
      const reason = exceptions.cases[files.name] ?? (name === undefined ? undefined : exceptions.operators[name]);
      if (name !== undefined) missing.add(name);
      if (reason === undefined) expect(result).toEqual({ name: files.name, status: "passed" });
      else expect(result.status, `the exception "${reason}" no longer holds`).toBe("skipped");
      if (result.status !== "passed") return context.skip(reason);
      passing.add(files.name);
    });
  }

  test("the counts that are claimed, and no exception without a case", () => {
    expect(Object.keys(exceptions.cases).filter((name) => !cases.some((files) => files.name === name))).toEqual([]);
    expect(Object.keys(exceptions.operators).filter((name) => !missing.has(name))).toEqual([]);
    expect(passing.size).toBeGreaterThanOrEqual(1560);
    const text = (count: number): string => count.toLocaleString("en");
    const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
    expect(readme).toContain(`${text(passing.size)} of the ${text(cases.length)} node tests`);
    expect(readme).toContain(`the other ${text(cases.length - passing.size)} need`);
    const inFamily = cases.filter((files) => family.test(files.name));
    expect(inFamily.filter((files) => !passing.has(files.name))).toEqual([]);
    expect(inFamily.length).toBeGreaterThanOrEqual(325);
  });
});

describe("what passes there passes", () => {
  /** One case of so many in the tests, every case in the soak. */
  const settings: readonly (readonly [name: string, every: number, options: SessionOptions])[] = [
    ["on the reference implementation with every pass", 4, { backend: "reference" }],
    ["on wasm with one thread", 2, { backend: "wasm", threads: 1 }],
    ["on wasm with two threads", 6, { backend: "wasm", threads: 2 }],
    ["on wasm with three threads and plain SIMD", 6, { backend: "wasm", threads: 3, wasm: { relaxedSimd: false } }],
  ];
  test.each(settings)("%s", async (_, every, options) => {
    const failed: unknown[] = [];
    for (const [at, files] of cases.entries()) {
      if (!passing.has(files.name) || (!soak && at % every !== 0)) continue;
      const result = await runCase(files, (model) => InferenceSession.create(model, options));
      if (result.status !== "passed") failed.push(result);
    }
    expect(failed).toEqual([]);
  });
});
