/** Models by name in Node: kept in a folder, with what the environment says of hubs and tokens. */
import { existsSync } from "node:fs";
import { InsituError } from "../base/error.js";
import { isHubSpelling, isShortSpelling } from "../base/foreign-file.js";
import { modelNamed, nameHint } from "#insitu/hub/catalogue.js";
import { fetchHubModel } from "#insitu/hub/hub-model.js";
import { checkedHubOptions } from "#insitu/hub/hub-options.js";
import { modelsOf } from "#insitu/hub/models.js";
import type { HubOptions, Models } from "#insitu/hub/models-api.js";
import { folderStore, keptFolder } from "./model-folder-store.js";

/** What is not said in the options, from the environment. */
export function withEnvironment(options: HubOptions): HubOptions {
  const { HF_ENDPOINT: hubUrl, HF_TOKEN: accessToken } = process.env;
  return {
    cache: keptFolder(),
    ...(hubUrl ? { hubUrl } : {}),
    ...(accessToken ? { accessToken } : {}),
    ...options,
  };
}

/** `models` over one folder. */
export const modelsIn = (folder?: string): Models =>
  modelsOf(
    async (options) => folderStore(options.cache ?? folder ?? keptFolder()),
    (options) => withEnvironment({ ...(folder === undefined ? {} : { cache: folder }), ...options }),
  );

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
export const models: Models = modelsIn();

/** True if a text names a model of the hub, by its short name or in full, and nothing lies at that path. Throws for what is neither. */
export function isModelName(text: string): boolean {
  if (existsSync(text)) return false;
  if (isHubSpelling(text) || modelNamed(text) !== undefined) return true;
  if (!isShortSpelling(text)) return false;
  throw new InsituError(
    "invalid-model",
    `there is nothing at "${text}", and no model has that short name: ${nameHint(text)}`,
  );
}

/** The folder of a model of the hub, fetched where it is not kept, and the variant that was taken. */
export async function fetchNamedModel(
  name: string,
  given: HubOptions,
  onDevice: boolean,
): Promise<{ readonly folder: string; readonly variant: string | undefined }> {
  const options = withEnvironment(checkedHubOptions(given));
  const store = folderStore(options.cache!);
  const { folder, variant } = await fetchHubModel(store, name, options, onDevice);
  return { folder: `${store.place}/${folder}`, variant };
}
