/** The thread behind `insitu/worker` in Node: a worker thread with a model of its own. */
import { parentPort, type TransferListItem } from "node:worker_threads";
import { EmbeddingModel } from "#insitu/entry/embedding-node.js";
import { CausalLM, InferenceSession } from "#insitu/entry/node.js";
import type { ToThread } from "./messages.js";
import { ModelThread } from "./thread.js";

const thread = new ModelThread({
  loadModel: (source, options) => CausalLM.load(source as string, options),
  createSession: (source, options) => InferenceSession.create(source, options),
  loadEmbedder: (source, options) => EmbeddingModel.load(source, options),
  post: (message, transfer) => parentPort?.postMessage(message, transfer as TransferListItem[]),
});
parentPort?.on("message", (message: ToThread) => thread.hear(message));
parentPort?.postMessage({ kind: "ready" });
