/** Where a page's model is read from: the hub, a URL, or what was dropped on the page. What was fetched once is read from the origin's storage. */
import { InsituError } from "../base/error.js";
import { isHubSpelling, isShortSpelling } from "../base/foreign-file.js";
import type { FolderPlatform, ReadableFile } from "../base/platform.js";
import { downloadFile } from "#insitu/hub/download-file.js";
import { checkedHubOptions } from "#insitu/hub/hub-options.js";
import { completeVariants, folderOfModel, recordOf } from "#insitu/hub/kept-models.js";
import { type ModelStore, StorageFull, textIn } from "#insitu/hub/model-store.js";
import type { CatalogueModel, HubOptions } from "#insitu/hub/models-api.js";
import { checkRoom, clearFull } from "#insitu/hub/room.js";
import { droppedTree, type FileTree, isModelFolder, type ModelFolder, treePlatform } from "./file-tree.js";
import { resolveUrl, webPlatform } from "./web.js";
import { webStore } from "./web-model-store.js";

/** How a model is looked for. */
interface SourceOptions {
  readonly hub: HubOptions;
  /** Undefined keeps what there is room for. */
  readonly store: boolean | undefined;
  /** True if a GPU will compute it. */
  readonly onDevice: () => Promise<boolean>;
}

/** Where a model is read from. */
interface OpenedSource {
  /** The folder or file, as the platform knows it. */
  readonly place: string;
  readonly platform: FolderPlatform;
  readonly variant?: string | undefined;
}

/** Opens whatever a page may name as a model, and does `load` with it. What `load` reads of a URL is kept while it does. */
export async function withSource<T>(
  source: string | URL | ModelFolder,
  { hub, store: wish, onDevice }: SourceOptions,
  load: (opened: OpenedSource) => Promise<T>,
): Promise<T> {
  const options = checkedHubOptions(hub);
  const asked = options.variant === undefined ? {} : { variant: options.variant };
  if (isModelFolder(source)) {
    const { name, tree } = await droppedTree(source);
    return load({ place: name, platform: treePlatform(webPlatform, name, tree), ...asked });
  }
  const text = String(source);
  const store = wish === false ? undefined : await usable(wish);
  if (await isOnHub(text, options, store)) {
    if (store === undefined) return load(await unkept(text, options));
    const { fetchHubModel } = await import("#insitu/hub/hub-model.js");
    const { folder, variant } = await fetchHubModel(store, text, options, await onDevice());
    const tree = storedTree(store, folder);
    return load({ place: text, platform: treePlatform(webPlatform, text, tree), variant });
  }
  const plain = { place: text, platform: webPlatform, ...asked };
  const url = resolveUrl(text);
  const isFolder = /^https?:$/.test(url.protocol) && url.search === "" && url.href.length < longestUrl;
  if (store === undefined || !isFolder) return load(plain);
  try {
    return await loadKeeping(text, url.href.replace(/\/+$/, ""), options, store, load);
  } catch (error) {
    // Who did not ask for it to be kept gets it without.
    if (wish === undefined && error instanceof StorageFull) return load(plain);
    throw error;
  }
}

/** What names of files take, with what else stands in one. */
const longestUrl = 150;

async function usable(wish: boolean | undefined): Promise<ModelStore | undefined> {
  const store = await webStore();
  if (store.kind !== "none") return store;
  if (wish === true) throw new InsituError("download", `option store: ${store.place}`);
  return undefined;
}

/** The model of a name. The catalogue is fetched where a name is given, and not for a URL. */
const namedModel = async (text: string): Promise<CatalogueModel | undefined> =>
  (await import("#insitu/hub/catalogue.js")).modelNamed(text);

/** True if a text names a model of the hub. What is spelled `owner/name` may be a path of this site as well: that comes first, unless the model is kept. */
async function isOnHub(text: string, options: HubOptions, store: ModelStore | undefined): Promise<boolean> {
  if (!isShortSpelling(text) && !isHubSpelling(text)) return false;
  if ((await namedModel(text)) !== undefined) return true;
  if (!isHubSpelling(text)) return false;
  const folder = folderOfModel(text, options.revision ?? "main");
  if (store !== undefined && (await completeVariants(store, folder)).length > 0) return true;
  const here = await webPlatform.exists(`${text}/tokenizer.json`).catch(() => false);
  return !here;
}

/** A model of the hub by its URL, where nothing can be kept. */
async function unkept(text: string, options: HubOptions): Promise<OpenedSource> {
  const name = (await namedModel(text))?.repository ?? text;
  const { hubUrl = "https://huggingface.co", revision = "main", variant = "q4" } = options;
  const place = `${hubUrl}/${name}/resolve/${encodeURIComponent(revision)}`;
  return { place, platform: webPlatform, variant };
}

/** The files of a kept model. */
const storedTree = (store: ModelStore, folder: string): FileTree => ({
  has: async (path) => {
    const file = await store.open(`${folder}/${path}`);
    await file?.close();
    return file !== undefined;
  },
  open: (path) => store.open(`${folder}/${path}`),
});

/** Loads a model by URL: from the store if it is there, and if not, with each file that is read kept before. */
async function loadKeeping<T>(
  text: string,
  url: string,
  options: HubOptions,
  store: ModelStore,
  load: (opened: OpenedSource) => Promise<T>,
): Promise<T> {
  const { variant } = options;
  const folder = folderOfModel(url, "url");
  const folderIn = (place: string): string => place.replace(/\/+$/, "").replace(/(\/onnx)?\/[^/]+\.onnx$/i, "");
  const isKept = async (): Promise<boolean> => (await completeVariants(store, folder)).includes(variant ?? "");
  const opened = (tree: FileTree): OpenedSource => ({
    place: text,
    platform: treePlatform(webPlatform, folderIn(text), tree),
    ...(variant === undefined ? {} : { variant }),
  });
  if (await isKept()) return load(opened(storedTree(store, folder)));
  return store.exclusive(folder, options.signal, async () => {
    if (await isKept()) return load(opened(storedTree(store, folder)));
    const keeping = new KeepingTree(folderIn(url), folder, store, options);
    const result = await load(opened(keeping)).catch(async (error: unknown) => {
      // What came is gone on from where the network failed. Where the model itself is refused, another may lie there the next time.
      const isNetwork = error instanceof InsituError && error.code === "download";
      if (!isNetwork && (await completeVariants(store, folder)).length === 0) await store.remove(folder);
      return clearFull(store, folder, error);
    });
    await store.write(`${folder}/${recordOf(variant)}`, JSON.stringify(keeping.paths));
    return result;
  });
}

/** The files below a URL: each is fetched into a store when it is opened. */
class KeepingTree implements FileTree {
  readonly #root: string;
  readonly #folder: string;
  readonly #store: ModelStore;
  readonly #options: HubOptions;
  readonly #used = new Set<string>();

  constructor(root: string, folder: string, store: ModelStore, options: HubOptions) {
    this.#root = root;
    this.#folder = folder;
    this.#store = store;
    this.#options = options;
  }

  /** The files that were opened. */
  get paths(): readonly string[] {
    return [...this.#used];
  }

  has(path: string): Promise<boolean> {
    return webPlatform.exists(`${this.#root}/${path}`);
  }

  async whyAbsent(path: string): Promise<string> {
    return (await webPlatform.whyAbsent?.(`${this.#root}/${path}`)) ?? "";
  }

  async open(path: string): Promise<ReadableFile | undefined> {
    const own = `${this.#folder}/${path}`;
    const kept = await this.#store.open(own);
    if (kept === undefined) await this.#fetch(path, own);
    this.#used.add(path);
    return kept ?? this.#store.open(own);
  }

  async #fetch(path: string, own: string): Promise<void> {
    const { signal, onProgress } = this.#options;
    const url = `${this.#root}/${path}`;
    // Another answer's parts fit what is there only where the server's mark is the same.
    const mark = `${own}.version`;
    const version = await textIn(this.#store, mark);
    let total = 0;
    await downloadFile({ url, version }, await this.#store.partial(own), {
      signal,
      onBytes: (bytes) => onProgress?.({ file: path, bytes, size: total, loaded: bytes, total }),
      onAnswer: async (size, told) => {
        total = size ?? 0;
        await checkRoom(this.#store, url, size ?? 0);
        if (told !== undefined && told !== version) await this.#store.write(mark, told);
      },
    });
  }
}
