/** `models` in browsers: models by name, kept in the origin's storage. */
import { modelsOf } from "#insitu/hub/models.js";
import type { Models } from "#insitu/hub/models-api.js";
import { webStore } from "./web-model-store.js";

/**
 * Models by name: what the catalogue has and what is kept on this machine; how models are downloaded and removed.
 * @example
 * ```ts
 * import { models } from "insitu";
 *
 * const small = models.catalogue.filter(({ parameters }) => parameters < 1e9);
 * console.log(small.map(({ name }) => name));
 * await models.pull("smollm2-135m", { onProgress: ({ loaded, total }) => console.log(loaded / total) });
 * console.log(await models.list());
 * ```
 */
export const models: Models = modelsOf(webStore, (options) => options);
