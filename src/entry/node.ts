/** The session and the language model as Node has them: models and weights come from files. */
import { optionsWithoutNull } from "../base/arguments.js";
import { LanguageModel, type LoadLanguageModelOptions } from "../generate/causal-lm.js";
import { placeOf } from "../generate/model-folder.js";
import { loadLanguageModelOptionNames } from "../generate/load-option-names.js";
import { checkedHubOptions } from "../hub/hub-model.js";
import type { HubOptions } from "../hub/models-api.js";
import { embeddedModel } from "../platform/embedded-model.js";
import { nodePlatform } from "../platform/node.js";
import { fetchNamedModel, isModelName } from "../platform/node-models.js";
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
  /** Loads a model from a path, a file URL or its bytes, and makes it ready to run. */
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
    return new InferenceSession(await Session.prepare(source, nodePlatform, backends, optionsWithEnv(options)));
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

/** A language model with its tokenizer. */
export class CausalLM extends LanguageModel {
  #source = "";

  /**
   * Loads a model from a folder in the hub's layout, from an ONNX file with its tokenizer beside it, or by its short name or its name on
   * the hub where there is no such folder; without a source the small one that comes with the package.
   */
  static async load(
    source?: string | URL,
    options?: LoadLanguageModelOptions & { readonly hub?: HubOptions },
  ): Promise<CausalLM> {
    const { hub, ...rest } = optionsWithoutNull("the options of CausalLM.load", options, {
      ...loadLanguageModelOptionNames,
      hub: true,
    });
    if (hub !== undefined) checkedHubOptions(hub);
    const asked = rest.variant === undefined ? {} : { variant: rest.variant };
    const given = placeOf(source ?? embeddedModel());
    const { folder, ...variant } = isModelName(given)
      ? await fetchNamedModel(given, { ...asked, ...hub }, await computesOnDevice(rest, nodePlatform))
      : { folder: given, ...asked };
    const open = (model: string, more: SessionOptions): Promise<InferenceSession> =>
      InferenceSession.create(model, more);
    const own = { ...rest, ...variant };
    const lm = new CausalLM(await LanguageModel.prepare(folder, nodePlatform, open, own, makeGrammars));
    lm.#source = folder;
    return lm;
  }

  /** The folder or file that it was loaded from. */
  get source(): string {
    return this.#source;
  }
}

/**
 * Rewrites a decoder whose caches grow into one whose caches are written in place, from a path, a file URL or its bytes. Weights in other files stay there: the
 * result refers to them as the model did. Throws, naming the input and the node where the trail ended, where the model is not understood.
 */
export async function rewrite(model: ModelSource, options: RewriteOptions & LoadOptions = {}): Promise<RewrittenBytes> {
  const { rewriteSource } = await import("../rewrite/rewrite-source.js");
  return rewriteSource(model, nodePlatform, options);
}
