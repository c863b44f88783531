// The exported decoders and their reference runs, fed to a rewritten model: no mask, prompts packed to the left, lengths from the state.
import { fileURLToPath } from "node:url";
import { readArchive } from "../../scripts/archive.mjs";
import type { InferenceSession } from "../../src/entry/node.js";
import { tensorView } from "../../src/onnx/model.js";
import { readTensor } from "../../src/onnx/read.js";
import { readIntegers, writeIntegers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";

const files = new Map<string, Uint8Array>(
  ["decoders.tar.br", "architectures.tar.br"].flatMap((archive) => [
    ...(readArchive(fileURLToPath(new URL(`../models/${archive}`, import.meta.url))) as Map<string, Uint8Array>),
  ]),
);

export const models: readonly string[] = [...files.keys()]
  .filter((path) => path.endsWith("/model.onnx"))
  .map((path) => path.split("/")[0]);

export const bytesOf = (model: string): Uint8Array => files.get(`${model}/model.onnx`)!;

export const toleranceOf = (model: string): number =>
  /fp16/.test(model) ? 3e-2 : /q4/.test(model) ? 2e-2 : /q8/.test(model) ? 5e-2 : 2e-4;

/** The tensors of one step by name. */
export function stepOf(model: string, step: string): Map<string, View> | undefined {
  const prefix = `${model}/${step}/`;
  const found = [...files].filter(([path]) => path.startsWith(prefix));
  if (found.length === 0) return undefined;
  return new Map(
    found.map(([path, bytes]) => [path.slice(prefix.length, -".pb".length), tensorView(readTensor(bytes))]),
  );
}

/** One step for a rewritten model. */
export interface PackedStep {
  readonly ids: Tensor;
  readonly positions: Tensor;
  /** Valid tokens of each sample in this step. */
  readonly counts: readonly number[];
  readonly logits: View;
}

/** The steps of a run, each sample's valid tokens first. */
export function packedSteps(model: string, run: string): PackedStep[] {
  const steps: PackedStep[] = [];
  for (let number = 0; ; number++) {
    const step = stepOf(model, `${run}${number}`);
    if (step === undefined) return steps;
    const [ids, mask, logits] = ["input_ids", "attention_mask", "logits"].map((name) => step.get(name)!);
    const [batch, length] = ids.shape;
    const total = mask?.shape[1] ?? 0;
    const [tokens, valid] = [readIntegers(ids), mask && readIntegers(mask)];
    const [packed, positions] = [new Array<number>(batch * length).fill(0), new Array<number>(batch * length).fill(0)];
    const counts: number[] = [];
    for (let sample = 0; sample < batch; sample++) {
      let count = 0;
      const before = (valid ?? [])
        .slice(sample * total, (sample + 1) * total - length)
        .reduce((sum, bit) => sum + bit, 0);
      for (let at = 0; at < length; at++) {
        positions[sample * length + at] = before + at;
        if (valid !== undefined && valid[(sample + 1) * total - length + at] === 0) continue;
        packed[sample * length + count++] = tokens[sample * length + at];
      }
      counts.push(count);
    }
    steps.push({ ids: int64(packed, ids.shape), positions: int64(positions, ids.shape), counts, logits });
  }
}

export function int64(values: readonly number[], dims: readonly number[] = [values.length]): Tensor {
  const view = View.allocate("int64", dims);
  writeIntegers(view, values);
  return Tensor.fromView(view);
}

/** The logits of each sample's last valid tokens, as many as the reference has. */
export function lastRows(logits: Tensor, counts: readonly number[], expected: View): View[][] {
  const whole = logits.toView();
  return counts.map((count, sample) => {
    const rows = Math.min(expected.shape[1], count);
    const from = (view: View, end: number): View => view.slice(0, sample, sample + 1).slice(1, end - rows, end);
    return [from(whole, count), from(expected, expected.shape[1])];
  });
}

/** The name of the logits among a session's outputs: the one that no state keeps. */
export const logitsName = (session: InferenceSession): string => session.outputNames[0];
