/** What a session is made of: the model loaded, changed and rewritten, its plans ready on a backend that was opened. */
import { InsituError } from "../base/error.js";
import type { Platform } from "../base/platform.js";
import { valueText } from "../base/value-text.js";
import { ArrivingWeights } from "../onnx/arriving-weights.js";
import { isModel, type Model } from "../onnx/model.js";
import { DeferredWeights } from "../onnx/weight-source.js";
import { makePlan } from "../plan/plan.js";
import { CacheEdits } from "./cache-edits.js";
import { countedDecoderOf } from "./counted-lengths.js";
import { HandedOut } from "./handed-out.js";
import { keptModelOf } from "./kept-model.js";
import { KeptPresents } from "./kept-presents.js";
import { loadModel, type ModelSource, preparedGraphOf } from "./load.js";
import { LoadTeller } from "./load-progress.js";
import { MemoryLimit } from "./memory-limit.js";
import type { OpenedBackend } from "./open-backend.js";
import {
  type ChangedOn,
  type InPlacePolicy,
  isOnnxruntimes,
  type readOptions,
  type RewritePolicy,
  type SessionOptions,
  type WhileWeightsCome,
} from "./options.js";
import { Pairings } from "./pairing.js";
import type { Parts, Session } from "./session.js";
import { holding } from "../tensor/deferred.js";
import { areAsFiled } from "./plain-weights.js";
import { rowWeights } from "./row-weights.js";
import { ToldApart } from "./told-apart.js";
import { heldBytes, namedWeightsOf } from "./weights.js";

/** Loads a model and makes it ready on a backend, which is let go of where that fails. */
export async function prepareOn(
  { name, isDevice, opened, hasKernel }: OpenedBackend,
  source: ModelSource,
  platform: Platform,
  options: SessionOptions,
  asked: Omit<ReturnType<typeof readOptions>, "candidates"> & {
    readonly passedOver: readonly string[];
    readonly sessionOf: (parts: Parts) => Session;
  },
): Promise<Parts> {
  const { inPlace, level, activations, rewrite, presents, passedOver, staysOnDevice, sessionOf } = asked;
  const preparation = { level, hasKernel, activations };
  const limit = new MemoryLimit(options.memoryLimit ?? platform.memoryBytes);
  const deferring = opened.bringWeights && new DeferredWeights((bytes) => limit.addWeights(bytes));
  const arriving = new ArrivingWeights(rowWeights, areAsFiled, limit.guardShared(opened));
  // Code is read before weights are, or it would wait behind them.
  const rewriting = rewrite === "never" ? undefined : import("#insitu/rewrite/rewrite.js");
  rewriting?.catch(() => undefined);
  let whileWeightsCome: WhileWeightsCome | undefined;
  const meanwhile = (work: WhileWeightsCome): void => void (whileWeightsCome = work);
  const teller = new LoadTeller(options.onProgress);
  const own = { ...options, onProgress: teller.bytes };
  try {
    const loaded = await loadModel(source, platform, own, limit.guard(opened), deferring ?? arriving);
    teller.enter("plan");
    const changed = await holding(() => changedBy(options.change, loaded, { isDevice, meanwhile }));
    const { model, notRewritten } = await holding(() => rewritten(changed, rewrite, inPlace));
    const prepared = await holding(() => preparedGraphOf(model, preparation));
    const { graph, removed } = prepared;
    const named = namedWeightsOf(graph);
    const weights = [...named.keys()];
    await opened.checkWeights?.([...named].map(([view, name]) => ({ name, bytes: view.byteLength, view })));
    const pairings = new Pairings(prepared, inPlace, options.pairs, opened, weights);
    const counted = countedDecoderOf(pairings.own);
    const policy = inPlace === "require" ? "prefer" : inPlace;
    const functional = opened.prepare(makePlan(graph, { policy, pasts: "caller" }));
    const parts: Parts = {
      model,
      notRewritten,
      graph,
      removed,
      backend: name,
      passedOver,
      opened,
      released: false,
      handedOut: new HandedOut(),
      functional,
      apart: model === loaded ? new ToldApart(model, opened, policy, preparation) : undefined,
      pairings,
      edits: new CacheEdits(opened),
      weightBytes: heldBytes(weights),
      limit,
      arriving,
      mayMove: inPlace !== "require",
      staysOnDevice: isDevice ? staysOnDevice : undefined,
      isOnnxruntimes: isOnnxruntimes(options),
      counted,
      unnamed: new Set(options.executionProviders === undefined ? [] : counted?.lengths),
      presents: undefined,
    };
    let runs = graph;
    if (presents === "keep") {
      const isRewritten = rewrite !== "never";
      const beside = { inPlace, isRewritten, pairs: options.pairs, preparation };
      const kept = await holding(() => keptModelOf(parts, beside));
      parts.presents = kept === undefined || typeof kept === "string" ? kept : new KeptPresents(kept);
      if (typeof kept === "object") runs = kept.parts.graph;
    }
    teller.enter("weights");
    const beside = async (): Promise<void> => whileWeightsCome?.(sessionOf(parts), teller.pipelines);
    if (deferring === undefined) await beside();
    else await opened.bringWeights!(namedWeightsOf(runs), deferring.onRead, beside);
    await arriving.arrived();
    arriving.settle(true);
    teller.enter("ready");
    return parts;
  } catch (error) {
    await arriving.stop();
    await opened.release();
    throw error;
  } finally {
    await deferring?.close();
  }
}

/** The model after the caller's own step; the same where it gives nothing back. */
async function changedBy(change: SessionOptions["change"], model: Model, on: ChangedOn): Promise<Model> {
  const changed: unknown = await change?.(model, on);
  if (changed === undefined || isModel(changed)) return changed ?? model;
  throw new InsituError("invalid-argument", `option change must give a model, got ${valueText(changed)}`);
}

/** The model as it will run. The room that rewrites is loaded where it is asked for. */
async function rewritten(
  model: Model,
  asked: RewritePolicy,
  inPlace: InPlacePolicy,
): Promise<Pick<Parts, "model" | "notRewritten">> {
  if (asked === "never") return { model, notRewritten: undefined };
  const { rewriteIfGrowing } = await import("#insitu/rewrite/rewrite.js");
  try {
    return { model: rewriteIfGrowing(model), notRewritten: undefined };
  } catch (error) {
    const stays =
      asked === "auto" && inPlace !== "require" && error instanceof InsituError && error.code !== "internal";
    if (!stays) throw error;
    return { model, notRewritten: error.message };
  }
}
