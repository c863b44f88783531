/** Which files of a model are fetched: one variant with its weights, the tokenizer and the configuration. Fetches nothing. */
import { bytesText } from "#insitu/base/bytes-text.js";
import { InsituError } from "#insitu/base/error.js";
import { genaiConfigName, modelPaths, preferredFolder, splitPaths } from "#insitu/base/model-files.js";
import type { RemoteFile } from "./download-file.js";

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

/** Variants in the order in which they are taken where nobody names one: 4 bits first, in float16 where a GPU computes. */
const fourBits = ["q4", "q4f16"];
const others = ["bnb4", "q8", "int8", "uint8", "fp16", "fp32"];

/** Bytes from which a variant of more than 4 bits is fetched only for those who ask for it. */
const mostUnasked = 4e9;

/** The variants of a model, the first choice first. */
export const variantOrder = (onDevice: boolean): readonly string[] => [
  ...(onDevice ? fourBits.toReversed() : fourBits),
  ...others,
];

/** The files of one variant. */
interface Chosen {
  /** Undefined where the model comes in one form alone. */
  readonly variant: string | undefined;
  readonly paths: readonly string[];
}

/** The files that are needed of a model; throws where it has none that are. */
export function chooseFiles(
  name: string,
  files: ReadonlyMap<string, RemoteFile>,
  asked: string | undefined,
  onDevice: boolean,
): Chosen {
  const all = [...files.keys()];
  const inLayout = (asked === undefined ? variantOrder(onDevice) : [asked]).flatMap((variant) => {
    const models = modelsOf(files, variant);
    return models === undefined ? [] : [{ variant, models }];
  });
  const common = companions.filter((path) => files.has(path));
  if (inLayout.length > 0) {
    const [{ variant, models }] = inLayout;
    const weights = all.filter((path) =>
      models.some((model) => path.startsWith(`${model}_data`) || path.startsWith(`${model}.data`)),
    );
    const paths = [...common, ...models, ...weights];
    if (!files.has("tokenizer.json")) throw new InsituError("download", `"${name}" has no tokenizer.json`);
    if (asked === undefined && !isFourBits(files, variant)) refuseLarge(name, files, variant, paths);
    return { variant, paths };
  }
  const below = preferredFolder(genaiFolders(all), asked);
  // A folder of its own holds one model: whatever its weights are called, they lie there.
  const isRoot = below === undefined && asked === undefined && files.has(genaiConfigName);
  if (below === undefined && !isRoot) {
    const there = all.filter((path) => path.endsWith(".onnx"));
    const rule = asked === undefined ? "no ONNX file of a text model" : "no ONNX file of that kind";
    throw new InsituError("download", `"${name}" has ${rule}; it has ${there.join(", ") || "none at all"}`);
  }
  const own = all.filter((path) => (isRoot ? !path.includes("/") : path.startsWith(`${below}/`)));
  if (!files.has("tokenizer.json") && !own.includes(`${below}/tokenizer.json`))
    throw new InsituError("download", `"${name}" has no tokenizer.json`);
  return { variant: below?.split("/").at(-1), paths: [...new Set([...common, ...own])] };
}

/** True for a variant that has 4 bits by its name, or comes with a genai_config.json, which does not tell. */
const isFourBits = (files: ReadonlyMap<string, RemoteFile>, variant: string): boolean =>
  [...fourBits, "bnb4"].includes(variant) || files.has(genaiConfigName);

function refuseLarge(
  name: string,
  files: ReadonlyMap<string, RemoteFile>,
  variant: string,
  paths: readonly string[],
): void {
  const bytes = paths.reduce((sum, path) => sum + files.get(path)!.size, 0);
  if (bytes < mostUnasked) return;
  throw new InsituError(
    "download",
    `"${name}" has no variant of 4 bits, and ${variant} takes ${bytesText(bytes)}: ask for it by name, with variant: "${variant}" or --variant ${variant}`,
  );
}

/** The ONNX files of a variant in the hub's layout: one, or a decoder and its embedding. */
function modelsOf(files: ReadonlyMap<string, RemoteFile>, variant: string): readonly string[] | undefined {
  const first = (paths: readonly string[]): string | undefined => paths.find((path) => files.has(path));
  const model = first(modelPaths(variant));
  const split = splitPaths(variant);
  const [decoder, embedding] = [first(split.decoder), first(split.embedding)];
  if (model !== undefined) return embedding === undefined ? [model] : [model, embedding];
  return decoder === undefined || embedding === undefined ? undefined : [decoder, embedding];
}

/** The folders that hold a model of onnxruntime-genai's. */
const genaiFolders = (paths: readonly string[]): string[] =>
  paths.flatMap((path) => (path.endsWith(`/${genaiConfigName}`) ? [path.slice(0, -genaiConfigName.length - 1)] : []));
