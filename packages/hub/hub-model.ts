/** A language model from the hub: the files that are needed of it, kept in a store. A complete one needs no network. */
import { repositoryOf } from "./catalogue.js";
import { chooseFiles, variantOrder } from "./choose-files.js";
import { downloadFile, type RemoteFile } from "./download-file.js";
import { checkedHubOptions } from "./hub-options.js";
import { completeVariants, folderOfModel, recordOf } from "./kept-models.js";
import { listModel } from "./list-model.js";
import type { ModelStore } from "./model-store.js";
import type { HubOptions } from "./models-api.js";
import { checkRoom, clearFull } from "./room.js";

/** The public hub. */
const publicHub = "https://huggingface.co";

/** A model that is in a store as a whole. */
interface FetchedModel {
  /** Its folder in the store. */
  readonly folder: string;
  /** The variant that is there; undefined where it is the only one. */
  readonly variant: string | undefined;
}

/**
 * Fetches what is missing of a model, by its short name or its name on the hub. Where no variant is asked for, one that is kept is taken
 * before another is fetched. `onDevice` says that a GPU will compute it.
 */
export async function fetchHubModel(
  store: ModelStore,
  given: string,
  wanted?: HubOptions,
  onDevice = false,
): Promise<FetchedModel> {
  const options = checkedHubOptions(wanted);
  const { revision = "main", signal } = options;
  const name = repositoryOf(given);
  const folder = folderOfModel(name, revision);
  const kept = await keptVariant(store, folder, options.variant, onDevice);
  if (kept !== undefined) return kept;
  return store.exclusive(folder, signal, async () => {
    // Who waited for another may find everything done.
    const done = await keptVariant(store, folder, options.variant, onDevice);
    if (done !== undefined) return done;
    return fetchInto(store, folder, name, options, onDevice).catch((error: unknown) => clearFull(store, folder, error));
  });
}

/** The files of a model on the hub, with what they are asked with. */
export async function listOnHub(
  name: string,
  options: HubOptions,
): Promise<{ readonly files: Map<string, RemoteFile>; readonly headers: Readonly<Record<string, string>> }> {
  const { revision = "main", hubUrl = publicHub, accessToken, signal } = options;
  const headers: Record<string, string> = accessToken === undefined ? {} : { Authorization: `Bearer ${accessToken}` };
  return { files: await listModel({ name, revision, hubUrl, headers, signal }), headers };
}

/** A variant that is there as a whole: the one that is asked for, or the first choice of those. */
async function keptVariant(
  store: ModelStore,
  folder: string,
  asked: string | undefined,
  onDevice: boolean,
): Promise<FetchedModel | undefined> {
  const whole = await completeVariants(store, folder);
  if (asked !== undefined) return whole.includes(asked) ? { folder, variant: asked } : undefined;
  const order = ["", ...variantOrder(onDevice)];
  const [first] = whole.toSorted((a, b) => rankOf(order, a) - rankOf(order, b));
  return first === undefined ? undefined : { folder, variant: first === "" ? undefined : first };
}

const rankOf = (order: readonly string[], variant: string): number =>
  order.includes(variant) ? order.indexOf(variant) : order.length;

async function fetchInto(
  store: ModelStore,
  folder: string,
  name: string,
  options: HubOptions,
  onDevice: boolean,
): Promise<FetchedModel> {
  const { signal, onPlan, onProgress } = options;
  const { files, headers } = await listOnHub(name, options);
  const { variant, paths } = chooseFiles(name, files, options.variant, onDevice);
  const here = await store.files(folder);
  const bytes = paths.reduce((sum, path) => sum + files.get(path)!.size, 0);
  const partOf = (path: string): number => here.get(`${folder}/${path}`) ?? here.get(`${folder}/${path}.part`) ?? 0;
  const bytesHere = paths.reduce((sum, path) => sum + Math.min(partOf(path), files.get(path)!.size), 0);
  onPlan?.({ name, variant, files: paths, bytes, bytesHere, place: store.place });
  await checkRoom(store, name, bytes - bytesHere);
  let before = 0;
  for (const path of paths) {
    const file = files.get(path)!;
    const tell = (there: number): void =>
      onProgress?.({ file: path, bytes: there, size: file.size, loaded: before + there, total: bytes });
    if (!here.has(`${folder}/${path}`))
      await downloadFile(file, await store.partial(`${folder}/${path}`), { headers, signal, onBytes: tell });
    before += file.size;
  }
  // Last of all: its presence says that everything it lists is there.
  await store.write(`${folder}/${recordOf(variant)}`, JSON.stringify(paths));
  return { folder, variant };
}
