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

/** The tensors of one step by name. */
export function exportedStep(model: string, step: string): Map<string, View> | undefined {
  const prefix = `${model}/${step}/`;
  const found = [...files].filter(([path]) => path.startsWith(prefix));
  if (found.length === 0) return undefined;
  return new Map(
    found.map(([path, bytes]) => [path.slice(prefix.length, -".pb".length), tensorView(readTensor(bytes))]),
  );
}
