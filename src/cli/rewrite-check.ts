/**
 * A model and its rewritten form, run side by side on random prompts: prefill, decoding, rewinding, prompts of different lengths in one
 * batch, and a text long enough to leave every window. Tells the largest difference of each step, and which windows were left; decides
 * nothing but whether differences are small enough.
 */
import { InferenceSession } from "../entry/node.js";
import type { Model } from "../onnx/model.js";
import { analyse, type Analysis } from "../rewrite/analysis.js";
import { prepareModel } from "../rewrite/prepare-model.js";
import type { ModelSource } from "../session/load.js";
import type { SessionOptions } from "../session/options.js";
import { elementCount } from "../tensor/view.js";
import { FixedDecoder, GrownDecoder } from "./rewrite-check-decoders.js";
import { reachesOf } from "./rewrite-check-reach.js";
import { Check, type CheckedStep, type CoveredMask, tokensFor } from "./rewrite-check-run.js";

/** What a check found. */
export interface CheckResult {
  readonly steps: readonly CheckedStep[];
  readonly tolerance: number;
  readonly passed: boolean;
  /** Windows and other masks that a short text does not show. */
  readonly masks: readonly CoveredMask[];
}

/** The two forms of a model: one to look at, both to run. */
export interface CheckedModels {
  readonly model: Model;
  readonly original: ModelSource;
  readonly rewritten: ModelSource;
  /** The files of the rewritten model's weights, where they do not lie beside it. */
  readonly externalData?: SessionOptions["externalData"];
  /** Rows of the caches, where the rewritten model says. */
  readonly capacity: number | undefined;
  readonly seed?: number;
  /** Seconds that the long text may take: 60 where left out. */
  readonly seconds?: number;
  /** Hears how many tokens of the long text were compared. */
  readonly onProgress?: (done: number, total: number) => void;
}

/** Runs both models. */
export async function checkRewrite({
  model,
  original,
  rewritten,
  externalData = [],
  capacity,
  seed = 1,
  seconds = 60,
  onProgress = () => {},
}: CheckedModels): Promise<CheckResult> {
  const analysis = analyse(prepareModel(model, 24));
  const tolerance = toleranceOf(analysis);
  const backend = backendFor(model, tokensFor(reachesOf(analysis, undefined), tolerance));
  const before = await InferenceSession.create(original, { backend });
  const after = await InferenceSession.create(rewritten, { backend, inPlace: "require", externalData });
  try {
    const reaches = reachesOf(analysis, after.rowRules.window);
    const rows = capacity ?? Math.max(32, tokensFor(reaches, tolerance) + 8);
    const check = new Check(new GrownDecoder(before, analysis), new FixedDecoder(after, analysis, rows), analysis, {
      tolerance,
      seed,
    });
    await check.run();
    const masks = await check.runFar(reaches, { rows, seconds, onProgress });
    const { steps } = check;
    return { steps, tolerance, passed: steps.every(({ difference }) => difference <= tolerance), masks };
  } finally {
    await before.release();
    await after.release();
  }
}

/** Weights up to which the slow truth is quick enough, and products of weights and tokens. */
const [fewWeights, fewProducts] = [2 ** 23, 2 ** 28];

function backendFor({ graph }: Model, tokens: number): "reference" | "wasm" {
  const weights = graph.initializers.reduce((sum, { dims }) => sum + elementCount(dims), 0);
  return weights <= fewWeights && weights * tokens <= fewProducts ? "reference" : "wasm";
}

/** Models that compute in fewer bits, or quantize what they compute, differ by more. */
function toleranceOf({ graph, trails, attentions }: Analysis): number {
  const calls = (...names: readonly string[]): boolean => graph.nodes.some(({ op }) => names.includes(op.name));
  if (calls("DynamicQuantizeLinear", "MatMulInteger")) return 5e-2;
  const types = [...trails.map(({ past }) => past.fact?.type), ...attentions.map(({ query }) => query.type)];
  if (types.some((type) => type !== "float32")) return 3e-2;
  return calls("MatMulNBits") ? 2e-2 : 2e-4;
}
