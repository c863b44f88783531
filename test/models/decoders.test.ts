// Decoders as PyTorch exports them, step by step: prefill, then one token at a time, each step's present the next one's past.
// The expected logits come from PyTorch (float32, float16) and onnxruntime (quantised).
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { readArchive } from "../../scripts/archive.mjs";
import { InferenceSession } from "../../src/entry/node.js";
import { tensorView } from "../../src/onnx/model.js";
import { readTensor } from "../../src/onnx/read.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { compareViews } from "../support/compare.js";
import { View } from "../../src/tensor/view.js";

const files = new Map(
  ["decoders.tar.br", "architectures.tar.br"].flatMap((archive) => [
    ...(readArchive(fileURLToPath(new URL(archive, import.meta.url))) as Map<string, Uint8Array>),
  ]),
);
const models = [...files.keys()].filter((path) => path.endsWith("/model.onnx")).map((path) => path.split("/")[0]);
const toleranceOf = (model: string): number =>
  /fp16/.test(model) ? 3e-2 : /q4/.test(model) ? 2e-2 : /q8/.test(model) ? 5e-2 : 2e-4;

/** The tensors of one step by name. */
function stepOf(model: string, step: string): Map<string, View> | undefined {
  const prefix = `${model}/${step}/`;
  const found = [...files].filter(([path]) => path.startsWith(prefix));
  if (found.length === 0) return undefined;
  return new Map(
    found.map(([path, bytes]) => [path.slice(prefix.length, -".pb".length), tensorView(readTensor(bytes))]),
  );
}

/** A cache of length 0 for a past input: the batch first, the growing axis empty. */
function emptyPast(session: InferenceSession, name: string, batch: number): Tensor {
  const { shape, type } = session.inputMetadata.find((input) => input.name === name)!;
  const dims = shape.map((dim, axis) => (typeof dim === "number" ? dim : axis === 0 ? batch : 0));
  return Tensor.fromView(View.allocate(type, dims));
}

const presentOf = (past: string): string => past.replace("past_key_values", "present");

for (const model of models) {
  const runs = ["step", "long", "padded"].filter((run) => stepOf(model, `${run}0`) !== undefined);
  if (runs.length === 0) continue;
  describe.each(["reference", "wasm"] as const)(`${model} on %s`, async (backend) => {
    const session = await InferenceSession.create(files.get(`${model}/model.onnx`)!, { backend, threads: 2 });
    const pasts = session.inputNames.filter((name) => name.startsWith("past_key_values"));
    for (const run of runs) {
      test(`${run}: every step's outputs`, async () => {
        let carried: Record<string, Tensor> | undefined;
        let compared = 0;
        for (let number = 0; ; number++) {
          const step = stepOf(model, `${run}${number}`);
          if (step === undefined) break;
          const feeds: Record<string, Tensor> = {};
          for (const name of session.inputNames) if (step.has(name)) feeds[name] = Tensor.fromView(step.get(name)!);
          for (const name of pasts)
            feeds[name] = carried?.[presentOf(name)] ?? emptyPast(session, name, feeds["input_ids"].dims[0]);
          carried = await session.run(feeds);
          for (const name of session.outputNames) {
            const expected = step.get(name);
            if (expected === undefined) continue;
            const actual = carried[name].toView();
            // Long and padded runs keep the last position's logits only.
            const rows =
              actual.rank === 3 && expected.shape[1] !== actual.shape[1]
                ? actual.slice(1, actual.shape[1] - expected.shape[1], actual.shape[1])
                : actual;
            expect(compareViews(rows, expected, { tolerance: toleranceOf(model) }), `${run}${number}, ${name}`).toBe(
              "",
            );
            compared++;
          }
        }
        expect(compared).toBeGreaterThan(3);
      });
    }
  });
}
