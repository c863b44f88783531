/** The embedding model as browsers have it: its files come by fetch. */
import { placeOf } from "../generate/model-folder.js";
import { type LoadEmbeddingOptions, TextEmbedder } from "#insitu/embedding/text-embedder.js";
import { webPlatform } from "../platform/web.js";
import { InferenceSession } from "./web.js";

/**
 * An embedding model or a reranker: turns texts into vectors, and ranks documents for a query.
 * @example
 * ```ts
 * import { EmbeddingModel } from "insitu";
 *
 * const model = await EmbeddingModel.load("Xenova/all-MiniLM-L6-v2", { variant: "q8" });
 * const [best] = await model.rank("a pet", ["a cat", "a car"]);
 * console.log(best.index, best.score);
 * await model.release();
 * ```
 */
export class EmbeddingModel extends TextEmbedder {
  /** Loads a model from the URL of a folder in the hub's layout, or of an ONNX file with its tokenizer beside it. */
  static async load(source: string | URL, options?: LoadEmbeddingOptions): Promise<EmbeddingModel> {
    const open = (model: string, more: object): Promise<InferenceSession> => InferenceSession.create(model, more);
    return new EmbeddingModel(await TextEmbedder.prepare(placeOf(source), webPlatform, open, options));
  }
}
