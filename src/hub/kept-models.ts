/** The models that were fetched from the hub and are kept in a folder: which there are, and how one is removed. Fetches nothing. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { readdir, rm, rmdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { InsituError } from "../base/error.js";

/** One revision of a model. */
export interface KeptModel {
  /** Its name on the hub. */
  readonly name: string;
  readonly revision: string;
  readonly folder: string;
  readonly bytes: number;
  /** Variants that are there as a whole; "" is the first that the model has. */
  readonly complete: readonly string[];
}

/** Where models are kept where nobody says: INSITU_CACHE, or .cache/insitu in the home folder. */
export const keptFolder = (): string => process.env["INSITU_CACHE"] ?? join(homedir(), ".cache", "insitu");

/** The folder of one revision of a model. */
export const folderOfModel = (cache: string, name: string, revision: string): string =>
  join(cache, name.replace("/", "--"), encodeURIComponent(revision));

/** The file that says which files of a variant are there. */
export const recordOf = (variant: string | undefined): string =>
  `complete${variant === undefined ? "" : `-${variant}`}.json`;

/** All models that are kept, by their names. */
export function keptModels(cache: string = keptFolder()): KeptModel[] {
  return foldersIn(cache)
    .filter((entry) => /^\w[\w.-]*--\w[\w.-]*$/.test(entry))
    .flatMap((entry) =>
      foldersIn(join(cache, entry)).map((revision): KeptModel => {
        const folder = join(cache, entry, revision);
        const records = readdirSync(folder).flatMap((file) => /^complete(?:-(.+))?\.json$/.exec(file) ?? []);
        return {
          name: entry.replace("--", "/"),
          revision: decodeURIComponent(revision),
          folder,
          bytes: bytesIn(folder),
          complete: records.flatMap((part, at) => (at % 2 === 1 ? [part ?? ""] : [])),
        };
      }),
    );
}

/** Removes what is kept of a model, all revisions of it where none is named; what was removed. Throws where there is nothing. */
export async function removeModel(
  name: string,
  revision?: string,
  cache: string = keptFolder(),
): Promise<readonly KeptModel[]> {
  const all = keptModels(cache);
  const found = all.filter((each) => each.name === name && (revision === undefined || each.revision === revision));
  if (found.length === 0) {
    const names = [
      ...new Set(all.map((each) => (revision === undefined ? each.name : `${each.name}@${each.revision}`))),
    ];
    throw new InsituError(
      "invalid-argument",
      `${revision === undefined ? name : `${name}@${revision}`} is not kept in ${cache}; there ${names.length === 0 ? "is nothing" : `is ${names.join(", ")}`}`,
    );
  }
  for (const { folder } of found) await rm(folder, { recursive: true });
  const own = join(cache, name.replace("/", "--"));
  if ((await readdir(own)).length === 0) await rmdir(own);
  return found;
}

const foldersIn = (path: string): string[] =>
  existsSync(path)
    ? readdirSync(path, { withFileTypes: true })
        .flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
        .sort()
    : [];

const bytesIn = (folder: string): number =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).reduce(
    (sum, entry) => (entry.isFile() ? sum + statSync(join(entry.parentPath, entry.name)).size : sum),
    0,
  );
