// Decoders as PyTorch exports them, step by step: prefill, then one token at a time, each step's present the next one's past.
// The expected logits come from PyTorch (float32, float16) and onnxruntime (quantised). The tests run all of them on WASM, one in four on two
// threads and on the reference implementation too; the soak runs all of them on every backend.
import { describe, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { compareViews } from "../support/compare.js";
import { View } from "../../src/tensor/view.js";
import { noWebgpu } from "../support/backends.js";
import { exportedBytes, exportedDecoders, exportedStep, exportedTolerance } from "../support/exported-decoders.js";
import { soak } from "../support/soak.js";

/** A cache of length 0 for a past input: the batch first, the growing axis empty. */
function emptyPast(session: InferenceSession, name: string, batch: number): Tensor {
  const { shape, type } = session.inputMetadata.find((input) => input.name === name)!;
  const dims = shape.map((dim, axis) => (typeof dim === "number" ? dim : axis === 0 ? batch : 0));
  return Tensor.fromView(View.allocate(type, dims));
}

const presentOf = (past: string): string => past.replace("past_key_values", "present");

for (const [at, model] of exportedDecoders.entries()) {
  const runs = ["step", "long", "padded"].filter((run) => exportedStep(model, `${run}0`) !== undefined);
  if (runs.length === 0) continue;
  // On a GPU in the soak: shaders for every shape take long to compile where a program plays the GPU.
  const onGpu = noWebgpu === undefined && soak;
  const isThorough = soak || at % 4 === 0;
  describe.each([
    ...(isThorough ? (["reference"] as const) : []),
    "wasm" as const,
    ...(onGpu ? (["webgpu"] as const) : []),
  ])(`${model} on %s`, async (backend) => {
    const session = await InferenceSession.create(exportedBytes(model), { backend, threads: isThorough ? 2 : 1 });
    const pasts = session.inputNames.filter((name) => name.startsWith("past_key_values"));
    for (const run of runs) {
      test(`${run}: every step's outputs`, async () => {
        let carried: Record<string, Tensor> | undefined;
        let compared = 0;
        for (let number = 0; ; number++) {
          const step = exportedStep(model, `${run}${number}`);
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
            expect(
              compareViews(rows, expected, { tolerance: exportedTolerance(model) }),
              `${run}${number}, ${name}`,
            ).toBe("");
            compared++;
          }
        }
        expect(compared).toBeGreaterThan(3);
      });
    }
  });
}
