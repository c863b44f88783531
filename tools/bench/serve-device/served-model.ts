/** The model that is served: one in the shape of Qwen3-0.6B with weights of 4 bits, made for the run, or a folder of the user's. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { InsituError } from "#insitu/base/error.js";
import { ModelFiles } from "../device/model-files.js";
import { type DeviceSizes, modelText } from "../device/sizes.js";

/** A model as files. */
export interface ServedModel {
  readonly folder: string;
  readonly description: string;
  readonly vocabulary: number;
  /** Tokens that it was made for at most; undefined where its files do not say. */
  readonly positions: number | undefined;
  /** The same as llama.cpp reads it, written when it is asked for; undefined where there is no such form. */
  readonly llama: { gguf(): string; readonly layers: number } | undefined;
  /** Removes what was made. */
  remove(): void;
}

/** A model of random weights in a temporary folder, which goes with the run. */
export function madeModel(sizes: DeviceSizes): ServedModel {
  const files = new ModelFiles(sizes);
  const { vocabulary, positions, layers } = sizes.model;
  return {
    folder: files.of("int4").folder,
    description: `random int4 weights, ${sizes.type} activations and caches, ${modelText(sizes.model)}`,
    vocabulary,
    positions,
    llama: { gguf: () => files.gguf("int4"), layers },
    remove: () => files.remove(),
  };
}

/** A folder in the hub's layout. */
export function givenModel(folder: string): ServedModel {
  const path = join(folder, "config.json");
  let config: Readonly<Record<string, unknown>>;
  try {
    config = JSON.parse(readFileSync(path, "utf8")) as typeof config;
  } catch (cause) {
    throw new InsituError(
      "invalid-argument",
      `--model must be a folder in the hub's layout, with a config.json; ${path} cannot be read: ${(cause as Error).message}`,
      { cause },
    );
  }
  const { vocab_size: vocabulary, max_position_embeddings: positions } = config;
  if (typeof vocabulary !== "number")
    throw new InsituError(
      "invalid-argument",
      `${path}: vocab_size must be a number, since prompts are made of random tokens, got ${String(vocabulary)}`,
    );
  return {
    folder,
    description: folder,
    vocabulary,
    positions: typeof positions === "number" ? positions : undefined,
    llama: undefined,
    remove: () => {},
  };
}
