/** The texts that a check runs on both models: a short one, one that leaves every window, batches of both. Notes how far results differ. */
import { InsituError } from "#insitu/base/error.js";
import { largestDifference } from "../conformance/compare.js";
import { seededRandom } from "#insitu/graph/call.js";
import { isKnown } from "#insitu/graph/dim.js";
import type { Analysis } from "#insitu/rewrite/analysis.js";
import { vocabularyOf } from "#insitu/rewrite/checking.js";
import type { Reach } from "./reach.js";
import type { View } from "#insitu/tensor/view.js";
import type { FixedDecoder, GrownDecoder, Results, Tokens } from "./decoders.js";

/** One step of a check. */
export interface CheckedStep {
  readonly name: string;
  /** The largest difference, relative where numbers are above 1. */
  readonly difference: number;
}

/** A mask that depends on how far the text has come, and whether the check has seen it from both sides. */
export interface CoveredMask {
  readonly what: string;
  readonly covered: boolean;
  /** Tokens of the longest text that was compared, and how many it takes at least. */
  readonly tokens: number;
  readonly needed: number;
  /** Why not, where it was not. */
  readonly reason?: string;
}

/** Tokens of the longer prompt, tokens decoded after it, and how far is gone back. */
const sizes = { prompt: 7, shorter: 4, decoded: 3, rewound: 5, after: 2 } as const;

/** Tokens of one run of a long text, and of the longest text that is tried in a batch. */
const [walkedTokens, longestBatch] = [64, 512];

/** Tokens to go on behind the edge of a mask: where small differences are let pass, as many as it hides. */
const marginOf = (rows: number, tolerance: number): number =>
  tolerance > 1e-3 ? Math.max(rows, 8) : Math.min(Math.max(rows >> 2, 8), 64);

/** Tokens that it takes to go past all of them. */
export const tokensFor = (reaches: readonly Reach[], tolerance: number): number =>
  Math.max(0, ...reaches.map(({ rows }) => rows + marginOf(rows, tolerance)));

/** One check of two models. */
export class Check {
  readonly #before: GrownDecoder;
  readonly #after: FixedDecoder;
  readonly #analysis: Analysis;
  readonly #token: () => number;
  readonly #steps: CheckedStep[] = [];
  readonly #tolerance: number;
  /** Samples of a run, and the tokens that the model takes at once where it takes no other number. */
  readonly #batch: number;
  readonly #single: number | undefined;

  constructor(
    before: GrownDecoder,
    after: FixedDecoder,
    analysis: Analysis,
    { tolerance, seed }: { readonly tolerance: number; readonly seed: number },
  ) {
    this.#tolerance = tolerance;
    this.#before = before;
    this.#after = after;
    this.#analysis = analysis;
    const { tokens, samples } = analysis;
    this.#batch = isKnown(samples) ? samples : 1;
    this.#single = isKnown(tokens) ? tokens : undefined;
    const random = seededRandom(seed);
    const most = vocabularyOf(analysis);
    this.#token = () => Math.floor(random() * most);
  }

  get steps(): readonly CheckedStep[] {
    return this.#steps;
  }

  /** A short text: prefill, decoding, a rewind, and two prompts of different lengths in one batch. */
  async run(): Promise<void> {
    const single = this.#single;
    this.#start();
    await this.#pass("prefill", sizes.prompt);
    for (let step = 1; step <= sizes.decoded; step++) await this.#pass(`decode ${step}`, single ?? 1);
    this.#rewind(sizes.rewound);
    for (let step = 1; step <= sizes.after; step++) await this.#pass(`decode ${step} after a rewind`, single ?? 1);
    if (!isKnown(this.#analysis.samples) && single === undefined) await this.#ragged([sizes.prompt, sizes.shorter], "");
  }

  /** A text that is long enough to leave every window, its edges token by token, and a batch of such texts; what was covered. */
  async runFar(
    reaches: readonly Reach[],
    { rows, seconds, onProgress }: { rows: number; seconds: number; onProgress: (done: number, total: number) => void },
  ): Promise<CoveredMask[]> {
    const short = sizes.prompt + sizes.decoded;
    const target = tokensFor(reaches, this.#tolerance);
    let [done, why] = [short, ""];
    if (target > short) {
      const room = Math.min(rows, this.#before.capacity ?? Infinity) - sizes.decoded;
      const walk = await this.#walk(Math.min(target, room), seconds, onProgress);
      onProgress(target, target);
      if (walk.done > 0) this.#steps.push({ name: `prefill of ${walk.done}`, difference: walk.difference });
      done = Math.max(short, walk.done);
      why = walk.why ?? (room < target ? `the caches hold ${room + sizes.decoded} rows` : "");
      // Edges token by token, the furthest first: each rewind leaves what the next one needs.
      const edges = reaches.filter((reach) => reach.rows < walk.done).map((reach) => reach.rows);
      for (const edge of new Set([
        walk.done,
        ...edges
          .toReversed()
          .slice(0, 4)
          .map((at) => at - 1),
      ])) {
        if (walk.why !== undefined) break;
        this.#rewind(edge);
        for (let step = 1; step <= sizes.decoded; step++)
          await this.#pass(`decode ${step} after ${edge}`, this.#single ?? 1);
      }
      const inBatch = !isKnown(this.#analysis.samples) && this.#single === undefined && walk.done <= longestBatch;
      if (inBatch && walk.why === undefined)
        await this.#ragged([walk.done, walk.done - sizes.shorter], " of long texts");
    }
    return reaches.map((reach) => {
      // A window is left by the first query that does not see row 0.
      const covered = done > reach.rows;
      const told = { what: reach.what, covered, tokens: done, needed: reach.rows + 1 };
      return covered ? told : { ...told, reason: why };
    });
  }

  /** New tokens in runs of a few, as far as the target, the original and the time allow. */
  async #walk(
    target: number,
    seconds: number,
    onProgress: (done: number, total: number) => void,
  ): Promise<{ readonly done: number; readonly difference: number; readonly why?: string }> {
    const started = performance.now();
    this.#start();
    let [done, difference] = [0, 0];
    while (done < target) {
      if (performance.now() - started > seconds * 1000)
        return { done, difference, why: `its ${seconds} seconds were over after ${done} tokens` };
      const count = this.#single ?? Math.min(walkedTokens, target - done);
      const tokens = this.#tokens(this.#batch, count);
      let expected: Results;
      try {
        expected = await this.#before.run(tokens);
      } catch (error) {
        if (!(error instanceof InsituError)) throw error;
        return { done, difference, why: `the original takes no more than ${done} tokens: ${error.message}` };
      }
      const counts = tokens.map(() => count);
      const span = { counts, starts: counts.map(() => 0), length: count };
      difference = Math.max(difference, this.#compare(expected, await this.#after.run(tokens, counts), span));
      done += count;
      onProgress(done, target);
    }
    return { done, difference };
  }

  #start(): void {
    this.#before.start(new Array<number>(this.#batch).fill(0));
    this.#after.start(this.#batch);
  }

  #rewind(length: number): void {
    this.#before.rewind(length);
    this.#after.rewind(length);
  }

  /** New tokens for all samples, in runs of as many as the model takes at once. */
  async #pass(name: string, count: number): Promise<void> {
    const [batch, single] = [this.#batch, this.#single];
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
  async #ragged(counts: readonly number[], which: string): Promise<void> {
    const [length] = counts;
    const batch = `batch${which}`;
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
      this.#note(`${batch}, prefill`, await this.#before.run(padded), actual[0], { counts, starts: pads, length });
      for (const [at, tokens] of more.entries())
        this.#note(`${batch}, decode ${at + 1}`, await this.#before.run(tokens), actual[at + 1], {
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
        this.#note(`${batch}, sample ${sample + 1}, ${name}`, await this.#before.run([tokens]), only(results), {
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

  #note(name: string, expected: Results, actual: Results, span: Span): void {
    this.#steps.push({ name, difference: this.#compare(expected, actual, span) });
  }

  /** The largest difference of results, row by row. */
  #compare(expected: Results, actual: Results, { counts, starts, length }: Span): number {
    let difference = 0;
    for (const [output, view] of expected) {
      const other = actual.get(output)!;
      counts.forEach((count, sample) => {
        const row = (whole: View, start: number, tokens: number): View => {
          const own = whole.slice(0, sample, sample + 1);
          return whole.rank > 2 && tokens > 1 && whole.shape[1] === tokens ? own.slice(1, start, start + count) : own;
        };
        // One row for the last token alone says nothing of samples that are padded behind it.
        if (other.rank > 2 && other.shape[1] === 1 && count < length) return;
        const before = starts[sample] === 0 && view.shape[1] !== length ? count : length;
        difference = Math.max(difference, largestDifference(row(other, 0, length), row(view, starts[sample], before)));
      });
    }
    return difference;
  }
}

/** Which rows of results belong to tokens: `starts` are the original's first valid rows, `length` the rewritten model's rows. */
interface Span {
  readonly counts: readonly number[];
  readonly starts: readonly number[];
  readonly length: number;
}
