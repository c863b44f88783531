/** What users hold of models by name: the catalogue, what is kept, and how a model is fetched, listed and removed. The same in Node and in browsers. */

import type { ModelVariant } from "#insitu/base/known-names.js";

/** One ONNX file, or folder, of a model in the catalogue. */
export interface CatalogueVariant {
  /** The value for `variant`: "q4", "q4f16", "fp16", or the name of a folder. */
  readonly name: string;
  /** Size of its files, in bytes. */
  readonly bytes: number;
  /** True if the size is an estimate from the number of parameters. */
  readonly approximate?: boolean | undefined;
}

/** A model of the catalogue, which has a short name. */
export interface CatalogueModel {
  /** The short name: "qwen3-0.6b". */
  readonly name: string;
  /** The model's title, for people. */
  readonly title: string;
  /** Its name on the hub: "onnx-community/Qwen3-0.6B-ONNX". */
  readonly repository: string;
  /** `model_type` of its configuration. */
  readonly architecture: string;
  /** How many weights it has. */
  readonly parameters: number;
  /** The licence, by its name on the hub. */
  readonly licence: string;
  /** The context window that the model was trained for, in tokens. */
  readonly context: number;
  /** True if it answers messages. */
  readonly chat: boolean;
  /** True if its template takes tools. */
  readonly tools: boolean;
  /** True if it thinks before it answers. */
  readonly thinking: boolean;
  /** Its ONNX files, as far as they are known. */
  readonly variants: readonly CatalogueVariant[];
  /** Public pages that name the repository or the sizes. */
  readonly sources: readonly string[];
}

/** A downloaded model: one revision of it. */
export interface KeptModel {
  /** Its name on the hub, or the URL of its folder. */
  readonly name: string;
  /** The branch, tag or commit. */
  readonly revision: string;
  /** Its folder in Node; in browsers where it lies in the origin's storage. */
  readonly folder: string;
  /** Bytes of all that is there. */
  readonly bytes: number;
  /** Variants that are completely downloaded; "" for a model without variants. */
  readonly complete: readonly string[];
}

/** What is about to be downloaded. `onPlan` gets it before the first byte. */
export interface DownloadPlan {
  /** The name on the hub. */
  readonly name: string;
  /** The variant that was chosen; undefined if the model has only one. */
  readonly variant: string | undefined;
  /** The paths of its files. */
  readonly files: readonly string[];
  /** Bytes of all files. */
  readonly bytes: number;
  /** How many of these bytes are here already. */
  readonly bytesHere: number;
  /** Where they will be kept. */
  readonly place: string;
}

/** How far a download is. `onProgress` gets it. */
export interface DownloadProgress {
  /** The path of the file that is being downloaded. */
  readonly file: string;
  /** Bytes of this file downloaded so far. */
  readonly bytes: number;
  /** The size of this file, in bytes. */
  readonly size: number;
  /** Bytes of all files downloaded so far. */
  readonly loaded: number;
  /** The size of all files, in bytes. */
  readonly total: number;
}

/** Options of downloads from the hub. */
export interface HubOptions {
  /**
   * A branch, tag or commit of the repository.
   * @default "main"
   */
  readonly revision?: string | undefined;
  /**
   * Which ONNX file to download: "q4" is onnx/model_q4.onnx. It can also be the name of a folder in the repository.
   * @default "q4", and "q4f16" on a GPU
   */
  readonly variant?: ModelVariant | undefined;
  /**
   * The folder that models are kept in (Node only).
   * @default INSITU_CACHE, or .cache/insitu in the home folder
   */
  readonly cache?: string | undefined;
  /**
   * The address of the hub.
   * @default HF_ENDPOINT, or https://huggingface.co
   */
  readonly hubUrl?: string | undefined;
  /**
   * An access token, for models that are not public.
   * @default HF_TOKEN
   */
  readonly accessToken?: string | undefined;
  /** Cancels the download. What has arrived is kept, and the next download continues from there. */
  readonly signal?: AbortSignal | undefined;
  /** Called once, before anything large is downloaded. If it throws, nothing is downloaded. */
  readonly onPlan?: ((plan: DownloadPlan) => void) | undefined;
  /** Called while files arrive. */
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
}

/** Where downloaded models are kept, and how much space they take. */
export interface ModelStorage {
  /** "folder" in Node; "opfs" or "cache" in browsers; "none" if nothing can be stored. */
  readonly kind: "folder" | "opfs" | "cache" | "none";
  /** The folder's path, or a word for the place. */
  readonly place: string;
  /** Bytes that models take. */
  readonly usedBytes: number;
  /** Free bytes; undefined if the platform does not say. */
  readonly freeBytes: number | undefined;
}

/** Models by name: `models` of the package. */
export interface Models {
  /** Every model that has a short name. */
  readonly catalogue: readonly CatalogueModel[];
  /** Lists the stored models. */
  list(): Promise<readonly KeptModel[]>;
  /** Downloads a model by its short name or its name on the hub, unless it is stored already. */
  pull(name: string, options?: HubOptions): Promise<KeptModel>;
  /** Deletes the stored files of a model, given by short name, name on the hub, name@revision, or the URL that it was loaded from. */
  remove(name: string): Promise<readonly KeptModel[]>;
  /** Asks the browser to keep this origin's storage when the disk is full. Returns true if the browser agrees. */
  persist(): Promise<boolean>;
  /** Says where models are stored, and how much space is left. */
  storage(): Promise<ModelStorage>;
}
