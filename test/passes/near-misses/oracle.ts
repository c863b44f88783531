// Who says what a graph's results are: onnxruntime where it is installed and knows the operators, and insitu's reference implementation of the graph as it is.
import { InferenceSession } from "../../../src/entry/node.js";
import { writeModel } from "../../../src/onnx/write.js";
import type { SessionOptions } from "../../../src/session/options.js";
import type { Tensor } from "../../../src/tensor/tensor.js";
import { handOver, installed, openPeer, takeBack } from "../../rewrite/peer.js";
import type { Drawn } from "./draft.js";

/** Results by name. */
export type Results = Readonly<Record<string, Tensor>>;

const functional: SessionOptions = { backend: "reference", inPlace: "never", graphOptimizationLevel: "disabled" };

/** The results of a session on a backend. Waits for them: on a device they are read before the session is released. */
export async function resultsOf({ model, feeds }: Drawn, options: SessionOptions): Promise<Results> {
  const session = await InferenceSession.create(writeModel(model), options);
  try {
    const results = await session.run(feeds);
    for (const tensor of Object.values(results)) await tensor.getData();
    return results;
  } finally {
    await session.release();
  }
}

/** The results of the graph as it is; undefined where the reference implementation refuses it. */
export async function referenceOf(drawn: Drawn): Promise<Results | undefined> {
  return resultsOf(drawn, functional).catch(() => undefined);
}

/** onnxruntime's results without its own fusions; undefined where it refuses the graph or is not there. */
export async function peerOf({ model, feeds }: Drawn): Promise<Results | undefined> {
  if (!installed) return undefined;
  const quiet = { logSeverityLevel: 4, graphOptimizationLevel: "disabled" };
  const session = await openPeer(writeModel(model), quiet).catch(() => undefined);
  if (session === undefined) return undefined;
  try {
    const given = Object.entries(feeds).map(([name, tensor]) => [name, handOver(tensor)] as const);
    const results = await session.run(Object.fromEntries(given));
    return Object.fromEntries(Object.entries(results).map(([name, tensor]) => [name, takeBack(tensor)]));
  } catch {
    return undefined;
  } finally {
    await session.release();
  }
}
