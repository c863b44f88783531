/**
 * A decoder whose texts lie on pages: what contexts, batches and beams do with a state, done with sequences of a block pool. Texts that
 * begin alike share their beginning; forks share all they have in common.
 */
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { checkCount } from "../base/arguments.js";
import { Decoder, type DecoderStep } from "../cache/decoder.js";
import type { Logits } from "../cache/logits.js";
import { type CacheType, pages } from "../cache/pages.js";
import { readBlocks, writeBlocks } from "../cache/page-bytes.js";
import { type PagedEntry, PagedState } from "../cache/paged-state.js";
import { sampler } from "../cache/sampler.js";
import type { Sequence } from "../cache/sequence.js";
import type { BegunRun, Drawing, OneDrawing, TokenDrawer } from "../cache/token-drawer.js";
import type { SessionOptions } from "../session/options.js";
import type { Session } from "../session/session.js";
import { readNumbers } from "../tensor/access.js";
import type { DecoderState, StatefulDecoder, StatefulDrawer } from "./decoder.js";

/** Where texts keep their keys and values. */
export interface CacheOptions {
  /** "linear": one piece of memory for each text. "paged": blocks of one pool, shared by texts that begin alike. */
  readonly cache?: "linear" | "paged";
  /** What pages hold: the model's own type ("same"), or bytes with a scale for each token and head. */
  readonly cacheType?: CacheType;
  /** Rows in a block of pages: 16 where left out. */
  readonly blockSize?: number;
  /** Blocks of the pool: those of four whole contexts where left out. */
  readonly blocks?: number;
}

/** Their names. */
export const cacheOptionNames: OptionNames<CacheOptions> = {
  cache: true,
  cacheType: true,
  blockSize: true,
  blocks: true,
};

/** Options of pages without gaps; the number of blocks may depend on the context. */
interface PagedOptions {
  readonly cacheType: CacheType;
  readonly blockSize: number;
  readonly blocks: number | undefined;
}

/** The options of pages; undefined for linear caches. */
export function readCacheOptions({
  cache = "linear",
  cacheType,
  blockSize,
  blocks,
}: CacheOptions): PagedOptions | undefined {
  if (cache !== "linear" && cache !== "paged")
    throw new InsituError("invalid-argument", `option cache must be "linear" or "paged", got "${String(cache)}"`);
  for (const [name, given] of Object.entries({ cacheType, blockSize, blocks }))
    if (cache === "linear" && given !== undefined)
      throw new InsituError("invalid-argument", `option ${name} is for pages: ask for cache: "paged"`);
  checkCount("option blockSize", blockSize, 1);
  checkCount("option blocks", blocks, 1);
  return cache === "linear" ? undefined : { cacheType: cacheType ?? "same", blockSize: blockSize ?? 16, blocks };
}

/** Columns of tables that texts of any length are given. */
const mostColumns = 256;

/** What a session needs to run on pages; `apart`: every token is to be a sample of its own. */
export const pagedSessionOptions = (
  { cacheType }: PagedOptions,
  apart: boolean,
): Required<Pick<SessionOptions, "rewrite" | "change">> => ({
  rewrite: "never",
  change: sampler((model) => pages({ cacheType, logitRows: true, packed: !apart })(model)),
});

/** What exporters call the last hidden state, [batch, tokens, size]. */
const hiddenOutputs: readonly string[] = ["last_hidden_state", "hidden_states"];

/** A model on pages that predicts the next token. */
export class PagedDecoder implements StatefulDecoder {
  readonly ragged = true;
  readonly overwrites: boolean;
  readonly uneven = true;
  readonly pages: PagedState;
  readonly #decoder: Decoder;
  /** True if every token is read as a sample of its own: what comes of it does not depend on what is read with it. */
  readonly #apart: boolean;

  /** Hands out the last hidden state, where the model does. */
  readonly #hidden: Decoder | undefined;

  /** `context`: the tokens of one text at most; `apart`: a token comes out alike whatever it is read with. */
  constructor(session: Session, { blockSize, blocks }: PagedOptions, context: number, apart = false) {
    this.#apart = apart;
    const hidden = hiddenOutputs.find((name) => session.outputNames.includes(name));
    this.#hidden = hidden === undefined ? undefined : new Decoder(session, { measures: hidden });
    this.#decoder = new Decoder(session, { overwriteLogits: true });
    // A window goes by the order of rows.
    this.overwrites = session.rowRules.window === undefined;
    const most = Math.ceil(context / blockSize);
    this.pages = new PagedState(session, {
      blockSize,
      blocks: blocks ?? 4 * most,
      // One shape for all lengths, where that is not much for short ones.
      columns: Math.min(Math.max(64, most), mostColumns),
    });
  }

  createState(batch: number, capacity: number): PagedTexts {
    const { pool } = this.pages;
    return new PagedTexts(
      this.pages,
      Array.from({ length: batch }, () => pool.add()),
      capacity,
    );
  }

  async run(state: PagedTexts, { tokens, positions, rows, keep }: DecoderStep): Promise<Logits> {
    const reading = takingPart(tokens);
    const entries = reading.map((sample) => ({
      sequence: state.sequences[sample],
      tokens: tokens[sample],
      position: positions[sample],
      ...(rows === undefined ? {} : { rows: { start: rows.start[sample], valid: rows.valid[sample] } }),
    }));
    const logits =
      this.#apart || this.pages.isPacked
        ? await this.#runApart(entries, state, keep)
        : await this.pages.run(entries, ({ state: pools, feeds, last: _last, ...read }) =>
            this.#decoder.run(pools, { ...read, pages: feeds, reader: state, ...(keep === undefined ? {} : { keep }) }),
          );
    return reading.length === tokens.length
      ? logits
      : logits.placed(tokens.map((_, sample) => reading.indexOf(sample)));
  }

  drawer(drawing: Drawing): PagedDrawer | undefined {
    const drawer = this.#apart ? undefined : this.#decoder.drawer(drawing);
    return drawer && new PagedDrawer(this.pages, drawer);
  }

  giveBack({ drawer }: PagedDrawer): void {
    this.#decoder.giveBack(drawer);
  }

  /** Reads tokens of any number of texts in one run, as many of each as there are; the logits after the last one of each. */
  step(entries: readonly PagedEntry[]): Promise<Logits> {
    return this.#runApart(entries, this, 1);
  }

  /** Tokens of several texts that one run should read at most, so that the others need not wait long: a GPU is not busy with few. */
  get usualTokens(): number {
    return this.draws ? 1024 : 256;
  }

  /** True if `stepDrawn` can be asked for. */
  get draws(): boolean {
    return this.#decoder.drawsRows;
  }

  /** The same, and the token after the last one of each text, drawn where the model runs; logits come along where they are asked for. */
  stepDrawn(
    entries: readonly PagedEntry[],
    drawings: readonly OneDrawing[],
    tellsLogits: boolean,
  ): ReturnType<Decoder["runDrawn"]> {
    return this.pages.runApart(entries, async ({ state: pools, feeds, last, ...read }) => {
      const wanted = rowsLike(last, read.tokens.length);
      const all = wanted.map((_, row) => drawings[row] ?? drawings[0]);
      return this.#decoder.runDrawn(pools, { ...read, pages: feeds, wanted }, all, tellsLogits);
    });
  }

  /** True if the model hands out its last hidden state. */
  get givesHidden(): boolean {
    return this.#hidden !== undefined;
  }

  /** Reads tokens of one text; the sum of the last hidden state over them and, one after the other as here, those `before`. */
  sumHidden(entry: PagedEntry, before?: Float64Array): Promise<Float64Array> {
    return this.pages.runApart([entry], async ({ state: pools, feeds, last, ...read }) => {
      const { measured } = await this.#hidden!.runMeasured(pools, { ...read, pages: feeds, wanted: last });
      const rows = readNumbers(measured[0].toView());
      const size = measured[0].dims.at(-1)!;
      const sums = before === undefined ? new Float64Array(size) : Float64Array.from(before);
      for (let at = 0; at < entry.tokens.length * size; at++) sums[at % size] += Number(rows[at]);
      return sums;
    });
  }

  /** Logits after the last `keep` tokens of each text, or of as many as the longest has, for one reader. */
  #runApart(entries: readonly PagedEntry[], reader: object, keep?: number): Promise<Logits> {
    const rows = keep ?? Math.max(...entries.map(({ tokens }) => tokens.length));
    return this.pages.runApart(entries, async ({ state: pools, feeds, last, ...read }) => {
      const ends = last.flatMap((end) => Array.from({ length: rows }, (_, at) => Math.max(0, end - rows + 1 + at)));
      const wanted = rowsLike(ends, read.tokens.length);
      const logits = await this.#decoder.run(pools, { ...read, pages: feeds, wanted, reader });
      return logits.inRows(rows);
    });
  }

  release(): void {
    for (const sequence of this.pages.pool.sequences) sequence.release();
  }
}

/** Rows that are wanted: as many as there are samples, or few numbers that recur, since runs of the same shapes are prepared once. */
function rowsLike(wanted: readonly number[], samples: number): readonly number[] {
  const count = samples <= 32 ? samples : Math.min(samples, 4 ** Math.max(1, Math.ceil(Math.log2(wanted.length) / 2)));
  return [...wanted, ...Array<number>(Math.max(0, count - wanted.length)).fill(wanted[0])];
}

/** Texts without a token take no part in a run. */
const takingPart = (tokens: readonly (readonly number[])[]): number[] =>
  tokens.flatMap(({ length }, sample) => (length > 0 ? [sample] : []));

/**
 * Draws the tokens of texts on pages. Rows are given to a run when it is begun, and are there for the one after it: the device does one
 * after the other. Which tokens they hold is learnt later.
 */
class PagedDrawer implements StatefulDrawer {
  readonly #pages: PagedState;
  /** For decoders. */
  readonly drawer: TokenDrawer;

  constructor(pages: PagedState, drawer: TokenDrawer) {
    this.#pages = pages;
    this.drawer = drawer;
  }

  read(
    { sequences }: PagedTexts,
    tokens: readonly (readonly number[])[],
    positions: readonly number[],
  ): Promise<{ readonly over: Promise<void> }> {
    const entries = takingPart(tokens).map((sample) => ({
      sequence: sequences[sample],
      tokens: tokens[sample],
      position: positions[sample],
    }));
    return this.#pages.run(entries, ({ state, feeds, last, ...step }) =>
      this.drawer.readStep(state, { ...step, pages: feeds, wanted: last }),
    );
  }

  draw(
    { sequences }: PagedTexts,
    tokens: readonly (readonly number[])[] | undefined,
    positions: readonly number[],
    counter: number,
    finished: readonly boolean[] = [],
  ): Promise<BegunRun> {
    const entries = sequences.map((sequence, sample) => ({
      sequence,
      tokens: finished[sample] ? 0 : (tokens?.[sample] ?? 1),
      position: positions[sample],
    }));
    return this.#pages.run(entries, ({ state, feeds, last, ...step }) =>
      this.drawer.drawStep(state, { ...step, pages: feeds, wanted: last }, tokens === undefined, counter),
    );
  }
}

/** Gives back the blocks of texts that were dropped without `release`. */
const dropped = new FinalizationRegistry<readonly Sequence[]>((sequences) => {
  for (const sequence of sequences) sequence.release();
});

/** Texts on pages. */
class PagedTexts implements DecoderState {
  readonly #pages: PagedState;
  readonly #capacity: number;
  readonly sequences: readonly Sequence[];
  readonly countsRows = true;
  readonly #copiesBefore: number;

  /** For decoders. */
  constructor(pages: PagedState, sequences: readonly Sequence[], capacity: number) {
    this.#pages = pages;
    this.sequences = sequences;
    this.#capacity = capacity;
    this.#copiesBefore = pages.pool.copies;
    dropped.register(this, sequences, this);
  }

  get lengths(): readonly number[] {
    return this.sequences.map(({ length }) => length);
  }

  get byteLength(): number {
    return (this.#pages.blockBytes / this.#pages.pool.blockSize) * this.#capacity * this.sequences.length;
  }

  get heldBytes(): number {
    const blocks = new Set(this.sequences.flatMap(({ table }) => table));
    return blocks.size * this.#pages.blockBytes;
  }

  get statistics(): { readonly movedBytes: number } {
    const { copies } = this.#pages.pool;
    return { movedBytes: (copies - this.#copiesBefore) * this.#pages.blockBytes };
  }

  get sharedRows(): number {
    return this.#pages.pool.blockSize;
  }

  rewind(length: number | readonly number[]): void {
    this.sequences.forEach((sequence, sample) =>
      sequence.truncate(typeof length === "number" ? length : length[sample]),
    );
  }

  fork(): PagedTexts {
    return new PagedTexts(
      this.#pages,
      this.sequences.map((sequence) => sequence.fork()),
      this.#capacity,
    );
  }

  share(tokens: readonly number[], sample = 0): number {
    const sequence = this.sequences[sample];
    const known = sequence.position === sequence.tokens.length;
    return known ? sequence.share(tokens) : sequence.length;
  }

  learn(tokens: readonly (number | undefined)[]): void {
    this.sequences.forEach((sequence, sample) => {
      const token = tokens[sample];
      if (token !== undefined) sequence.learn([token]);
    });
  }

  save(): Promise<Uint8Array> {
    return readBlocks(this.#pages, this.sequences);
  }

  async restore(bytes: Uint8Array): Promise<void> {
    writeBlocks(this.#pages, this.sequences, bytes, this.#capacity);
  }

  release(): void {
    dropped.unregister(this);
    for (const sequence of this.sequences) sequence.release();
  }
}
