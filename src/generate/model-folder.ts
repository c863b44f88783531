/**
 * A language model as the hub lays it out: config.json, generation_config.json, tokenizer.json, tokenizer_config.json and
 * onnx/model*.onnx. Finds and reads what is there, through the platform: a folder of files or of URLs.
 */
import { InsituError } from "../base/error.js";
import { foreignFile, hubFolderUrl, hubNameOf, isHubSpelling } from "../base/foreign-file.js";
import { modelFileOf, modelPaths } from "../base/model-files.js";
import type { FolderPlatform } from "../base/platform.js";

/** A JSON object. */
export type Json = Readonly<Record<string, unknown>>;

/** What a folder holds. */
interface ModelFolder {
  /** The path or URL of the ONNX file. */
  readonly model: string;
  readonly config: Json;
  readonly generationConfig: Json;
  readonly tokenizer: object;
  readonly tokenizerConfig: Json | undefined;
  readonly template: string | undefined;
}

/** Bytes that a file of text may have: engines hold no longer texts. */
const mostTextBytes = 2 ** 29 - 24;

/** Reads the folder at `source`, or the folder around the ONNX file at `source`. */
export async function readModelFolder(
  source: string,
  platform: FolderPlatform,
  variant?: string,
): Promise<ModelFolder> {
  refusePage(source, platform);
  const isFile = /\.onnx$/i.test(source);
  const folder = isFile ? folderOf(source) : source.replace(/[\\/]+$/, "") || "/";
  const root = isFile && /(^|[\\/])onnx$/i.test(folder) ? folderOf(folder) : folder;
  const read = (name: string): Promise<string | undefined> => readText(`${root}/${name}`, platform);
  const tokenizer = await read("tokenizer.json");
  const config = await read("config.json");
  const model = isFile ? source : await findModel(root, platform, variant);
  if (tokenizer === undefined) {
    await refuseStranger(source, platform, isFile || (model === undefined && config === undefined));
    const isEmpty = model === undefined && config === undefined;
    const why = await whyAbsent(`${root}/tokenizer.json`, platform);
    throw new InsituError(
      "invalid-model",
      isEmpty
        ? `"${source}" holds no language model: there is no tokenizer.json, no config.json and no ONNX file${why}${hubHint(source, platform)}`
        : `"${root}" has no tokenizer.json: text cannot become tokens without it${why}`,
    );
  }
  if (model === undefined) {
    if (await platform.exists(`${root}/onnx/encoder_model.onnx`))
      throw new InsituError(
        "invalid-model",
        `"${root}" holds an encoder and a decoder apart, as models that translate and transcribe have them: texts are continued by a decoder alone; transformers.js runs such models with insitu/onnxruntime`,
      );
    const names =
      variant === undefined ? "onnx/model.onnx, model.onnx or a quantised variant of them" : modelFileOf(variant);
    const why = await whyAbsent(`${root}/${modelPaths(variant)[0]}`, platform);
    throw new InsituError("invalid-model", `"${root}" has no ${names}${why}`);
  }
  const generation = await read("generation_config.json");
  const tokenizerConfig = await read("tokenizer_config.json");
  return {
    model,
    config: parse(config, `${root}/config.json`) ?? {},
    generationConfig: parse(generation, `${root}/generation_config.json`) ?? {},
    tokenizer: parse(tokenizer, `${root}/tokenizer.json`)!,
    tokenizerConfig: parse(tokenizerConfig, `${root}/tokenizer_config.json`),
    template: await read("chat_template.jinja"),
  };
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

/** The way out for a name on the hub where names are not looked up there: without files of its own a platform knows URLs alone. */
const hubHint = (source: string, platform: FolderPlatform): string =>
  platform.kindOf === undefined && isHubSpelling(source)
    ? `; names on the hub are looked up in Node alone: for "${source}" there, give "${hubFolderUrl(source)}"`
    : "";

async function findModel(
  root: string,
  platform: FolderPlatform,
  variant: string | undefined,
): Promise<string | undefined> {
  for (const name of modelPaths(variant)) if (await platform.exists(`${root}/${name}`)) return `${root}/${name}`;
  return undefined;
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

/** What a model was made for, where config.json says so. */
export function madeFor(config: Json): number | undefined {
  const name = config["max_position_embeddings"] === undefined ? "n_positions" : "max_position_embeddings";
  const made = config[name];
  if (typeof made !== "number") return undefined;
  if (!Number.isSafeInteger(made) || made < 2)
    throw new InsituError("invalid-model", `config.json: ${name} must be a whole number from 2 on, got ${made}`);
  return made;
}
