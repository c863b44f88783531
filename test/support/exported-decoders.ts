// The decoders that PyTorch exported, with inputs and expected outputs of every step; float32, float16 and quantised.
import { fileURLToPath } from "node:url";
import { readArchive } from "../../scripts/archive.mjs";
import { tensorView } from "../../src/onnx/model.js";
import { readTensor } from "../../src/onnx/read.js";
import type { View } from "../../src/tensor/view.js";

const files = new Map(
  ["decoders.tar.br", "architectures.tar.br"].flatMap((archive) => [
    ...(readArchive(fileURLToPath(new URL(`../models/${archive}`, import.meta.url))) as Map<string, Uint8Array>),
  ]),
);

/** The names of all models. */
export const exportedDecoders: readonly string[] = [...files.keys()]
  .filter((path) => path.endsWith("/model.onnx"))
  .map((path) => path.split("/")[0]);

export const exportedBytes = (model: string): Uint8Array => files.get(`${model}/model.onnx`)!;

/** How far logits may be from what was recorded. */
export const exportedTolerance = (model: string): number =>
  /fp16/.test(model) ? 3e-2 : /q4/.test(model) ? 2e-2 : /q8/.test(model) ? 5e-2 : 2e-4;

/** The files of each step: model/step → name and bytes of each tensor. */
const steps = new Map<string, [name: string, bytes: Uint8Array][]>();
for (const [path, bytes] of files) {
  const [, step, name] = /^(.*)\/([^/]*)\.pb$/.exec(path) ?? [];
  if (step === undefined) continue;
  if (!steps.has(step)) steps.set(step, []);
  steps.get(step)!.push([name, bytes]);
}

/** The tensors of one step by name. */
export function exportedStep(model: string, step: string): Map<string, View> | undefined {
  const found = steps.get(`${model}/${step}`);
  return found && new Map(found.map(([name, bytes]) => [name, tensorView(readTensor(bytes))]));
}
