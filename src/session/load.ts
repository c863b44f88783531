/** From what a caller hands in to a graph that is ready to run: bytes, path or URL → model → graph with facts. */
import type { Platform } from "../base/platform.js";
import { buildGraph } from "../graph/build.js";
import type { Graph } from "../graph/graph.js";
import { inferGraph } from "../graph/infer.js";
import type { ArrivingWeights } from "../onnx/arriving-weights.js";
import { type AllocateBytes, loadExternalData } from "../onnx/external.js";
import { loadModel as loadModelAt } from "../onnx/load.js";
import { bytesOf, checkLoadOptions, type LoadOptions } from "../onnx/load-options.js";
import type { Model } from "../onnx/model.js";
import { readModel } from "../onnx/read.js";
import { deferInMemory, DeferredWeights } from "../onnx/weight-source.js";
import { operators } from "../ops/index.js";
import { withOperators } from "../ops/late.js";
import { foldConstants } from "../passes/fold-constants.js";
import { optimizeGraph, type Preparation } from "../passes/optimize.js";
import { removeDeadNodes } from "../passes/remove-dead-nodes.js";
import { type RemovedNode, removedNodes } from "#insitu/explain/caches.js";
import { presentsOf } from "../plan/pairs.js";
import { withPlainWeights } from "./plain-weights.js";

/** What a model can be loaded from: a path or URL, or its bytes. */
export type ModelSource = string | URL | Uint8Array | ArrayBufferLike;

/**
 * Reads a model and its external data. With `allocateBytes` all weights go there, also those that the caller gives as bytes: what the
 * caller then lets go of is held no longer. With `later`, large weights in files stay there until they are wanted, or are on their way.
 */
export async function loadModel(
  source: ModelSource,
  platform: Platform,
  options: LoadOptions = {},
  allocateBytes?: AllocateBytes,
  later?: DeferredWeights | ArrivingWeights,
): Promise<Model> {
  checkLoadOptions(options);
  const loaded = await readSource(source, platform, options, allocateBytes, later);
  const model = await withOperators(later instanceof DeferredWeights ? deferInMemory(loaded) : loaded);
  return withPlainWeights(model, allocateBytes === undefined ? "the caller's" : "own");
}

async function readSource(
  source: ModelSource,
  platform: Platform,
  options: LoadOptions,
  allocateBytes?: AllocateBytes,
  later?: DeferredWeights | ArrivingWeights,
): Promise<Model> {
  if (typeof source === "string" || source instanceof URL)
    return loadModelAt(String(source), platform, options, allocateBytes, later);
  const bytes = bytesOf(source);
  const own = allocateBytes?.([bytes.length])[0];
  own?.set(bytes);
  const model = own === undefined ? readModel(bytes) : readModel(own, { owned: true });
  return loadExternalData(model, platform, options, allocateBytes, later);
}

/** Builds and infers the graph of a model, with its constants folded and without nodes that nothing reads. */
export const graphOf = (model: Model): Graph => preparedGraphOf(model).graph;

/** A graph that is ready to be planned. */
export interface PreparedGraph {
  readonly graph: Graph;
  /** The nodes that were taken out because nothing needs them or all is known of them. */
  readonly removed: readonly RemovedNode[];
  /** Presents by past before the passes. */
  readonly asFiled: ReadonlyMap<string, string>;
}

/** The same after the passes. */
export function preparedGraphOf(model: Model, preparation: Preparation = {}): PreparedGraph {
  const whole = buildGraph(model, operators);
  inferGraph(whole);
  const plain = removeDeadNodes(foldConstants(whole));
  const removed = removedNodes(whole, plain);
  return { graph: optimizeGraph(plain, operators, preparation), removed, asFiled: presentsOf(plain) };
}
