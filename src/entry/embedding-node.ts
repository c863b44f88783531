/** The embedding model as Node has it: its files come from folders, or from the hub. */
import { optionsWithoutNull } from "../base/arguments.js";
import { placeOf } from "../generate/model-folder.js";
import { loadEmbeddingOptionNames, type LoadEmbeddingOptions, TextEmbedder } from "#insitu/embedding/text-embedder.js";
import { checkedHubOptions } from "#insitu/hub/hub-options.js";
import type { HubOptions } from "#insitu/hub/models-api.js";
import { nodePlatform } from "../platform/node.js";
import { fetchNamedModel, isModelName } from "../platform/node-models.js";
import { computesOnDevice } from "./named-models.js";
import { InferenceSession } from "./node.js";

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
  /** Loads a model from a folder in the hub's layout, from an ONNX file with its tokenizer beside it, or by its name on the hub. */
  static async load(
    source: string | URL,
    options?: LoadEmbeddingOptions & { readonly hub?: HubOptions | undefined },
  ): Promise<EmbeddingModel> {
    const names = { ...loadEmbeddingOptionNames, hub: true } as const;
    const { hub, ...rest } = optionsWithoutNull("the options of EmbeddingModel.load", options, names);
    if (hub !== undefined) checkedHubOptions(hub);
    const asked = rest.variant === undefined ? {} : { variant: rest.variant };
    const given = placeOf(source);
    const { folder, ...variant } = isModelName(given)
      ? await fetchNamedModel(given, { ...asked, ...hub }, await computesOnDevice(rest, nodePlatform))
      : { folder: given, ...asked };
    const own = { ...rest, ...variant };
    return new EmbeddingModel(
      await TextEmbedder.prepare(folder, nodePlatform, (model, more) => InferenceSession.create(model, more), own),
    );
  }
}
