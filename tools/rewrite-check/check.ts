/**
 * A model and its rewritten form, run side by side on random prompts: prefill, decoding, rewinding, prompts of different lengths in one
 * batch, and a text long enough to leave every window. Tells the largest difference of each step, and which windows were left; decides
 * nothing but whether differences are small enough.
 */
import type { Model } from "#insitu/onnx/model.js";
import { analyse } from "#insitu/rewrite/analysis.js";
import { toleranceOf } from "#insitu/rewrite/checking.js";
import { prepareModel } from "#insitu/rewrite/prepare-model.js";
import { reachesOf } from "./reach.js";
import type { ModelSource } from "#insitu/session/load.js";
import type { SessionOptions } from "#insitu/session/options.js";
import type { Session } from "#insitu/session/session.js";
import { elementCount } from "#insitu/tensor/view.js";
import { FixedDecoder, GrownDecoder } from "./decoders.js";
import { Check, type CheckedStep, type CoveredMask, tokensFor } from "./texts.js";

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
  /** What the rewrite found to be another's masks. */
  readonly foreign?: readonly string[];
  /** Rows of the caches, where the rewritten model says. */
  readonly capacity: number | undefined;
  readonly seed?: number;
  /** Seconds that the long text may take: 60 where left out. */
  readonly seconds?: number;
  /** Hears how many tokens of the long text were compared. */
  readonly onProgress?: (done: number, total: number) => void;
}

/** Runs both models, in sessions that `open` makes. */
export async function checkRewrite(
  {
    model,
    original,
    rewritten,
    externalData = [],
    foreign = [],
    capacity,
    seed = 1,
    seconds = 60,
    onProgress = () => {},
  }: CheckedModels,
  open: (source: ModelSource, options: SessionOptions) => Promise<Session>,
): Promise<CheckResult> {
  const analysis = analyse(prepareModel(model, 24), new Set(foreign));
  const tolerance = toleranceOf(analysis);
  const backend = backendFor(model, tokensFor(reachesOf(analysis, undefined), tolerance));
  const before = await open(original, { backend, presents: "copy" });
  const after = await open(rewritten, { backend, inPlace: "require", externalData });
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

/** Weights up to which the reference implementation is quick enough, and products of weights and tokens. */
const [fewWeights, fewProducts] = [2 ** 23, 2 ** 28];

function backendFor({ graph }: Model, tokens: number): "reference" | "wasm" {
  const weights = graph.initializers.reduce((sum, { dims }) => sum + elementCount(dims), 0);
  return weights <= fewWeights && weights * tokens <= fewProducts ? "reference" : "wasm";
}
