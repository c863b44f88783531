/** A language model from the Hugging Face hub: the files that are needed of it, kept in a local folder. A complete folder needs no network. */
import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { InsituError } from "../base/error.js";
import { isHubSpelling } from "../base/foreign-file.js";
import { genaiConfigName, modelPaths, preferredFolder, splitPaths } from "../base/model-files.js";
import type { OptionNames } from "../base/option-names.js";
import { checkCallback, checkName, checkRule, checkSignal, optionsWithoutNull } from "../base/arguments.js";
import { downloadFile, notWritten, type RemoteFile } from "./download-file.js";
import { folderOfModel, keptFolder, recordOf } from "./kept-models.js";
import { listModel } from "./list-model.js";

/** How a model is fetched. */
export interface HubOptions {
  /** A branch, tag or commit; "main" where left out. */
  readonly revision?: string;
  /** Which ONNX file: "q4" is onnx/model_q4.onnx; or which folder, by its name, where models lie in folders of their own. */
  readonly variant?: string;
  /** Where models are kept: INSITU_CACHE, or .cache/insitu in the home folder. */
  readonly cache?: string;
  /** Where the hub is: HF_ENDPOINT, or the public one. */
  readonly hubUrl?: string;
  /** For models that are not public: HF_TOKEN where left out. */
  readonly accessToken?: string;
  /** Ends the fetching; what came stays, and is gone on from the next time. */
  readonly signal?: AbortSignal;
  /** Told about each file while it comes. */
  readonly onProgress?: (progress: { readonly file: string; readonly bytes: number; readonly size: number }) => void;
}

const hubOptionNames: OptionNames<HubOptions> = {
  revision: true,
  variant: true,
  cache: true,
  hubUrl: true,
  accessToken: true,
  signal: true,
  onProgress: true,
};

/** What is fetched beside the ONNX file, where it is there. */
const companions = [
  "config.json",
  "generation_config.json",
  genaiConfigName,
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
  // What embedding models say of themselves, as sentence-transformers writes it.
  "modules.json",
  "1_Pooling/config.json",
  "config_sentence_transformers.json",
  "sentence_bert_config.json",
];

/** True if a text can only be a model's name on the hub: `owner/name`, with nothing at that path. */
export const isHubName = (text: string): boolean => isHubSpelling(text) && !existsSync(text);

/** Fetches what is missing of a model; the folder that holds it. */
export async function fetchHubModel(name: string, given?: HubOptions): Promise<string> {
  const options = checkedHubOptions(given);
  const { revision = "main", variant, signal } = options;
  const folder = folderOfModel(options.cache ?? keptFolder(), name, revision);
  const record = join(folder, recordOf(variant));
  if (isComplete(folder, record)) return folder;
  const hubUrl = options.hubUrl ?? process.env["HF_ENDPOINT"] ?? "https://huggingface.co";
  const accessToken = tokenOf(options);
  const files = await listModel({ name, revision, hubUrl, accessToken, signal });
  const wanted = choose(name, files, variant);
  const headers: Record<string, string> = accessToken === undefined ? {} : { Authorization: `Bearer ${accessToken}` };
  for (const path of wanted) {
    const target = join(folder, path);
    if (existsSync(target)) continue;
    const file = files.get(path)!;
    const onBytes = (bytes: number): void => options.onProgress?.({ file: path, bytes, size: file.size });
    await downloadFile(file, target, { headers, signal, onBytes });
  }
  // Last of all: its presence says that everything it lists is there.
  await writeFile(record, JSON.stringify(wanted)).catch((error: unknown) => notWritten(record, error));
  return folder;
}

/** The options as they must be; they are part of paths. */
export function checkedHubOptions(given: HubOptions | undefined): HubOptions {
  const options = optionsWithoutNull("the options of hub", given, hubOptionNames);
  for (const name of ["revision", "variant", "cache", "hubUrl", "accessToken"] as const)
    checkName(`option hub.${name}`, options[name]);
  const { revision, variant, hubUrl, onProgress } = options;
  checkRule("option hub.revision", revision, "a branch, tag or commit", !["", ".", ".."].includes(revision ?? "main"));
  checkRule("option hub.variant", variant, "the name of a variant, without slashes", !/[\\/]/.test(variant ?? ""));
  checkRule("option hub.hubUrl", hubUrl, "a URL", URL.canParse(hubUrl ?? ""));
  checkCallback("option hub.onProgress", onProgress);
  checkSignal(options.signal);
  return options;
}

const tokenOf = ({ accessToken }: HubOptions): string | undefined =>
  accessToken ?? (process.env["HF_TOKEN"] || undefined);

function isComplete(folder: string, record: string): boolean {
  if (!existsSync(record)) return false;
  try {
    const paths = JSON.parse(readFileSync(record, "utf8")) as string[];
    return paths.length > 0 && paths.every((path) => existsSync(join(folder, path)));
  } catch {
    return false; // a record that cannot be read says nothing: everything is looked at again
  }
}

/** The paths that are needed: the ONNX files, their weight files, the tokenizer and the configuration. */
function choose(name: string, files: ReadonlyMap<string, RemoteFile>, variant: string | undefined): string[] {
  const all = [...files.keys()];
  const models = chooseModels(files, variant);
  const below = models === undefined ? preferredFolder(genaiFolders(all), variant) : undefined;
  if (models === undefined && below === undefined) {
    const there = all.filter((path) => path.endsWith(".onnx"));
    throw new InsituError(
      "download",
      `"${name}" has no ONNX file of that kind; it has ${there.join(", ") || "none at all"}`,
    );
  }
  // A folder of its own holds one model: whatever its weights are called, they lie there.
  const own = below === undefined ? [] : all.filter((path) => path.startsWith(`${below}/`));
  if (!files.has("tokenizer.json") && !own.includes(`${below}/tokenizer.json`))
    throw new InsituError("download", `"${name}" has no tokenizer.json`);
  const weights = all.filter((path) =>
    models?.some((model) => path.startsWith(`${model}_data`) || path.startsWith(`${model}.data`)),
  );
  return [...companions.filter((path) => files.has(path)), ...(models ?? []), ...weights, ...own];
}

/** The ONNX files of a variant in the hub's layout: one, or a decoder and its embedding. */
function chooseModels(files: ReadonlyMap<string, RemoteFile>, variant: string | undefined): string[] | undefined {
  const first = (paths: readonly string[]): string | undefined => paths.find((path) => files.has(path));
  const model = first(modelPaths(variant));
  if (model !== undefined) return [model];
  const split = splitPaths(variant);
  const [decoder, embedding] = [first(split.decoder), first(split.embedding)];
  return decoder === undefined || embedding === undefined ? undefined : [decoder, embedding];
}

/** The folders that hold a model of onnxruntime-genai's. */
const genaiFolders = (paths: readonly string[]): string[] =>
  paths.flatMap((path) => (path.endsWith(`/${genaiConfigName}`) ? [path.slice(0, -genaiConfigName.length - 1)] : []));
