/** The session and the language model as browsers have them: models and weights come by fetch. */
import { checkFlag, optionsWithoutNull } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { FolderPlatform } from "../base/platform.js";
import { LanguageModel, type LoadLanguageModelOptions } from "../generate/causal-lm.js";
import { placeOf } from "../generate/model-folder.js";
import { loadLanguageModelOptionNames } from "../generate/load-option-names.js";
import type { HubOptions } from "../hub/models-api.js";
import { isModelFolder, type ModelFolder } from "../platform/file-tree.js";
import { webPlatform } from "../platform/web.js";
import { withSource } from "../platform/web-models.js";
import type { LoadOptions } from "../onnx/load-options.js";
import type { RewriteOptions } from "../rewrite/rewrite.js";
import type { RewrittenBytes } from "../rewrite/rewrite-source.js";
import { readCreateArguments } from "../session/create-arguments.js";
import type { ModelSource } from "../session/load.js";
import type { SessionOptions } from "../session/options.js";
import { Session } from "../session/session.js";
import { backends } from "./backends.js";
import { optionsWithEnv } from "./env.js";
import { makeGrammars } from "./make-grammars.js";
import { computesOnDevice } from "./named-models.js";
import type { SessionTypes } from "./onnxruntime-types.js";

/** A loaded model. */
export class InferenceSession extends Session {
  /** Loads a model from a URL or its bytes, and makes it ready to run. */
  static create(model: ModelSource, options?: SessionOptions): Promise<InferenceSession>;
  /** The same for a model that is a part of a buffer. */
  static create(
    buffer: ArrayBufferLike,
    byteOffset: number,
    byteLength?: number,
    options?: SessionOptions,
  ): Promise<InferenceSession>;
  static async create(model: ModelSource, ...others: readonly unknown[]): Promise<InferenceSession> {
    const { source, options } = readCreateArguments(model, others);
    return new InferenceSession(await Session.prepare(source, webPlatform, backends, optionsWithEnv(options)));
  }
}

/** onnxruntime-common's names for the types around a session. */
export declare namespace InferenceSession {
  type OnnxValueMapType = SessionTypes.OnnxValueMapType;
  type NullableOnnxValueMapType = SessionTypes.NullableOnnxValueMapType;
  type FeedsType = SessionTypes.FeedsType;
  type FetchesType = SessionTypes.FetchesType;
  type ReturnType = SessionTypes.ReturnType;
  type SessionOptions = SessionTypes.Options;
  type RunOptions = SessionTypes.Run;
  type ValueMetadata = SessionTypes.Metadata;
  type TensorValueMetadata = SessionTypes.TensorValueMetadata;
  type NonTensorValueMetadata = SessionTypes.NonTensorValueMetadata;
  type ExecutionProviderOption = SessionTypes.ExecutionProviderOption;
  type ExecutionProviderName = SessionTypes.ExecutionProviderName;
  type ExecutionProviderConfig = SessionTypes.ExecutionProviderConfig;
  type CpuExecutionProviderOption = SessionTypes.CpuExecutionProviderOption;
  type CudaExecutionProviderOption = SessionTypes.CudaExecutionProviderOption;
  type WebAssemblyExecutionProviderOption = SessionTypes.WebAssemblyExecutionProviderOption;
  type WebGpuExecutionProviderOption = SessionTypes.WebGpuExecutionProviderOption;
}

/** A session whose files are others than those of URLs. */
class SessionOn extends InferenceSession {
  static async open(model: string, platform: FolderPlatform, options: SessionOptions): Promise<InferenceSession> {
    return new SessionOn(await Session.prepare(model, platform, backends, optionsWithEnv(options)));
  }
}

/** A language model with its tokenizer. */
export class CausalLM extends LanguageModel {
  #source = "";

  /**
   * Loads a model by its short name or its name on the hub, from the URL of a folder in the hub's layout or of an ONNX file with its tokenizer
   * beside it, or from a folder or files that were dropped on the page. What is fetched is kept in the origin's storage, unless `store` is false.
   */
  static async load(
    source?: string | URL | ModelFolder,
    options?: LoadLanguageModelOptions & { readonly hub?: HubOptions; readonly store?: boolean },
  ): Promise<CausalLM> {
    const { hub, store, ...rest } = optionsWithoutNull("the options of CausalLM.load", options, {
      ...loadLanguageModelOptionNames,
      hub: true,
      store: true,
    });
    checkFlag("option store", store);
    if (source === undefined)
      throw new InsituError(
        "invalid-argument",
        "CausalLM.load needs a model's name or the URL of its folder: the model that comes with the package is found in Node alone; give a short name such as smollm2-135m, owner/name on the hub, or the URL of a folder in its layout, such as the package's models/embedded",
      );
    const asked = rest.variant === undefined ? {} : { variant: rest.variant };
    const how = { hub: { ...asked, ...hub }, store, onDevice: () => computesOnDevice(rest, webPlatform) };
    return withSource(isModelFolder(source) ? source : placeOf(source), how, async ({ place, platform, variant }) => {
      const open = (model: string, more: SessionOptions): Promise<InferenceSession> =>
        SessionOn.open(model, platform, more);
      const own = { ...rest, ...(variant === undefined ? {} : { variant }) };
      const lm = new CausalLM(await LanguageModel.prepare(place, platform, open, own, makeGrammars));
      lm.#source = place;
      return lm;
    });
  }

  /** The name or the URL that it was loaded from. */
  get source(): string {
    return this.#source;
  }
}

/**
 * Rewrites a decoder whose caches grow into one whose caches are written in place, from a URL or its bytes. Weights in other files stay there: the
 * result refers to them as the model did. Throws, naming the input and the node where the trail ended, where the model is not understood.
 */
export async function rewrite(model: ModelSource, options: RewriteOptions & LoadOptions = {}): Promise<RewrittenBytes> {
  const { rewriteSource } = await import("../rewrite/rewrite-source.js");
  return rewriteSource(model, webPlatform, options);
}
