/** The embedding model as browsers have it: its files come by fetch. */
import { placeOf } from "../generate/model-folder.js";
import { type LoadEmbeddingOptions, TextEmbedder } from "../generate/text-embedder.js";
import { webPlatform } from "../platform/web.js";
import { InferenceSession } from "./web.js";

/** A model that makes embeddings of texts, or ranks them. */
export class EmbeddingModel extends TextEmbedder {
  /** Loads a model from the URL of a folder in the hub's layout, or of an ONNX file with its tokenizer beside it. */
  static async load(source: string | URL, options?: LoadEmbeddingOptions): Promise<EmbeddingModel> {
    const open = (model: string, more: object): Promise<InferenceSession> => InferenceSession.create(model, more);
    return new EmbeddingModel(await TextEmbedder.prepare(placeOf(source), webPlatform, open, options));
  }
}
