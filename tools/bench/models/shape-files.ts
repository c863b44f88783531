/**
 * The models of a run as files: each shape in a folder of its own, made of random weights when it is first asked for. For processors they have what the
 * hub's files of 4 bits have; for GPUs activations are in float16, and the head computes the last token alone, with ArgMax behind it for those who
 * fetch nothing else.
 */
import { existsSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { publishedDecoder, type PublishedForm } from "../../demo/published-decoder.js";
import type { PublishedShape } from "../../demo/published-shapes.js";
import { writeGguf } from "../device/gguf.js";
import { writeArgMax, writeModelFolder } from "../device/model-files.js";
import { TemporaryFolder } from "../temporary-folder.js";

/** Where a shape's files lie. */
export interface ShapeFiles {
  readonly folder: string;
  readonly model: string;
  /** The model with ArgMax behind it, for a GPU. */
  readonly next: string | undefined;
  readonly gguf: string;
  /** Bytes of the ONNX file and its weights. */
  readonly bytes: number;
}

/** What is wanted of a shape. */
interface WantedFiles {
  /** The GGUF file: only where somebody reads it. */
  readonly gguf: boolean;
  /** For a GPU: the type of activations and caches there. */
  readonly gpu: NonNullable<PublishedForm["type"]> | undefined;
  /** Told what is being made: seconds pass. */
  readonly tell: (what: string) => void;
}

/** The folders of a run. */
export class ShapeFolders {
  readonly #root = new TemporaryFolder();

  /** The files of a shape. */
  of({ name, sizes, form, modelType }: PublishedShape, { gguf: wantsGguf, gpu, tell }: WantedFiles): ShapeFiles {
    const folder = join(this.#root.path(), name);
    const [model, gguf, next] = ["model.onnx", "model.gguf", "next.onnx"].map((file) => join(folder, file));
    if (!existsSync(folder)) {
      mkdirSync(folder);
      tell(`making the weights of ${name}`);
      const decoder = publishedDecoder(sizes, gpu === undefined ? form : { ...form, type: gpu, logits: "last" });
      tell(`writing the ONNX file of ${name}`);
      const written = writeModelFolder(folder, decoder, sizes, modelType);
      if (gpu !== undefined) writeArgMax(next, written);
      if (wantsGguf) {
        tell(`writing the GGUF file of ${name}`);
        writeGguf(gguf, decoder, sizes, form.embeddings === "separate" ? "own" : "head");
      }
      tell(`the files of ${name} are there`);
    }
    const bytes = statSync(model).size + statSync(`${model}.data`).size;
    return { folder, model, next: gpu === undefined ? undefined : next, gguf, bytes };
  }

  remove(): void {
    this.#root.remove();
  }
}
