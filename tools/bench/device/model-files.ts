/**
 * The models that a device is measured with, as files: a folder in the hub's layout for each kind of weights, made of random weights when it
 * is first asked for, in a temporary folder that goes with the run. Peers in other processes read the same files.
 */
import { closeSync, existsSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { publishedDecoder, type PublishedSizes } from "../../demo/published-decoder.js";
import { node, value } from "#insitu/onnx/build.js";
import type { Model } from "#insitu/onnx/model.js";
import { moveToExternalData } from "../../demo/move-external.js";
import { writeModelPieces } from "#insitu/onnx/write.js";
import { TemporaryFolder } from "../temporary-folder.js";
import { writeGguf } from "./gguf.js";
import type { DeviceSizes } from "./sizes.js";

/** How weights are kept: in the type that everything else has, or in blocks of 4 bits. */
export type WeightKind = "plain" | "int4";

/** Where one kind lies. */
export interface ModelFolder {
  readonly folder: string;
  /** The decoder as published: logits of the last token. */
  readonly model: string;
  /** The same with ArgMax behind the logits: the output is `next`, the likeliest token. */
  readonly next: string;
}

/** The folders of a run. */
export class ModelFiles {
  readonly #sizes: PublishedSizes;
  readonly #type: DeviceSizes["type"];
  readonly #made = new Map<WeightKind, ModelFolder>();
  readonly #folder = new TemporaryFolder();

  constructor({ model, type }: DeviceSizes) {
    this.#sizes = model;
    this.#type = type;
  }

  of(kind: WeightKind): ModelFolder {
    const made = this.#made.get(kind) ?? this.#make(kind);
    this.#made.set(kind, made);
    return made;
  }

  /** The same as llama.cpp reads it, written when it is first asked for: the path. */
  gguf(kind: WeightKind): string {
    const path = join(this.of(kind).folder, "model.gguf");
    if (!existsSync(path)) writeGguf(path, this.#decoder(kind), this.#sizes);
    return path;
  }

  /** The decoder itself, made anew each time: it is large. */
  #decoder(kind: WeightKind): Model {
    const weights = kind === "int4" ? ({ bits: 4, blockSize: 32 } as const) : "plain";
    return publishedDecoder(this.#sizes, { type: this.#type, weights, logits: "last" });
  }

  #make(kind: WeightKind): ModelFolder {
    const folder = join(this.#folder.path(), kind);
    mkdirSync(folder);
    const model = writeModelFolder(folder, this.#decoder(kind), this.#sizes, "qwen3");
    const next = join(folder, "next.onnx");
    writeArgMax(next, model);
    return { folder, model: join(folder, "model.onnx"), next };
  }

  remove(): void {
    this.#folder.remove();
    this.#made.clear();
  }
}

/** Writes a decoder in the hub's layout, its weights in a file beside it; the model that names that file. */
export function writeModelFolder(folder: string, decoder: Model, sizes: PublishedSizes, modelType: string): Model {
  const { model, pieces } = moveToExternalData(decoder, { location: "model.onnx.data" });
  writePieces(join(folder, "model.onnx.data"), pieces);
  writePieces(join(folder, "model.onnx"), writeModelPieces(model));
  const { vocabulary, positions } = sizes;
  writeFileSync(
    join(folder, "config.json"),
    JSON.stringify({ model_type: modelType, vocab_size: vocabulary, max_position_embeddings: positions }),
  );
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer(vocabulary)));
  return model;
}

/** Writes a model that names its weights' file once more, with ArgMax behind the logits of the last token. */
export function writeArgMax(path: string, model: Model): void {
  writePieces(path, writeModelPieces(withArgMax(model)));
}

function writePieces(path: string, pieces: readonly Uint8Array[]): void {
  const file = openSync(path, "w");
  // One call writes 2 GiB at most.
  for (const piece of pieces) for (let at = 0; at < piece.length;) at += writeSync(file, piece, at);
  closeSync(file);
}

function withArgMax(model: Model): Model {
  const { graph } = model;
  const search = node("ArgMax", ["logits"], ["next"], { axis: -1, keepdims: 0 }, { name: "/next/ArgMax" });
  const outputs = graph.outputs.map((output) =>
    output.name === "logits" ? value("next", "int64", ["batch_size", 1]) : output,
  );
  return { ...model, graph: { ...graph, nodes: [...graph.nodes, search], outputs, source: undefined } };
}

/** A tokenizer with a word for each token: text comes out of it, nobody puts any in. */
function tokenizer(vocabulary: number): object {
  return {
    version: "1.0",
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      vocab: Object.fromEntries(Array.from({ length: vocabulary }, (_, token) => [`w${token}`, token])),
      merges: [],
    },
  };
}
