/** The session and the language model as Node has them: models and weights come from files. */
import { optionsWithoutNull } from "../base/arguments.js";
import { LanguageModel, type LoadLanguageModelOptions } from "../generate/causal-lm.js";
import { placeOf } from "../generate/model-folder.js";
import { loadLanguageModelOptionNames } from "../generate/load-option-names.js";
import { checkedHubOptions } from "#insitu/hub/hub-options.js";
import type { HubOptions } from "#insitu/hub/models-api.js";
import { embeddedModel } from "../platform/embedded-model.js";
import { nodePlatform } from "../platform/node.js";
import { fetchNamedModel, isModelName } from "../platform/node-models.js";
import type { LoadOptions } from "../onnx/load-options.js";
import type { RewriteOptions } from "#insitu/rewrite/rewrite.js";
import type { RewrittenBytes } from "#insitu/rewrite/rewrite-source.js";
import { readCreateArguments } from "../session/create-arguments.js";
import type { ModelSource } from "../session/load.js";
import type { SessionOptions } from "../session/options.js";
import { Session } from "../session/session.js";
import { backends } from "./backends.js";
import { optionsWithEnv } from "./env.js";
import { makeGrammars } from "./make-grammars.js";
import { computesOnDevice, namesDevice } from "./named-models.js";
import type { SessionTypes } from "./onnxruntime-types.js";

/** A loaded model that runs: onnxruntime's interface, with states for KV caches. */
export class InferenceSession extends Session {
  /**
   * Loads an ONNX model from a path, a file URL or its bytes, and prepares it to run.
   * @throws InsituError `invalid-model`, `unsupported-operator`, `external-data`, `out-of-memory`, or `invalid-argument` for invalid options.
   * @example
   * ```ts
   * import { InferenceSession, Tensor } from "insitu";
   *
   * const session = await InferenceSession.create("model.onnx", { backend: "auto" });
   * const { y } = await session.run({ x: new Tensor("float32", [1, 2, 3], [1, 3]) });
   * console.log(y.dims, y.data);
   * await session.release();
   * ```
   */
  static create(model: ModelSource, options?: SessionOptions): Promise<InferenceSession>;
  /** Loads an ONNX model that is a part of a buffer. */
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

/** A language model with its tokenizer: generates text, chats, calls tools, writes JSON. */
export class CausalLM extends LanguageModel {
  #source = "";

  /**
   * Loads a language model: by short name ("qwen3-0.6b") or hub name ("owner/name"), which is downloaded once; from a folder in the hub's layout, or
   * from an ONNX file with its tokenizer next to it. Without a source it loads the embedded model.
   * @throws InsituError `invalid-model` if there is no such model or it cannot run, `download` if it cannot be downloaded.
   * @example
   * ```ts
   * import { CausalLM } from "insitu";
   *
   * const lm = await CausalLM.load("qwen3-0.6b", { backend: "auto" });
   * console.log(await lm.generate("Once upon a time", { maxTokens: 60 }).text());
   * await lm.release();
   * ```
   */
  static async load(
    source?: string | URL,
    options?: LoadLanguageModelOptions & { readonly hub?: HubOptions | undefined },
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
    const lm = new CausalLM(
      await LanguageModel.prepare(folder, nodePlatform, open, own, makeGrammars, namesDevice(rest.backend)),
    );
    lm.#source = folder;
    return lm;
  }

  /** The folder or file that the model was loaded from. */
  get source(): string {
    return this.#source;
  }
}

/**
 * Rewrites a decoder whose caches grow into one whose caches are written in place. Weights in other files stay there: the result
 * refers to them as the model did.
 * @throws InsituError `invalid-graph`, which names the input and the node where the search ended, if the model is not understood.
 * @example
 * ```ts
 * import { rewrite } from "insitu";
 *
 * const { model, report } = await rewrite("model.onnx", { capacity: 4096 });
 * console.log(model.length, report.caches.length);
 * ```
 */
export async function rewrite(model: ModelSource, options: RewriteOptions & LoadOptions = {}): Promise<RewrittenBytes> {
  const { rewriteSource } = await import("#insitu/rewrite/rewrite-source.js");
  return rewriteSource(model, nodePlatform, options);
}
