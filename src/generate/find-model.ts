/**
 * Where the ONNX files of a language model are in a folder: in the hub's layout, in one file or with the embedding apart, beside a
 * genai_config.json, or in a folder further down. Looks at names alone.
 */
import { genaiConfigName, headPaths, modelPaths, preferredFolder, splitPaths } from "../base/model-files.js";
import type { FolderPlatform } from "../base/platform.js";
import type { GenaiConfig } from "./genai-config.js";

/** The files of a model. */
export interface ModelFiles {
  /** The path or URL of the ONNX file that has the caches. */
  readonly model: string;
  /** That of the one which makes embeddings of tokens, where it is another and known without reading the model. */
  readonly embedding?: string;
  /** Looks for that one under the names that exporters give it. */
  readonly findEmbedding: () => Promise<string | undefined>;
}

/** How deep models lie below the folder of several: `cpu_and_mobile/cpu-int4-rtn-block-32`. */
const mostDepth = 3;

/** Folders that are looked into in all. */
const mostFolders = 200;

/** The model in the file that a caller names, in a folder or in its folder `onnx`. */
export function namedModel(model: string, root: string, platform: FolderPlatform): ModelFiles {
  const variant = /_([^_\\/]+)\.onnx$/i.exec(model)?.[1];
  return { model, findEmbedding: () => firstOf(root, splitPaths(variant).embedding, platform) };
}

/** The model in a folder; undefined where it has none of this variant. */
export async function findModel(
  root: string,
  platform: FolderPlatform,
  variant: string | undefined,
  genai: GenaiConfig | undefined,
): Promise<ModelFiles | undefined> {
  const first = (names: readonly string[]): Promise<string | undefined> => firstOf(root, names, platform);
  const split = splitPaths(variant);
  const findEmbedding = (): Promise<string | undefined> => first(split.embedding);
  const named = variant === undefined ? genai?.decoder : undefined;
  const own = named === undefined ? undefined : await first([named]);
  if (own !== undefined) {
    const embedding = genai?.embedding === undefined ? undefined : await first([genai.embedding]);
    return { model: own, findEmbedding, ...(embedding === undefined ? {} : { embedding }) };
  }
  const model = await first(modelPaths(variant));
  if (model !== undefined) return { model, findEmbedding };
  const [decoder, embedding] = [await first(split.decoder), await first(split.embedding)];
  return decoder === undefined || embedding === undefined ? undefined : { model: decoder, embedding, findEmbedding };
}

/** The head that guesses for the model of a folder; undefined where there is none. */
export const findHead = (
  root: string,
  platform: FolderPlatform,
  variant?: string,
  named?: string,
): Promise<string | undefined> => firstOf(root, named === undefined ? headPaths(variant) : [named], platform);

async function firstOf(root: string, names: readonly string[], platform: FolderPlatform): Promise<string | undefined> {
  for (const name of names) if (await platform.exists(`${root}/${name}`)) return `${root}/${name}`;
  return undefined;
}

/** The folder further down that holds the model; undefined where none does, or nobody can tell. */
export async function findFolder(
  root: string,
  platform: FolderPlatform,
  variant: string | undefined,
): Promise<string | undefined> {
  const found: string[] = [];
  let level = [""];
  for (let depth = 0, seen = 0; depth < mostDepth && level.length > 0; depth++) {
    const next: string[] = [];
    for (const path of level) {
      const names = (await platform.foldersIn?.(path === "" ? root : `${root}/${path}`)) ?? [];
      for (const name of names) {
        if (name.startsWith(".") || ++seen > mostFolders) continue;
        const below = path === "" ? name : `${path}/${name}`;
        next.push(below);
        if (await platform.exists(`${root}/${below}/${genaiConfigName}`)) found.push(below);
      }
    }
    level = next;
  }
  const folder = preferredFolder(found, variant);
  return folder === undefined ? undefined : `${root}/${folder}`;
}
