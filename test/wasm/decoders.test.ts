// Decoders as exporters write them, as they are and rewritten: once a prompt and a step have run, kernels did every step.
// The tests run a third of it (test/support/sample-setup.ts), the soak all.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readArchive } from "../../scripts/archive.mjs";
import { InferenceSession } from "../../src/entry/node.js";
import type { ExplainJson } from "../../packages/explain/json.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { int64 } from "../support/decoding.js";

const files = new Map(
  ["decoders.tar.br", "architectures.tar.br"].flatMap((archive) => [
    ...(readArchive(fileURLToPath(new URL(`../models/${archive}`, import.meta.url))) as Map<string, Uint8Array>),
  ]),
);
const models = [...files.keys()].filter((path) => path.endsWith("/model.onnx")).map((path) => path.split("/")[0]);
/** Its caches are written by ScatterND and named so that no state finds them: they are fed. */
const withFedCaches = "llama_static_op24";
/** The steps that the reference did, by operator and reason. */
const slowSteps = ({ steps }: ExplainJson): string[] =>
  steps.filter(({ runs }) => runs === "reference").map(({ op, reasons }) => `${op}: ${reasons?.join("; ")}`);

for (const model of models.filter((name) => name !== withFedCaches)) {
  for (const rewrite of ["never", "auto"] as const) {
    test(`${model}, rewrite: ${rewrite}`, async () => {
      const session = await InferenceSession.create(files.get(`${model}/model.onnx`)!, { threads: 2, rewrite });
      const state = session.createState({ dims: { batch: 1, capacity: 32 } });
      let past = 0;
      for (const length of [6, 1]) {
        const positions = Array.from({ length }, (_, at) => past + at);
        const given = {
          input_ids: int64(positions, [1, length]),
          position_ids: int64(positions, [1, length]),
          attention_mask: int64(new Array<number>(past + length).fill(1), [1, past + length]),
        };
        const feeds = Object.fromEntries(Object.entries(given).filter(([name]) => session.inputNames.includes(name)));
        await session.run(feeds, { state });
        past += length;
        const told = session.explain({ json: true });
        expect(told.steps.some(({ runs }) => runs === "kernel")).toBe(true);
        expect(slowSteps(told)).toEqual([]);
      }
      await session.release();
    });
  }
}

test(`${withFedCaches}, caches fed`, async () => {
  const session = await InferenceSession.create(files.get(`${withFedCaches}/model.onnx`)!, { threads: 2 });
  const feeds = session.inputMetadata.map(({ name, type, shape }) => {
    const view = View.allocate(
      type,
      shape.map((dim) => (typeof dim === "number" ? dim : 1)),
    );
    return [name, Tensor.fromView(view)] as const;
  });
  await session.run(Object.fromEntries(feeds));
  expect(slowSteps(session.explain({ json: true }))).toEqual([]);
  expect(session.explain({ json: true }).steps.find(({ op }) => op === "ScatterND")?.kernels).toContain("scatterRuns");
  await session.release();
});
