/** The models of a run as files: each shape in a folder of its own, made of random weights when it is first asked for. */
import { existsSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { publishedDecoder } from "../../demo/published-decoder.js";
import type { PublishedShape } from "../../demo/published-shapes.js";
import { writeGguf } from "../device/gguf.js";
import { writeModelFolder } from "../device/model-files.js";
import { TemporaryFolder } from "../temporary-folder.js";

/** Where a shape's files lie. */
export interface ShapeFiles {
  readonly folder: string;
  readonly model: string;
  readonly gguf: string;
  /** Bytes of the ONNX file and its weights. */
  readonly bytes: number;
}

/** The folders of a run. */
export class ShapeFolders {
  readonly #root = new TemporaryFolder();

  /** The files of a shape; the GGUF file only where somebody reads it. */
  of({ name, sizes, form, modelType }: PublishedShape, wantsGguf: boolean): ShapeFiles {
    const folder = join(this.#root.path(), name);
    const [model, gguf] = [join(folder, "model.onnx"), join(folder, "model.gguf")];
    if (!existsSync(folder)) {
      mkdirSync(folder);
      const decoder = publishedDecoder(sizes, form);
      writeModelFolder(folder, decoder, sizes, modelType);
      if (wantsGguf) writeGguf(gguf, decoder, sizes, form.embeddings === "separate" ? "own" : "head");
    }
    return { folder, model, gguf, bytes: statSync(model).size + statSync(`${model}.data`).size };
  }

  remove(): void {
    this.#root.remove();
  }
}
