/**
 * A language model as it is published: config.json and generation_config.json or genai_config.json, tokenizer.json, tokenizer_config.json,
 * chat_template.jinja and the ONNX files. Reads what is there, through the platform: a folder of files or of URLs.
 */
import { InsituError } from "../base/error.js";
import { foreignFile, hubFolderUrl, hubNameOf } from "../base/foreign-file.js";
import { genaiConfigName, modelFileOf, modelPaths, splitPaths } from "../base/model-files.js";
import type { FolderPlatform } from "../base/platform.js";
import { valueText } from "../base/value-text.js";
import { findFolder, findModel, type ModelFiles, namedModel } from "./find-model.js";
import { type GenaiConfig, readGenaiConfig } from "./genai-config.js";

/** A JSON object. */
export type Json = Readonly<Record<string, unknown>>;

/** What a folder holds. */
interface ModelFolder extends ModelFiles {
  /** The folder itself. */
  readonly root: string;
  readonly config: Json;
  readonly generationConfig: Json;
  /** The file that says how text is generated, for messages. */
  readonly generationFile: string;
  readonly tokenizer: object;
  readonly tokenizerConfig: Json | undefined;
  readonly template: string | undefined;
  /** What guesses for the model, where genai_config.json says so. */
  readonly head: GenaiConfig["head"];
  /** The row where rotary tables for long texts begin, where they lie behind those for short ones. */
  readonly rotaryOffset: number | undefined;
}

/** Bytes that a file of text may have: engines hold no longer texts. */
const mostTextBytes = 2 ** 29 - 24;

/** Reads the folder at `source`, or the folder around the ONNX file at `source`. */
export async function readModelFolder(
  source: string,
  platform: FolderPlatform,
  variant?: string,
): Promise<ModelFolder> {
  const { folders, files, genai, isBelow } = await findFolderFiles(source, platform, variant);
  return readTexts(source, folders, platform, files, genai, isBelow ? undefined : variant);
}

/** Where the files of a model are. */
interface FoundFiles {
  /** The folders that its texts lie in, the first choice first. */
  readonly folders: readonly string[];
  readonly files: ModelFiles | undefined;
  readonly genai: GenaiConfig | undefined;
  /** True if it lies in a folder further down. */
  readonly isBelow: boolean;
}

/** Finds the ONNX files of the folder at `source`, or around the file there. Reads no more than genai_config.json. */
export async function findFolderFiles(source: string, platform: FolderPlatform, variant?: string): Promise<FoundFiles> {
  refusePage(source, platform);
  const isFile = /\.onnx$/i.test(source);
  const folder = isFile ? folderOf(source) : source.replace(/[\\/]+$/, "") || "/";
  const root = isFile && /(^|[\\/])onnx$/i.test(folder) ? folderOf(folder) : folder;
  const own = await readGenai(root, platform);
  const files = isFile ? namedModel(source, root, platform) : await findModel(root, platform, variant, own);
  if (files === undefined) {
    // Several models of one name lie in folders of their own; what they have in common lies beside those.
    const below = own === undefined ? await findFolder(root, platform, variant) : undefined;
    const genai = below === undefined ? undefined : await readGenai(below, platform);
    const found = below === undefined ? undefined : await findModel(below, platform, undefined, genai);
    if (below !== undefined && found !== undefined)
      return { folders: [below, root], files: found, genai, isBelow: true };
  }
  return { folders: [root], files, genai: own, isBelow: false };
}

/** What genai_config.json says; undefined where there is none. */
async function readGenai(root: string, platform: FolderPlatform): Promise<GenaiConfig | undefined> {
  const path = `${root}/${genaiConfigName}`;
  const json = parse(await readText(path, platform), path);
  return json && readGenaiConfig(json, path);
}

/** The model with its configuration and tokenizer, each from the first of the folders that has it. Throws where the model or what it needs is missing. */
async function readTexts(
  source: string,
  folders: readonly string[],
  platform: FolderPlatform,
  files: ModelFiles | undefined,
  genai: GenaiConfig | undefined,
  variant?: string,
): Promise<ModelFolder> {
  const [root] = folders;
  const read = async (name: string): Promise<{ readonly text: string; readonly path: string } | undefined> => {
    for (const folder of folders) {
      const text = await readText(`${folder}/${name}`, platform);
      if (text !== undefined) return { text, path: `${folder}/${name}` };
    }
    return undefined;
  };
  const readJson = async (name: string): Promise<Json | undefined> => {
    const found = await read(name);
    return found && parse(found.text, found.path);
  };
  const tokenizer = await read("tokenizer.json");
  const isEmpty = files === undefined && genai === undefined && (await read("config.json")) === undefined;
  if (tokenizer === undefined) {
    const isFile = /\.onnx$/i.test(source);
    await refuseStranger(source, platform, isFile || isEmpty);
    const why = await whyAbsent(`${root}/tokenizer.json`, platform);
    throw new InsituError(
      "invalid-model",
      isEmpty
        ? `"${source}" holds no language model: there is no tokenizer.json, no config.json and no ONNX file${why}`
        : `"${root}" has no tokenizer.json, which turns text into tokens${why}`,
    );
  }
  if (files === undefined) return refuseAbsent(root, platform, genai, variant);
  const config = await readJson("config.json");
  const generation = await readJson("generation_config.json");
  return {
    ...files,
    root,
    // Models that read more than text have what is said of their texts in a part of its own.
    config: { ...genai?.config, ...objectOf(config?.["text_config"]), ...config },
    generationConfig: { ...genai?.generationConfig, ...generation },
    generationFile: genai === undefined || generation !== undefined ? "generation_config.json" : genaiConfigName,
    tokenizer: parse(tokenizer.text, tokenizer.path)!,
    tokenizerConfig: await readJson("tokenizer_config.json"),
    template: (await read("chat_template.jinja"))?.text,
    head: genai?.head,
    rotaryOffset: genai?.rotaryOffset,
  };
}

const objectOf = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};

/** What a model was made for, where config.json says so. */
export function madeFor(config: Json): number | undefined {
  const name = config["max_position_embeddings"] === undefined ? "n_positions" : "max_position_embeddings";
  const made = config[name];
  if (typeof made !== "number") return undefined;
  if (!Number.isSafeInteger(made) || made < 2)
    throw new InsituError("invalid-model", `config.json: ${name} must be a whole number from 2 on, got ${made}`);
  return made;
}

/** Throws: there is a tokenizer and no model. */
async function refuseAbsent(
  root: string,
  platform: FolderPlatform,
  genai: GenaiConfig | undefined,
  variant: string | undefined,
): Promise<never> {
  for (const name of ["onnx/encoder_model.onnx", "encoder_model.onnx"])
    if (await platform.exists(`${root}/${name}`))
      throw new InsituError(
        "invalid-model",
        `"${root}" holds an encoder and a decoder, as models for translation and speech do, and CausalLM runs decoders alone; transformers.js runs such models with insitu/onnxruntime`,
      );
  for (const path of splitPaths(variant).decoder)
    if (await platform.exists(`${root}/${path}`))
      throw new InsituError(
        "invalid-model",
        `"${root}" has ${path}, which reads embeddings, and no embed_tokens.onnx beside it that computes them from tokens`,
      );
  const wanted = genai?.decoder ?? "onnx/model.onnx, model.onnx or a quantised variant of them";
  const names = variant === undefined ? wanted : modelFileOf(variant);
  const why = await whyAbsent(`${root}/${genai?.decoder ?? modelPaths(variant)[0]}`, platform);
  throw new InsituError("invalid-model", `"${root}" has no ${names}${why}`);
}

/** Throws for a page of the hub where URLs are fetched: pages of other origins cannot even be asked whether they hold a model. */
function refusePage(source: string, platform: FolderPlatform): void {
  const name = hubNameOf(source);
  if (platform.kindOf === undefined && name !== undefined && !/\/resolve\//.test(source))
    throw new InsituError(
      "invalid-model",
      `"${source}" is a page of the hub: the model's files are at "${hubFolderUrl(name)}"`,
    );
}

/** Throws where there is no folder to look into, or a file of another kind. `unknown`: nothing of a model was found. */
async function refuseStranger(source: string, platform: FolderPlatform, unknown: boolean): Promise<void> {
  const name = hubNameOf(source);
  if (platform.kindOf === undefined) return;
  if (name !== undefined)
    throw new InsituError("invalid-model", `"${source}" is a URL of the hub: give the model's name there, "${name}"`);
  if (!unknown) return;
  const kind = await platform.kindOf(source);
  const takes =
    "a model is a folder in the hub's layout, an ONNX file with its tokenizer beside it, or owner/name on the hub";
  if (kind === undefined) throw new InsituError("invalid-model", `there is nothing at "${source}": ${takes}`);
  if (kind === "folder" || /\.onnx$/i.test(source)) return;
  const file = await platform.open(source);
  try {
    const beginning = new Uint8Array(Math.min(file.size, 512));
    await file.read(0, beginning);
    const foreign = foreignFile(beginning) ?? "is a file whose name does not end in .onnx";
    throw new InsituError("invalid-model", `"${source}" ${foreign}; ${takes}`);
  } finally {
    await file.close();
  }
}

/** What the platform knows of a file that is not there, to follow a sentence. */
async function whyAbsent(path: string, platform: FolderPlatform): Promise<string> {
  const why = await platform.whyAbsent?.(path);
  return why === undefined ? "" : `; ${why}`;
}

const folderOf = (path: string): string => {
  const cut = Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\"));
  return cut < 0 ? "." : path.slice(0, cut) || "/";
};

/** The text of a file; undefined where there is none. Throws where it is not UTF-8. */
async function readText(path: string, platform: FolderPlatform): Promise<string | undefined> {
  if (!(await platform.exists(path))) return undefined;
  const file = await platform.open(path);
  try {
    if (file.size > mostTextBytes)
      throw new InsituError(
        "invalid-model",
        `${path} has ${file.size} bytes, more than a text may have: ${mostTextBytes}`,
      );
    const bytes = new Uint8Array(file.size);
    await file.read(0, bytes);
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    if (cause instanceof InsituError) throw cause;
    throw new InsituError("invalid-model", `${path} is not UTF-8 text`, { cause });
  } finally {
    await file.close();
  }
}

function parse(text: string | undefined, path: string): Json | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Json;
  } catch (cause) {
    const foreign = foreignFile(new TextEncoder().encode(text.slice(0, 512)));
    const why = /^\s*[[{]/.test(text) || foreign === undefined ? `is not JSON: ${(cause as Error).message}` : foreign;
    throw new InsituError("invalid-model", `${path} ${why}`, { cause });
  }
  throw new InsituError("invalid-model", `${path} must hold a JSON object`);
}

/** What a JSON file holds; undefined where there is none. */
export async function readJsonFile(path: string, platform: FolderPlatform): Promise<unknown> {
  const text = await readText(path, platform);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new InsituError("invalid-model", `${path} is not JSON: ${(cause as Error).message}`, { cause });
  }
}

/** Where a model is, as text; throws for what is neither a path nor a URL. */
export function placeOf(source: string | URL): string {
  if (source instanceof URL || (typeof source === "string" && source !== "")) return String(source);
  throw new InsituError("invalid-argument", `a model is loaded from a path or a URL, got ${valueText(source)}`);
}
