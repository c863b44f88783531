/** `insitu/worker` in Node: the library in a worker thread, so that the process serves its events while a model computes. */
import { Worker, type TransferListItem } from "node:worker_threads";
import type { LoadLanguageModelOptions } from "#insitu/generate/causal-lm.js";
import type { LoadEmbeddingOptions } from "#insitu/embedding/text-embedder.js";
import type { HubOptions } from "#insitu/hub/models-api.js";
import type { ModelSource } from "#insitu/session/load.js";
import type { SessionOptions } from "#insitu/session/options.js";
import type { StartThread } from "./link.js";
import type { FromThread } from "./messages.js";
import { RemoteEmbedder } from "./remote-embedder.js";
import { RemoteModel } from "./remote-model.js";
import { RemoteSession } from "./remote-session.js";

const startThread: StartThread = (hear, fail) => {
  // Without execArgv: [] a worker inherits flags that it may not take.
  const worker = new Worker(new URL("./model-worker-node.js", import.meta.url), { execArgv: [] });
  worker.on("message", (message: FromThread) => hear(message));
  worker.on("messageerror", ({ message }) => fail(message));
  worker.on("error", (error) => fail(error instanceof Error ? error.message : String(error)));
  worker.on("exit", (code) => fail(`its thread ended with code ${code}`));
  return {
    post: (message, transfer) => worker.postMessage(message, transfer as TransferListItem[]),
    hold: (busy) => (busy ? worker.ref() : worker.unref()),
    terminate: () => void worker.terminate(),
  };
};

/** A language model with its tokenizer, in a thread of its own. */
export class CausalLM extends RemoteModel {
  /** Loads a model as `CausalLM.load` of "insitu" does: from a folder, an ONNX file or the hub; without a source the embedded one. */
  static async load(
    source?: string | URL,
    options?: LoadLanguageModelOptions & { readonly hub?: HubOptions },
  ): Promise<CausalLM> {
    return new CausalLM(await RemoteModel.prepare(startThread, source, options, undefined));
  }
}

/** An embedding model or a reranker, in a thread of its own. */
export class EmbeddingModel extends RemoteEmbedder {
  /** Loads a model from a folder in the hub's layout, from an ONNX file with its tokenizer beside it, or by its name on the hub. */
  static async load(
    source: string | URL,
    options?: LoadEmbeddingOptions & { readonly hub?: HubOptions },
  ): Promise<EmbeddingModel> {
    return new EmbeddingModel(await RemoteEmbedder.prepare(startThread, source, options, undefined));
  }
}

/** A loaded model, in a thread of its own. */
export class InferenceSession extends RemoteSession {
  /** Loads a model from a path, a file URL or its bytes, and makes it ready to run. */
  static async create(model: ModelSource, options?: SessionOptions): Promise<InferenceSession> {
    return new InferenceSession(await RemoteSession.prepare(startThread, model, options, undefined));
  }
}
