/** What users hold of models by name: the catalogue, what is kept, and how a model is fetched, listed and removed. The same in Node and in browsers. */

/** One ONNX file, or folder, of a model in the catalogue. */
export interface CatalogueVariant {
  /** What `variant` takes: "q4", "q4f16", "fp16", or the name of a folder. */
  readonly name: string;
  /** Bytes of its files. */
  readonly bytes: number;
  /** True where the sources tell parameters alone, and bytes are reckoned from them. */
  readonly approximate?: boolean;
}

/** A model that has a short name. */
export interface CatalogueModel {
  /** The short name: "qwen3-0.6b". */
  readonly name: string;
  /** What people call it. */
  readonly title: string;
  /** Its name on the hub: "onnx-community/Qwen3-0.6B-ONNX". */
  readonly repository: string;
  /** `model_type` of its configuration. */
  readonly architecture: string;
  /** How many weights it has. */
  readonly parameters: number;
  /** The licence, by its name on the hub. */
  readonly licence: string;
  /** Tokens that it was made for. */
  readonly context: number;
  /** True if it answers messages. */
  readonly chat: boolean;
  /** True if its template takes tools. */
  readonly tools: boolean;
  /** True if it thinks before it answers. */
  readonly thinking: boolean;
  /** Its ONNX files, as far as the sources tell. */
  readonly variants: readonly CatalogueVariant[];
  /** Public pages that name the repository, or tell sizes. */
  readonly sources: readonly string[];
}

/** A model that is kept: one revision of it. */
export interface KeptModel {
  /** Its name on the hub, or the URL of its folder. */
  readonly name: string;
  /** The branch, tag or commit. */
  readonly revision: string;
  /** Its folder in Node; in browsers where it lies in the origin's storage. */
  readonly folder: string;
  /** Bytes of all that is there. */
  readonly bytes: number;
  /** Variants that are there as a whole; "" is the one that the model comes in. */
  readonly complete: readonly string[];
}

/** What is about to be fetched: told before the first byte. */
export interface DownloadPlan {
  /** The name on the hub. */
  readonly name: string;
  /** The variant that was chosen; undefined where the model comes in one form alone. */
  readonly variant: string | undefined;
  /** The paths of its files. */
  readonly files: readonly string[];
  /** Bytes of all files. */
  readonly bytes: number;
  /** Bytes of them that are here already. */
  readonly bytesHere: number;
  /** Where they will be kept. */
  readonly place: string;
}

/** How far a download is. */
export interface DownloadProgress {
  /** The path of the file that is coming. */
  readonly file: string;
  /** Bytes of this file that are here. */
  readonly bytes: number;
  /** Bytes that it will have. */
  readonly size: number;
  /** Bytes of all files of the model that are here. */
  readonly loaded: number;
  /** Bytes that they will have. */
  readonly total: number;
}

/** How a model is fetched. */
export interface HubOptions {
  /** A branch, tag or commit; "main" where left out. */
  readonly revision?: string;
  /** Which ONNX file: "q4" is onnx/model_q4.onnx; or which folder, by its name. 4 bits where left out: "q4", and "q4f16" on a GPU. */
  readonly variant?: string;
  /** In Node, where models are kept: INSITU_CACHE, or .cache/insitu in the home folder. */
  readonly cache?: string;
  /** Where the hub is: HF_ENDPOINT, or the public one. */
  readonly hubUrl?: string;
  /** For models that are not public: HF_TOKEN where left out. */
  readonly accessToken?: string;
  /** Ends the fetching; what came stays, and is gone on from the next time. */
  readonly signal?: AbortSignal;
  /** Told once, before anything large is fetched; what it throws ends the fetching. */
  readonly onPlan?: (plan: DownloadPlan) => void;
  /** Told about each file while it comes. */
  readonly onProgress?: (progress: DownloadProgress) => void;
}

/** The storage that models are kept in. */
export interface ModelStorage {
  /** "folder" in Node; "opfs" or "cache" in browsers; "none" where nothing can be kept. */
  readonly kind: "folder" | "opfs" | "cache" | "none";
  /** A path, or a word for it. */
  readonly place: string;
  /** Bytes that models take. */
  readonly usedBytes: number;
  /** Bytes that can still be kept; undefined where nobody tells. */
  readonly freeBytes: number | undefined;
}

/** Models by name: `models` of the package. */
export interface Models {
  /** Every model that has a short name. */
  readonly catalogue: readonly CatalogueModel[];
  /** The models that are kept, by their names. */
  list(): Promise<readonly KeptModel[]>;
  /** Fetches a model by its short name or its name on the hub, unless it is kept already. */
  pull(name: string, options?: HubOptions): Promise<KeptModel>;
  /** Removes what is kept of a model: a short name, a name on the hub, name@revision, or the URL that it was loaded from. */
  remove(name: string): Promise<readonly KeptModel[]>;
  /** Asks the browser not to give this origin's storage up when disks run short; true where it will not. */
  persist(): Promise<boolean>;
  /** Where models are kept, and how much room is left. */
  storage(): Promise<ModelStorage>;
}
