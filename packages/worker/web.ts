/** `insitu/worker` in browsers: the library behind a Worker, so that the page stays responsive while a model computes. */
import { InsituError } from "#insitu/base/error.js";
import type { LoadLanguageModelOptions } from "#insitu/generate/causal-lm.js";
import type { LoadEmbeddingOptions } from "#insitu/embedding/text-embedder.js";
import type { HubOptions } from "#insitu/hub/models-api.js";
import type { ModelFolder } from "#insitu/platform/file-tree.js";
import type { ModelSource } from "#insitu/session/load.js";
import type { SessionOptions } from "#insitu/session/options.js";
import type { StartThread } from "./link.js";
import { RemoteEmbedder } from "./remote-embedder.js";
import { RemoteModel } from "./remote-model.js";
import { RemoteSession } from "./remote-session.js";

const startThread: StartThread = (hear, fail) => {
  let worker: Worker;
  try {
    // The expression stays literal: bundlers rewrite it.
    worker = new Worker(new URL("./model-worker-web.js", import.meta.url), { type: "module" });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InsituError(
      "invalid-argument",
      `a worker cannot be started here: ${reason}; model-worker-web.js must come from the page's own origin, beside the script that starts it`,
      { cause },
    );
  }
  worker.addEventListener("message", ({ data }) => hear(data));
  worker.addEventListener("messageerror", () => fail("one of its messages could not be read"));
  worker.addEventListener("error", (event) => {
    event.preventDefault();
    // An event without a message is a script that did not load.
    fail(
      event.message ||
        `its script could not be loaded: model-worker-web.js must be served beside the script that starts it, ${import.meta.url}`,
    );
  });
  return {
    post: (message, transfer) => worker.postMessage(message, transfer as Transferable[]),
    terminate: () => worker.terminate(),
  };
};

/** What relative URLs are relative to: the page's base, not the worker's script. */
const pageBase = (): string | undefined => globalThis.document?.baseURI ?? globalThis.location?.href;

/** A language model with its tokenizer, in a worker of its own. */
export class CausalLM extends RemoteModel {
  /** Loads a model as `CausalLM.load` of "insitu" does: by name, from a URL, or from a folder or files that were dropped on the page. */
  static async load(
    source: string | URL | ModelFolder,
    options?: LoadLanguageModelOptions & { readonly hub?: HubOptions; readonly store?: boolean },
  ): Promise<CausalLM> {
    return new CausalLM(await RemoteModel.prepare(startThread, source, options, pageBase()));
  }
}

/** An embedding model or a reranker, in a worker of its own. */
export class EmbeddingModel extends RemoteEmbedder {
  /** Loads a model from the URL of a folder in the hub's layout, or of an ONNX file with its tokenizer beside it. */
  static async load(source: string | URL, options?: LoadEmbeddingOptions): Promise<EmbeddingModel> {
    return new EmbeddingModel(await RemoteEmbedder.prepare(startThread, source, options, pageBase()));
  }
}

/** A loaded model, in a worker of its own. */
export class InferenceSession extends RemoteSession {
  /** Loads a model from a URL or its bytes, and makes it ready to run. */
  static async create(model: ModelSource, options?: SessionOptions): Promise<InferenceSession> {
    return new InferenceSession(await RemoteSession.prepare(startThread, model, options, pageBase()));
  }
}
