/** How a model that is kept in a store is removed. */
import { InsituError } from "#insitu/base/error.js";
import { modelNamed, nameHint } from "./catalogue.js";
import { folderOfModel, keptModels } from "./kept-models.js";
import type { ModelStore } from "./model-store.js";
import type { KeptModel } from "./models-api.js";

/** Removes what is kept of a model, all revisions of it where none is named; what was removed. Throws where there is nothing. */
export async function removeModel(store: ModelStore, given: string): Promise<readonly KeptModel[]> {
  const isUrl = /^https?:/i.test(given);
  const [named, revision] = isUrl ? [given.replace(/\/+$/, ""), undefined] : given.split(/@(.*)/s);
  const name = modelNamed(named)?.repository ?? named;
  const all = await keptModels(store);
  const found = all.filter((each) => each.name === name && (revision === undefined || each.revision === revision));
  if (found.length === 0) {
    const names = [
      ...new Set(all.map((each) => (revision === undefined ? each.name : `${each.name}@${each.revision}`))),
    ];
    const hint = isUrl || named.includes("/") ? "" : `; ${nameHint(named)}`;
    throw new InsituError(
      "invalid-argument",
      `${given} is not kept in ${store.place}; there ${names.length === 0 ? "is nothing" : `is ${names.join(", ")}`}${names.includes(name) ? "" : hint}`,
    );
  }
  for (const each of found) await store.remove(folderOfModel(each.name, each.revision));
  return found;
}
