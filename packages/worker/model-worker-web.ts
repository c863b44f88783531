/** The thread behind `insitu/worker` in browsers: a module worker with a model of its own. */
import { CausalLM, InferenceSession } from "#insitu/entry/web.js";
import type { ModelFolder } from "#insitu/platform/file-tree.js";
import { setBaseUrl } from "#insitu/platform/web.js";
import type { FromThread, ToThread } from "./messages.js";
import { ModelThread } from "./thread.js";

// A module worker's global is not a window; of it only message and postMessage are used.
const scope = globalThis as {
  addEventListener(type: "message", listener: (event: MessageEvent<ToThread>) => void): void;
  postMessage(message: FromThread, transfer?: Transferable[]): void;
};

const thread = new ModelThread({
  // Left out, a source is refused by the library's own words.
  loadModel: (source, options) => CausalLM.load(source as string | ModelFolder, options),
  createSession: (source, options) => InferenceSession.create(source, options),
  // It comes with a page that embeds.
  loadEmbedder: async (source, options) =>
    (await import("#insitu/entry/embedding-web.js")).EmbeddingModel.load(source, options),
  setBase: setBaseUrl,
  post: (message, transfer) => scope.postMessage(message, transfer as Transferable[]),
});
scope.addEventListener("message", ({ data }) => thread.hear(data));
scope.postMessage({ kind: "ready" });
