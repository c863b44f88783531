// `insitu bench models`: every installed runtime, each in a process of its own, chooses the same tokens on small decoders of both kinds, from an
// ONNX file and from the GGUF file of the same weights; and the full shapes are those of the public configurations.
import { expect, test } from "vitest";
import { findLoads, loads } from "../../src/bench/loads.js";
import { models } from "../../src/bench/models/models.js";
import { findModelPeers } from "../../src/bench/models/runtimes.js";
import { runBench } from "../../src/bench/run.js";
import { publishedShapes } from "../../src/demo/published-shapes.js";

test("everyone who is installed chooses the same tokens, and tells its memory", async () => {
  const report = await runBench([models], { quick: true, repeats: 1, threads: 1 });
  const who = ["insitu", ...Object.keys(findModelPeers().versions)];
  const { groups } = report.loads[0];
  expect(groups).toHaveLength(8);
  for (const { name, contestants, failed } of groups) {
    expect(failed, name).toEqual([]);
    expect(contestants.map(({ runtime }) => runtime)).toEqual(who);
    for (const { name: contestant, problem, figures } of contestants) {
      expect(problem, `${name}: ${contestant}`).toBeNull();
      if (name.includes("one token")) expect(figures["MiB at most"]).toBeGreaterThan(20);
    }
  }
  expect(Object.keys(report.versions)).toEqual(who);
});

test("the shapes have as many parameters as their names say", () => {
  const parameters = publishedShapes.map(({ sizes }) => {
    const { layers, hidden, heads, keyValueHeads, headSize, intermediate, vocabulary } = sizes;
    return layers * hidden * (2 * headSize * (heads + keyValueHeads) + 3 * intermediate) + vocabulary * hidden;
  });
  expect(parameters.map((count) => Math.round(count / 1e6))).toEqual([134, 596, 1236]);
});

test("it runs by its name alone", () => {
  expect(findLoads("models")).toEqual([models]);
  expect(loads).not.toContain(models);
});
