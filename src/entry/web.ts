/** The session and the language model as browsers have them: models and weights come by fetch. */
import { checkFlag, optionsWithoutNull } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { FolderPlatform } from "../base/platform.js";
import { LanguageModel, type LoadLanguageModelOptions } from "../generate/causal-lm.js";
import { placeOf } from "../generate/model-folder.js";
import { loadLanguageModelOptionNames } from "../generate/load-option-names.js";
import type { HubOptions } from "#insitu/hub/models-api.js";
import { isModelFolder, type ModelFolder } from "../platform/file-tree.js";
import { webPlatform } from "../platform/web.js";
import { withSource } from "../platform/web-source.js";
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
   * Loads an ONNX model from a URL or its bytes, and prepares it to run.
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

/** A language model with its tokenizer: generates text, chats, calls tools, writes JSON. */
export class CausalLM extends LanguageModel {
  #source = "";

  /**
   * Loads a language model: by short name ("qwen3-0.6b") or hub name ("owner/name"); from the URL of a folder in the hub's layout, or of an
   * ONNX file with its tokenizer next to it; or from a folder or files that were dropped on the page. Downloads are kept in the origin's
   * storage, and work offline, unless `store` is false.
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
    source?: string | URL | ModelFolder,
    options?: LoadLanguageModelOptions & {
      readonly hub?: HubOptions | undefined;
      readonly store?: boolean | undefined;
    },
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
        "CausalLM.load needs a model's name or the URL of its folder: the embedded model is loaded by default in Node alone; give a short name such as smollm2-135m, owner/name on the hub, or the URL of a folder in its layout, such as the package's models/embedded",
      );
    const asked = rest.variant === undefined ? {} : { variant: rest.variant };
    const how = { hub: { ...asked, ...hub }, store, onDevice: () => computesOnDevice(rest, webPlatform) };
    return withSource(isModelFolder(source) ? source : placeOf(source), how, async ({ place, platform, variant }) => {
      const open = (model: string, more: SessionOptions): Promise<InferenceSession> =>
        SessionOn.open(model, platform, more);
      const own = { ...rest, ...(variant === undefined ? {} : { variant }) };
      const lm = new CausalLM(
        await LanguageModel.prepare(place, platform, open, own, makeGrammars, namesDevice(rest.backend)),
      );
      lm.#source = place;
      return lm;
    });
  }

  /** The name or the URL that the model was loaded from. */
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
  return rewriteSource(model, webPlatform, options);
}
