// `insitu bench models`: every installed runtime, each in a process of its own, chooses the same tokens on small decoders of both kinds, from an
// ONNX file and from the GGUF file of the same weights; and the full shapes are those of the public configurations.
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { findLoads, loads } from "../../tools/bench/loads.js";
import { models } from "../../tools/bench/models/models.js";
import { findModelPeers } from "../../tools/bench/models/runtimes.js";
import { ShapeFolders } from "../../tools/bench/models/shape-files.js";
import { runBench } from "../../tools/bench/run.js";
import { smallPublishedSizes } from "../../tools/demo/published-decoder.js";
import { publishedShapes, qwen3 } from "../../tools/demo/published-shapes.js";
import { readModel } from "../../src/onnx/read.js";
import { noWebgpu } from "../support/backends.js";
import { soak } from "../support/soak.js";

test("everyone who is installed chooses the same tokens, and tells its memory", async () => {
  const report = await runBench([models], { quick: true, repeats: 1, threads: 1 });
  const who = ["insitu", ...Object.keys(findModelPeers().versions)];
  const { groups } = report.loads[0];
  expect(groups).toHaveLength(12);
  for (const { name, contestants, failed } of groups) {
    expect(failed, name).toEqual([]);
    expect([...new Set(contestants.map(({ runtime }) => runtime))]).toEqual(who);
    expect(contestants.filter(({ runtime }) => runtime === "insitu").map(({ name: own }) => own)).toEqual([
      "insitu",
      'insitu, activations: "float"',
    ]);
    for (const { name: contestant, problem, figures } of contestants) {
      expect(problem, `${name}: ${contestant}`).toBeNull();
      if (name.includes("one token")) expect(figures["MiB at most"]).toBeGreaterThan(20);
    }
  }
  expect(Object.keys(report.versions)).toEqual(who);
});

test.runIf(soak && noWebgpu === undefined)("on a GPU too, with its caches there", async () => {
  const report = await runBench([models], { quick: true, repeats: 1, threads: 1, backend: "webgpu", only: "token" });
  const { groups } = report.loads[0];
  expect(groups).toHaveLength(9);
  for (const { name, contestants, failed } of groups) {
    expect(failed, name).toEqual([]);
    for (const { name: contestant, problem } of contestants) expect(problem, `${name}: ${contestant}`).toBeNull();
  }
  expect(groups[0].contestants.map(({ name }) => name)).toEqual([
    "insitu on webgpu",
    ...("onnxruntime-node" in report.versions ? ["onnxruntime-node, WebGPU, caches in GPU buffers"] : []),
    ...("node-llama-cpp" in report.versions ? ["node-llama-cpp, llama.cpp on Vulkan, Q4_0"] : []),
  ]);
});

test("the files for a GPU have float16 beside the weights of 4 bits, and the token in place of logits", () => {
  const folders = new ShapeFolders();
  try {
    const shape = { ...qwen3, name: "small", sizes: smallPublishedSizes };
    const told: string[] = [];
    const { model, next, gguf } = folders.of(shape, { gguf: false, gpu: "float16", tell: (what) => told.push(what) });
    expect(existsSync(gguf)).toBe(false);
    expect(told.length).toBeGreaterThan(1);
    const typesOf = (path: string): (string | undefined)[][] =>
      readModel(readFileSync(path)).graph.outputs.map(({ name, type }) => [
        name.replace(/\d/, "N"),
        type?.kind === "tensor" ? type.elementType : undefined,
      ]);
    const presents = [0, 1].flatMap(() => [
      ["present.N.key", "float16"],
      ["present.N.value", "float16"],
    ]);
    expect(typesOf(model)).toEqual([["logits", "float16"], ...presents]);
    expect(typesOf(next!)).toEqual([["next", "int64"], ...presents]);
  } finally {
    folders.remove();
  }
  const [full] = models.groups({ quick: false, peers: [], alone: true, backend: "webgpu", threads: 1 });
  expect(full.name).toBe("SmolLM2-135M: loading, 30 layers of 576, vocabulary 49,152, float16");
});

test("the shapes have as many parameters as their names say", () => {
  const parameters = publishedShapes.map(({ sizes }) => {
    const { layers, hidden, heads, keyValueHeads, headSize, intermediate, vocabulary, experts } = sizes;
    const inner = 3 * intermediate * (experts?.count ?? 1);
    return layers * hidden * (2 * headSize * (heads + keyValueHeads) + inner) + vocabulary * hidden;
  });
  expect(parameters.map((count) => Math.round(count / 1e6))).toEqual([134, 596, 1236, 4022, 20_326]);
});

test("large shapes are measured where they are asked for by name", async () => {
  const setting = { quick: false, peers: [], alone: true, backend: undefined, threads: 1 } as const;
  const names = new Set(models.groups(setting).map(({ largeName }) => largeName));
  expect([...names]).toEqual([undefined, "Qwen3-4B", "gpt-oss-20b"]);
  const load = {
    ...models,
    groups: () =>
      [undefined, "big-1"].map((largeName) => ({
        name: `${largeName ?? "small"}: token`,
        contestants: [],
        check: () => new Map<string, string>(),
        ...(largeName === undefined ? {} : { largeName }),
      })),
  };
  for (const [only, found] of [
    ["", ["small: token"]],
    ["token", ["small: token"]],
    ["big", ["big-1: token"]],
    ["big-1: token", ["big-1: token"]],
  ] as const) {
    const report = await runBench([load], { quick: true, repeats: 1, only });
    expect(report.loads[0].groups.map(({ name }) => name)).toEqual(found);
  }
});

test("it runs by its name alone", () => {
  expect(findLoads("models")).toEqual([models]);
  expect(loads).not.toContain(models);
});
