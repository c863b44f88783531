/** A model to be looked at without its weights: a folder, a file, or a model of the hub, of which the graph and small texts alone are read. */
import { stat } from "node:fs/promises";
import { InsituError } from "#insitu/base/error.js";
import type { FolderPlatform } from "#insitu/base/platform.js";
import { wholeModel } from "#insitu/decoder/whole-model.js";
import { findFolderFiles, type Json } from "#insitu/generate/model-folder.js";
import { repositoryOf } from "#insitu/hub/catalogue.js";
import { chooseFiles } from "#insitu/hub/choose-files.js";
import { HubFile } from "#insitu/hub/hub-file.js";
import { listOnHub } from "#insitu/hub/hub-model.js";
import type { HubOptions } from "#insitu/hub/models-api.js";
import { loadExternalData } from "#insitu/onnx/external.js";
import { elsewhere, mostElements, readGraphOnly } from "#insitu/onnx/graph-only.js";
import { mapTensors } from "#insitu/onnx/map-tensors.js";
import type { Model } from "#insitu/onnx/model.js";
import { withStandIns } from "#insitu/onnx/stand-ins.js";
import { byteLengthOf } from "#insitu/tensor/element-type.js";
import { elementCount } from "#insitu/tensor/view.js";
import { withPlainWeights } from "#insitu/session/plain-weights.js";
import { treePlatform } from "#insitu/platform/file-tree.js";
import { nodePlatform } from "#insitu/platform/node.js";
import { isModelName, withEnvironment } from "#insitu/platform/node-models.js";

/** A file with its bytes; undefined where it is named and not there. */
interface NamedFile {
  readonly path: string;
  readonly bytes: number | undefined;
}

/** What is known of a model. */
export interface CheckedSource {
  /** The name on the hub, or the path. */
  readonly name: string;
  readonly variant: string | undefined;
  readonly files: readonly NamedFile[];
  readonly config: Json;
  /** True if there is a chat template; undefined where nobody has looked. */
  readonly hasTemplate: boolean;
  /** The decoder as it will be loaded, with stand-ins for weights; or why it cannot be. */
  readonly model: Model | InsituError;
  readonly producer: string;
}

/** Opens what a user names. Throws where there is nothing of a model. */
export async function openChecked(given: string, options: HubOptions, onDevice: boolean): Promise<CheckedSource> {
  return isModelName(given) ? onHub(given, withEnvironment(options), onDevice) : inFolder(given, options.variant);
}

async function onHub(given: string, options: HubOptions, onDevice: boolean): Promise<CheckedSource> {
  const name = repositoryOf(given);
  const { files, headers } = await listOnHub(name, options);
  const { variant, paths } = chooseFiles(name, files, options.variant, onDevice);
  const platform = treePlatform(nodePlatform, name, {
    has: async (path) => files.has(path),
    open: async (path) => {
      const file = files.get(path);
      return file && new HubFile(file, headers, options.signal);
    },
  });
  // What lies in folders is chosen by a listing that only this side has.
  const folders = [...new Set([...files.keys()].flatMap(foldersOf))];
  const listed: FolderPlatform = {
    ...platform,
    foldersIn: async (path) => {
      const below = path.slice(name.length).replace(/^\/+/, "");
      return folders.flatMap((each) => (parentOf(each) === below ? [each.split("/").at(-1)!] : []));
    },
  };
  const sizes = (path: string): number | undefined => files.get(path.slice(name.length + 1))?.size;
  const source = await look(name, listed, variant, async (path) => sizes(path));
  return { ...source, files: paths.map((path) => ({ path, bytes: files.get(path)!.size })) };
}

const foldersOf = (path: string): string[] =>
  path
    .split("/")
    .slice(0, -1)
    .map((_, at, parts) => parts.slice(0, at + 1).join("/"));

const parentOf = (path: string): string => path.split("/").slice(0, -1).join("/");

const inFolder = (path: string, variant: string | undefined): Promise<CheckedSource> =>
  look(path, nodePlatform, variant, async (file) => (await stat(file).catch(() => undefined))?.size);

/** Finds a model's files and reads the small ones. */
async function look(
  name: string,
  platform: FolderPlatform,
  variant: string | undefined,
  sizeOf: (path: string) => Promise<number | undefined>,
): Promise<CheckedSource> {
  const { folders, files, genai } = await findFolderFiles(name, platform, variant);
  if (files === undefined) {
    const kind = await platform.kindOf?.(name);
    const what = kind === undefined ? "there is nothing at" : "no ONNX file of a text model is in";
    throw new InsituError(
      "invalid-model",
      `${what} "${name}"${variant === undefined ? "" : ` of the variant ${variant}`}: give a folder in the hub's layout, an ONNX file, owner/name on the hub, or a short name`,
    );
  }
  const readJson = async (file: string): Promise<Json | undefined> => {
    for (const folder of folders)
      if (await platform.exists(`${folder}/${file}`)) return jsonAt(`${folder}/${file}`, platform);
    return undefined;
  };
  const isThere = async (file: string): Promise<boolean> => {
    for (const folder of folders) if (await platform.exists(`${folder}/${file}`)) return true;
    return false;
  };
  const config = await readJson("config.json");
  const tokenizerConfig = await readJson("tokenizer_config.json");
  const named = [files.model, ...(files.embedding === undefined ? [] : [files.embedding])];
  const seen: NamedFile[] = [];
  const open = async (path: string): Promise<Model> => {
    const { model, data } = await openGraph(path, platform, sizeOf);
    seen.push({ path, bytes: await sizeOf(path) }, ...data);
    return model;
  };
  let [model, producer]: [Model | InsituError | undefined, string] = [undefined, ""];
  try {
    const loaded = await open(files.model);
    producer = [loaded.producerName, loaded.producerVersion].filter((part) => part !== "").join(" ");
    ({ model } = await wholeModel(
      await withPlainWeights(loaded, "stand-ins"),
      { ...files, rotaryOffset: genai?.rotaryOffset },
      platform,
      open,
    ));
  } catch (error) {
    if (!(error instanceof InsituError) || error.code === "internal") throw error;
    model = error;
  }
  for (const path of named)
    if (!seen.some((each) => each.path === path)) seen.push({ path, bytes: await sizeOf(path) });
  const tokenizer = (await isThere("tokenizer.json")) ? [] : [{ path: "tokenizer.json", bytes: undefined }];
  const textConfig = config?.["text_config"] as Json | undefined;
  return {
    name,
    variant,
    files: [...seen, ...tokenizer],
    config: { ...genai?.config, ...textConfig, ...config },
    hasTemplate: tokenizerConfig?.["chat_template"] !== undefined || (await isThere("chat_template.jinja")),
    model,
    producer,
  };
}

/** A graph with stand-ins, and the files that its weights lie in; what can decide a shape is read. Throws where one is missing or too short. */
async function openGraph(
  path: string,
  platform: FolderPlatform,
  sizeOf: (path: string) => Promise<number | undefined>,
): Promise<{ readonly model: Model; readonly data: readonly NamedFile[] }> {
  const file = await platform.open(path);
  let graph: Model;
  try {
    graph = await readGraphOnly(file, path);
  } finally {
    await file.close();
  }
  const ends = new Map<string, { end: number; tensor: string }>();
  mapTensors(graph, (tensor) => {
    const { external } = tensor;
    if (external !== undefined && tensor.data === undefined && external.location !== elsewhere) {
      const bytes = tensor.type === "string" ? 0 : byteLengthOf(tensor.type, elementCount(tensor.dims));
      const end = Number(external.offset ?? 0) + Number(external.length ?? bytes);
      if (end >= (ends.get(external.location)?.end ?? -1)) ends.set(external.location, { end, tensor: tensor.name });
    }
    return tensor;
  });
  const folder = path.includes("/") ? path.slice(0, path.lastIndexOf("/") + 1) : "";
  const data: NamedFile[] = [];
  for (const [location, { end, tensor }] of ends) {
    const bytes = await sizeOf(`${folder}${location}`);
    data.push({ path: `${folder}${location}`, bytes });
    if (bytes === undefined || bytes < end)
      throw new InsituError(
        "external-data",
        `${path}: the weights of "${tensor}" lie in ${location}, which ${bytes === undefined ? "is not there" : `has ${bytes} bytes and needs ${end}`}: download it again, beside the model`,
      );
  }
  return { model: await loadExternalData(withStandIns(graph, mostElements), platform), data };
}

async function jsonAt(path: string, platform: FolderPlatform): Promise<Json> {
  const file = await platform.open(path);
  try {
    const bytes = new Uint8Array(file.size);
    await file.read(0, bytes);
    return JSON.parse(new TextDecoder().decode(bytes)) as Json;
  } catch (cause) {
    if (cause instanceof InsituError) throw cause;
    throw new InsituError("invalid-model", `${path} is not JSON: ${(cause as Error).message}`, { cause });
  } finally {
    await file.close();
  }
}
