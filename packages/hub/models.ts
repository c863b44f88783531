/** `models`: what users do with models by name, over whatever they are kept in. */
import { InsituError } from "#insitu/base/error.js";
import { catalogue, repositoryOf } from "./catalogue.js";
import { fetchHubModel } from "./hub-model.js";
import { checkedHubOptions } from "./hub-options.js";
import { keptModels } from "./kept-models.js";
import type { ModelStore } from "./model-store.js";
import type { HubOptions, KeptModel, Models, ModelStorage } from "./models-api.js";
import { removeModel } from "./remove-model.js";

/** `models` over the store that some options lead to; `defaults` puts in what the platform knows. */
export function modelsOf(
  storeOf: (options: HubOptions) => Promise<ModelStore>,
  defaults: (options: HubOptions) => HubOptions,
): Models {
  return {
    catalogue,
    list: async () => keptModels(await storeOf({})),
    async pull(name, given) {
      const options = defaults(checkedHubOptions(given));
      const store = await storeOf(options);
      if (store.kind === "none") throw new InsituError("download", `"${name}" cannot be kept: ${store.place}`);
      const { revision = "main" } = options;
      await fetchHubModel(store, name, options);
      const repository = repositoryOf(name);
      const kept = await keptModels(store);
      return kept.find((each) => each.name === repository && each.revision === revision) as KeptModel;
    },
    remove: async (name) => removeModel(await storeOf({}), name),
    persist: async () => (await storeOf({})).persist(),
    async storage(): Promise<ModelStorage> {
      const store = await storeOf({});
      const files = await store.files();
      const usedBytes = [...files.values()].reduce((sum, bytes) => sum + bytes, 0);
      return { kind: store.kind, place: store.place, usedBytes, freeBytes: await store.freeBytes() };
    },
  };
}
