// The exported decoders of test/models: their files, the inputs of their steps, and feeds made of both.
import { fileURLToPath } from "node:url";
import { readArchive } from "../../scripts/archive.mjs";
import type { InferenceSession } from "../../src/entry/node.js";
import { tensorView } from "../../src/onnx/model.js";
import { readTensor } from "../../src/onnx/read.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { feedsFor } from "./support.js";

const files = new Map(
  ["decoders.tar.br", "architectures.tar.br"].flatMap((archive) => [
    ...(readArchive(fileURLToPath(new URL(`../models/${archive}`, import.meta.url))) as Map<string, Uint8Array>),
  ]),
);

/** The decoders by name. */
export const decoders: readonly string[] = [...files.keys()]
  .filter((path) => path.endsWith("/model.onnx"))
  .map((path) => path.split("/")[0]);

/** The file of a decoder. */
export const fileOf = (decoder: string): Uint8Array => files.get(`${decoder}/model.onnx`)!;

/** The tensors of one step by name. */
function stepOf(decoder: string, step: string): Map<string, View> | undefined {
  const prefix = `${decoder}/${step}/`;
  const found = [...files].filter(([path]) => path.startsWith(prefix));
  if (found.length === 0) return undefined;
  return new Map(
    found.map(([path, bytes]) => [path.slice(prefix.length, -".pb".length), tensorView(readTensor(bytes))]),
  );
}

/** The feeds of a step, its past from the results of the one before; undefined where there is no such step. */
export function stepFeeds(
  session: InferenceSession,
  decoder: string,
  step: string,
  carried: Readonly<Record<string, Tensor>> | undefined,
): Record<string, Tensor> | undefined {
  const given = stepOf(decoder, step);
  if (given === undefined) {
    // Of the decoder with a static cache there are no recorded steps.
    return step === "step0" ? feedsFor(session, { s56: 2, s70: 3, s58: 3 }) : undefined;
  }
  const batch = given.get("input_ids")!.shape[0];
  const empty = (shape: readonly (number | string)[]): number[] =>
    shape.map((dim, axis) => (typeof dim === "number" ? dim : axis === 0 ? batch : 0));
  return Object.fromEntries(
    session.inputMetadata.map(({ name, type, shape }) => {
      const view = given.get(name);
      if (view !== undefined) return [name, Tensor.fromView(view)];
      const past = carried?.[name.replace("past_key_values", "present")];
      return [name, past ?? Tensor.fromView(View.allocate(type, empty(shape)))];
    }),
  );
}
