/** The models that are kept in a store. Fetches nothing, and knows no catalogue. */
import { type ModelStore, textIn } from "./model-store.js";
import type { KeptModel } from "./models-api.js";

/** The folder of one revision of a model; a URL in place of a name is written so that it is one folder. */
export const folderOfModel = (name: string, revision: string): string =>
  `${/^https?:/i.test(name) ? `url--${encodeURIComponent(name)}` : name.replace("/", "--")}/${encodeURIComponent(revision)}`;

/** The file that says which files of a variant are there. */
export const recordOf = (variant: string | undefined): string =>
  `complete${variant === undefined ? "" : `-${variant}`}.json`;

const recordPattern = /^complete(?:-([^/]+))?\.json$/;

/** The variants of a folder that are there as a whole; "" for a model that comes in one form. */
export async function completeVariants(store: ModelStore, folder: string): Promise<readonly string[]> {
  return wholeIn(store, folder, await store.files(folder));
}

async function wholeIn(store: ModelStore, folder: string, files: ReadonlyMap<string, number>): Promise<string[]> {
  const whole: string[] = [];
  for (const path of files.keys()) {
    if (!path.startsWith(`${folder}/`)) continue;
    const record = recordPattern.exec(path.slice(folder.length + 1));
    if (record !== null && (await isWhole(store, folder, path, files))) whole.push(record[1] ?? "");
  }
  return whole.toSorted();
}

async function isWhole(
  store: ModelStore,
  folder: string,
  record: string,
  files: ReadonlyMap<string, number>,
): Promise<boolean> {
  try {
    const paths = JSON.parse((await textIn(store, record)) ?? "[]") as string[];
    return paths.length > 0 && paths.every((path) => files.has(`${folder}/${path}`));
  } catch {
    return false; // a record that cannot be read says nothing: everything is looked at again
  }
}

/** The name that a folder stands for; undefined where it is none of a model. */
function nameOfFolder(folder: string): string | undefined {
  if (folder.startsWith("url--")) return decodeURIComponent(folder.slice("url--".length));
  return /^\w[\w.-]*--\w[\w.-]*$/.test(folder) ? folder.replace("--", "/") : undefined;
}

/** All models that are kept, by their names. */
export async function keptModels(store: ModelStore): Promise<KeptModel[]> {
  const files = await store.files();
  const bytes = new Map<string, number>();
  for (const [path, size] of files) {
    const [folder, revision, ...rest] = path.split("/");
    if (rest.length === 0 || nameOfFolder(folder) === undefined) continue;
    const own = `${folder}/${revision}`;
    bytes.set(own, (bytes.get(own) ?? 0) + size);
  }
  const kept: KeptModel[] = [];
  for (const [own, size] of [...bytes].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const [folder, revision] = own.split("/");
    kept.push({
      name: nameOfFolder(folder)!,
      revision: decodeURIComponent(revision),
      folder: `${store.place}/${own}`,
      bytes: size,
      complete: await wholeIn(store, own, files),
    });
  }
  return kept;
}
