/** The session and the language model as browsers have them: models and weights come by fetch. */
import { optionsWithoutNull } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import { LanguageModel, type LoadLanguageModelOptions } from "../generate/causal-lm.js";
import { placeOf } from "../generate/model-folder.js";
import { loadLanguageModelOptionNames } from "../generate/load-option-names.js";
import type { MakeGrammars } from "../engine/constraint.js";
import type { HubOptions } from "../hub/hub-model.js";
import { webPlatform } from "../platform/web.js";
import type { LoadOptions } from "../onnx/load-options.js";
import type { RewriteOptions } from "../rewrite/rewrite.js";
import type { RewrittenBytes } from "../rewrite/rewrite-source.js";
import { readCreateArguments } from "../session/create-arguments.js";
import type { ModelSource } from "../session/load.js";
import type { SessionOptions } from "../session/options.js";
import { Session } from "../session/session.js";
import { backends } from "./backends.js";
import { optionsWithEnv } from "./env.js";
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

/** A language model with its tokenizer. */
export class CausalLM extends LanguageModel {
  #source = "";

  /**
   * Loads a model from the URL of a folder in the hub's layout, or of an ONNX file with its tokenizer beside it. What only Node has is
   * refused when it is called: TypeScript takes these types for programs of Node too where `moduleResolution` is "bundler".
   */
  static async load(
    source?: string | URL,
    options?: LoadLanguageModelOptions & { readonly hub?: HubOptions },
  ): Promise<CausalLM> {
    const { hub, ...rest } = optionsWithoutNull("the options of CausalLM.load", options, {
      ...loadLanguageModelOptionNames,
      hub: true,
    });
    if (source === undefined)
      throw new InsituError(
        "invalid-argument",
        "CausalLM.load needs the URL of a model's folder: the model that comes with the package is found in Node alone; serve a folder in the hub's layout, such as the package's models/embedded, and give its URL",
      );
    if (hub !== undefined)
      throw new InsituError(
        "invalid-argument",
        'option hub is for Node; a browser takes the URL of the files, such as "https://huggingface.co/owner/name/resolve/main"',
      );
    const folder = placeOf(source);
    const open = (model: string, more: SessionOptions): Promise<InferenceSession> =>
      InferenceSession.create(model, more);
    // A file of its own, which a page fetches with its first schema.
    const makeGrammars: MakeGrammars = async (vocabulary) => {
      const grammars = await import("../grammar/grammars.js");
      return grammars.makeGrammars(vocabulary);
    };
    const lm = new CausalLM(await LanguageModel.prepare(folder, webPlatform, open, rest, makeGrammars));
    lm.#source = folder;
    return lm;
  }

  /** The URL that it was loaded from. */
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
