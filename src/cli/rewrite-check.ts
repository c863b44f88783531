/**
 * A model and its rewritten form, run side by side on random prompts: prefill, decoding, rewinding, and prompts of different lengths in one
 * batch. Tells the largest difference of each step; decides nothing but whether they are small enough.
 */
import { InferenceSession } from "../entry/node.js";
import { seededRandom } from "../graph/call.js";
import { isKnown } from "../graph/dim.js";
import type { Value } from "../graph/graph.js";
import type { Model } from "../onnx/model.js";
import { analyse, type Analysis } from "../rewrite/analysis.js";
import { prepareModel } from "../rewrite/prepare-model.js";
import type { ModelSource } from "../session/load.js";
import type { SessionOptions } from "../session/options.js";
import { readNumbers } from "../tensor/access.js";
import { elementCount, type View } from "../tensor/view.js";
import { FixedDecoder, GrownDecoder, type Results, type Tokens } from "./rewrite-check-decoders.js";

/** One step of a check. */
export interface CheckedStep {
  readonly name: string;
  /** The largest difference, relative where numbers are above 1. */
  readonly difference: number;
}

/** What a check found. */
export interface CheckResult {
  readonly steps: readonly CheckedStep[];
  readonly tolerance: number;
  readonly passed: boolean;
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
}

/** Tokens of the longer prompt, tokens decoded after it, and how far is gone back. */
const sizes = { prompt: 7, shorter: 4, decoded: 3, rewound: 5, after: 2 } as const;

/** Runs both models. */
export async function checkRewrite({
  model,
  original,
  rewritten,
  externalData = [],
  capacity = 32,
  seed = 1,
}: CheckedModels): Promise<CheckResult> {
  const analysis = analyse(prepareModel(model, 24));
  const backend = backendFor(model);
  const before = await InferenceSession.create(original, { backend });
  const after = await InferenceSession.create(rewritten, { backend, inPlace: "require", externalData });
  try {
    const tolerance = toleranceOf(analysis);
    const [grown, fixed] = [new GrownDecoder(before, analysis), new FixedDecoder(after, analysis, capacity)];
    const steps = await new Check(grown, fixed, analysis, tolerance, seed).run();
    return { steps, tolerance, passed: steps.every(({ difference }) => difference <= tolerance) };
  } finally {
    await before.release();
    await after.release();
  }
}

/** Weights up to which the slow truth is quick enough. */
const fewWeights = 2 ** 23;

function backendFor({ graph }: Model): "reference" | "wasm" {
  const weights = graph.initializers.reduce((sum, { dims }) => sum + elementCount(dims), 0);
  return weights <= fewWeights ? "reference" : "wasm";
}

/** Models that compute in fewer bits, or quantize what they compute, differ by more. */
function toleranceOf({ graph, trails, attentions }: Analysis): number {
  const calls = (...names: readonly string[]): boolean => graph.nodes.some(({ op }) => names.includes(op.name));
  if (calls("DynamicQuantizeLinear", "MatMulInteger")) return 5e-2;
  const types = [...trails.map(({ past }) => past.fact?.type), ...attentions.map(({ query }) => query.type)];
  if (types.some((type) => type !== "float32")) return 3e-2;
  return calls("MatMulNBits") ? 2e-2 : 2e-4;
}

class Check {
  readonly #before: GrownDecoder;
  readonly #after: FixedDecoder;
  readonly #analysis: Analysis;
  readonly #token: () => number;
  readonly #steps: CheckedStep[] = [];
  readonly #tolerance: number;

  constructor(before: GrownDecoder, after: FixedDecoder, analysis: Analysis, tolerance: number, seed: number) {
    this.#tolerance = tolerance;
    this.#before = before;
    this.#after = after;
    this.#analysis = analysis;
    const random = seededRandom(seed);
    const most = vocabularyOf(analysis);
    this.#token = () => Math.floor(random() * most);
  }

  async run(): Promise<CheckedStep[]> {
    const { tokens, samples } = this.#analysis;
    const batch = isKnown(samples) ? samples : 1;
    const single = isKnown(tokens) ? tokens : undefined;
    this.#before.start(new Array<number>(batch).fill(0));
    this.#after.start(batch);
    await this.#pass("prefill", batch, sizes.prompt, single);
    for (let step = 1; step <= sizes.decoded; step++) await this.#pass(`decode ${step}`, batch, single ?? 1, single);
    this.#before.rewind(sizes.rewound);
    this.#after.rewind(sizes.rewound);
    for (let step = 1; step <= sizes.after; step++)
      await this.#pass(`decode ${step} after a rewind`, batch, single ?? 1, single);
    if (!isKnown(samples) && single === undefined) await this.#ragged();
    return this.#steps;
  }

  /** New tokens for all samples, in runs of as many as the model takes at once. */
  async #pass(name: string, batch: number, count: number, single: number | undefined): Promise<void> {
    const runs = single === undefined ? [count] : new Array<number>(Math.ceil(count / single)).fill(single);
    for (const [at, length] of runs.entries()) {
      const tokens = this.#tokens(batch, length);
      const counts = tokens.map(() => length);
      const [expected, actual] = [await this.#before.run(tokens), await this.#after.run(tokens, counts)];
      const starts = counts.map(() => 0);
      this.#note(runs.length === 1 ? name : `${name}, run ${at + 1}`, expected, actual, { counts, starts, length });
    }
  }

  /** Two prompts of different lengths: padded in front for the original where it has a mask, each by itself where not. */
  async #ragged(): Promise<void> {
    const counts = [sizes.prompt, sizes.shorter];
    const length = sizes.prompt;
    const prompts = counts.map((count) => this.#tokens(1, count)[0]);
    const more = Array.from({ length: sizes.after }, () => this.#tokens(2, 1));
    const packed = prompts.map((row) => [...row, ...new Array<number>(length - row.length).fill(0)]);
    this.#after.start(2);
    const actual = [await this.#after.run(packed, counts)];
    for (const tokens of more) actual.push(await this.#after.run(tokens, [1, 1]));
    const noted = this.#steps.length;
    if (this.#analysis.masks.length > 0) {
      const pads = counts.map((count) => length - count);
      this.#before.start(pads);
      const padded = prompts.map((row, sample) => [...new Array<number>(pads[sample]).fill(0), ...row]);
      this.#note("batch, prefill", await this.#before.run(padded), actual[0], { counts, starts: pads, length });
      for (const [at, tokens] of more.entries())
        this.#note(`batch, decode ${at + 1}`, await this.#before.run(tokens), actual[at + 1], {
          counts: [1, 1],
          starts: [0, 0],
          length: 1,
        });
      if (this.#steps.slice(noted).every(({ difference }) => difference <= this.#tolerance)) return;
      // A model may count padding among its positions: then only samples by themselves tell what is right.
      this.#steps.length = noted;
    }
    for (const [sample, prompt] of prompts.entries()) {
      this.#before.start([0]);
      const only = (results: Results): Results =>
        new Map([...results].map(([name, view]) => [name, view.slice(0, sample, sample + 1)]));
      const note = async (name: string, tokens: readonly number[], results: Results, span: number): Promise<void> =>
        this.#note(`batch, sample ${sample + 1}, ${name}`, await this.#before.run([tokens]), only(results), {
          counts: [tokens.length],
          starts: [0],
          length: span,
        });
      await note("prefill", prompt, actual[0], length);
      for (const [at, tokens] of more.entries()) await note(`decode ${at + 1}`, tokens[sample], actual[at + 1], 1);
    }
  }

  #tokens(batch: number, count: number): Tokens {
    return Array.from({ length: batch }, () => Array.from({ length: count }, this.#token));
  }

  /** Compares results row by row; `starts` are the original's first valid rows, `length` the rewritten model's rows. */
  #note(
    name: string,
    expected: Results,
    actual: Results,
    {
      counts,
      starts,
      length,
    }: { readonly counts: readonly number[]; readonly starts: readonly number[]; readonly length: number },
  ): void {
    let difference = 0;
    for (const [output, view] of expected) {
      const other = actual.get(output)!;
      counts.forEach((count, sample) => {
        const row = (whole: View, start: number): View => {
          const own = whole.slice(0, sample, sample + 1);
          return whole.rank > 2 && whole.shape[1] > 1 ? own.slice(1, start, start + count) : own;
        };
        // One row for the last token alone says nothing of samples that are padded behind it.
        if (other.rank > 2 && other.shape[1] === 1 && count < length) return;
        difference = Math.max(difference, largestDifference(row(view, starts[sample]), row(other, 0)));
      });
    }
    this.#steps.push({ name, difference });
  }
}

function largestDifference(expected: View, actual: View): number {
  const [a, b] = [readNumbers(expected), readNumbers(actual)];
  let largest = 0;
  for (let at = 0; at < a.length; at++) {
    const gap = Math.abs(a[at] - b[at]) / Math.max(1, Math.abs(a[at]));
    // What is no number in one of them only is as far off as can be.
    if (!(gap <= largest))
      largest =
        Number.isNaN(gap) && Number.isNaN(a[at]) === Number.isNaN(b[at]) ? largest : gap > largest ? gap : Infinity;
  }
  return largest;
}

/** Tokens that the model has embeddings for: the rows of the tables that its inputs look up. */
function vocabularyOf({ graph, index }: Analysis): number {
  let most = Infinity;
  const visit = (value: Value, depth: number): void => {
    for (const node of index.readersOf(value)) {
      const rows = node.inputs[0]?.fact?.shape?.[0];
      if (node.op.name.startsWith("Gather") && node.inputs[1] === value && rows !== undefined && isKnown(rows))
        most = Math.min(most, rows);
      else if (depth < 4 && ["Reshape", "Cast", "Identity"].includes(node.op.name)) visit(node.outputs[0]!, depth + 1);
    }
  };
  for (const value of graph.inputs) if (!/position|mask/i.test(value.name)) visit(value, 0);
  return Number.isFinite(most) ? most : 16;
}
