/** A decoder whose texts lie on pages: one run reads tokens of any number of sequences of a block pool. Chooses no token and knows no text. */
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { checkCount } from "../base/arguments.js";
import { Decoder } from "../decoder/decoder.js";
import type { Logits } from "../decoder/logits.js";
import { type CacheType, pages } from "../cache/pages.js";
import { rowsOf } from "../cache/block-pool.js";
import { PagedState } from "../cache/paged-state.js";
import type { PagedEntry } from "../cache/run-entries.js";
import { withDrawnTokens } from "../decoder/model-changes.js";
import type { LongTexts } from "../decoder/whole-model.js";
import type { Sequence } from "../cache/sequence.js";
import type { OneDrawing, TokenDrawer } from "../decoder/token-drawer.js";
import { usualCount } from "../cache/usual-count.js";
import { pooledStatesOf } from "../cache/state-slots.js";
import type { SessionOptions } from "../session/options.js";
import type { Session } from "../session/session.js";
import { readNumbers } from "../tensor/access.js";
import { budget } from "./tuning.js";

/** Options of the KV cache: one buffer for each conversation, or blocks of a shared pool. */
export interface CacheOptions {
  /**
   * Where the KV cache lies. "linear": one buffer for each conversation. "paged": blocks of one pool, which conversations with the same beginning
   * share.
   * @default "linear"
   */
  readonly cache?: "linear" | "paged" | undefined;
  /**
   * The element type of a paged cache: the model's own ("same"), or 8 bits with a scale for each token and head.
   * @default "same"
   */
  readonly cacheType?: CacheType | undefined;
  /**
   * Tokens in one block of a paged cache.
   * @default 16
   */
  readonly blockSize?: number | undefined;
  /**
   * How many blocks the pool of a paged cache has.
   * @default enough for four full contexts
   */
  readonly blocks?: number | undefined;
}

/** Their names. */
export const cacheOptionNames: OptionNames<CacheOptions> = {
  cache: true,
  cacheType: true,
  blockSize: true,
  blocks: true,
};

/** Options of pages without gaps; the number of blocks may depend on the context. */
export interface PagedOptions {
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
  change: withDrawnTokens((model) => pages({ cacheType, logitRows: true, packed: !apart, longTexts: true })(model)),
});

/** What exporters call the last hidden state, [batch, tokens, size]. */
const hiddenOutputs: readonly string[] = ["last_hidden_state", "hidden_states"];

/** What a run reads of one sequence, and what is wanted after it. */
export interface PagedPart {
  readonly sequence: Sequence;
  /** The tokens to read, or how many that the run before drew. */
  readonly tokens: readonly number[] | number;
  readonly position?: number;
  readonly rows?: { readonly start: number; readonly valid: number };
  /** The last tokens whose logits are wanted, where they are. */
  readonly keep: number;
  readonly wantsLogits: boolean;
  /** The output that is handed out beside them. */
  readonly reads?: string | undefined;
  /** How a token is drawn behind each of those; none is where there are none. */
  readonly drawings: readonly OneDrawing[];
  /** The row of the run before that drew the token. */
  readonly from: number | undefined;
}

/** What a run told of each part. */
export interface PagedResult {
  /** The token that was drawn behind the one that comes `fromEnd` tokens before a part's last. */
  readonly tokenOf: (part: number, fromEnd: number) => number;
  /** The logits after the token that comes `fromEnd` tokens before a part's last. */
  readonly logitsOf: (part: number, fromEnd: number) => Float32Array;
  /** The row of what is handed out beside them, where that was asked for. */
  readonly hiddenOf?: ((part: number, fromEnd: number) => Float32Array) | undefined;
}

/** Runs that were begun. */
interface BegunPages {
  /** The row of logits behind each part's last token. */
  readonly rows: readonly number[];
  readonly results: Promise<readonly PagedResult[]>;
}

/** What texts on pages may be. */
interface PagedTexts {
  /** Tokens of one text at most. */
  readonly context: number;
  /** Those that are read otherwise, where there are such. */
  readonly longTexts: LongTexts | undefined;
  /** True if a token is to come out alike whatever it is read with. */
  readonly apart: boolean;
}

/** A model on pages that predicts the next token. */
export class PagedDecoder {
  /** True if new rows may be written over old ones. */
  readonly overwrites: boolean;
  readonly pages: PagedState;
  /** Texts whose positions are fed further on, where the model has such. */
  readonly longTexts: LongTexts | undefined;
  /** True if what was begun goes on by itself. */
  readonly goesAhead: boolean;
  /** Resolves once the device is gone, with why; undefined where there is none. */
  readonly lost: Promise<InsituError> | undefined;
  readonly #decoder: Decoder;
  readonly #busyRows: number;
  /** True if every token is read as a sample of its own: what comes of it does not depend on what is read with it. */
  readonly #apart: boolean;
  /** Hands out the last hidden state, where the model does. */
  readonly #hidden: Decoder | undefined;

  constructor(session: Session, { blockSize, blocks }: PagedOptions, { context, longTexts, apart }: PagedTexts) {
    const keepsStates = pooledStatesOf(session).names.length > 0;
    if (apart && keepsStates)
      throw new InsituError(
        "invalid-argument",
        'option batchInvariant has every token of pages be a sample of its own, and the model has recurrent states, which read a text in order: load it with cache: "linear"',
      );
    this.#apart = apart;
    this.longTexts = longTexts;
    this.goesAhead = session.isDevice;
    this.#busyRows = session.busyRows?.usual ?? 0;
    this.lost = session.lost;
    const hidden = hiddenOutputs.find((name) => session.outputNames.includes(name));
    this.#hidden = hidden === undefined ? undefined : new Decoder(session, { measures: hidden });
    this.#decoder = new Decoder(session, { overwriteLogits: true });
    // A window goes by the order of rows.
    this.overwrites = session.rowRules.window === undefined && !keepsStates;
    const most = Math.ceil(context / blockSize);
    this.pages = new PagedState(session, {
      blockSize,
      blocks: blocks ?? 4 * most,
      // One shape for all lengths, where that is not much for short ones.
      columns: Math.min(Math.max(64, most), mostColumns),
    });
  }

  /** Tokens of several texts that one run should read at most, so that the others need not wait long: a GPU is not busy with few. */
  get usualTokens(): number {
    return this.goesAhead ? budget.deviceStep : budget.hostStep;
  }

  /** The same of a run that nobody waits for with a text that comes. */
  get promptTokens(): number {
    return Math.max(this.usualTokens, this.#busyRows);
  }

  /** True if tokens can be drawn where the model runs. */
  get draws(): boolean {
    return this.pages.isPacked && this.#decoder.draws;
  }

  /** True if they can be drawn behind each token. */
  get checks(): boolean {
    return this.draws && this.#decoder.picksRows;
  }

  /** Draws the tokens of runs that follow each other, where `draws`. */
  drawer(): TokenDrawer {
    return this.#decoder.drawer();
  }

  /** Rows of a run that reads one token of each of `texts` texts. */
  rowsFor(texts: number): readonly number[] {
    return Array.from({ length: usualCount(texts) }, (_, row) => row);
  }

  /**
   * Begins a run, or `count` of which each reads the tokens that the one before drew; on a host it is over when this resolves. `drawer` draws, where a part
   * asks for it. Logits are read before the next run of the same `reader`.
   */
  begin(
    parts: readonly PagedPart[],
    drawer: TokenDrawer | undefined,
    count: number,
    reader: object = this,
  ): Promise<BegunPages> {
    const tellsLogits = parts.some(({ wantsLogits }) => wantsLogits);
    const hands = parts.find(({ reads }) => reads !== undefined)?.reads;
    if (this.pages.states !== undefined || (!this.#apart && !this.pages.isPacked))
      return this.pages.run(parts, async ({ state, feeds, last: _last, ...read }) => {
        const keep = Math.max(...parts.map((part) => part.keep));
        const { results } = await this.#decoder.start(
          state,
          { ...read, pages: feeds, reader, keep, hands },
          tellsLogits,
        );
        const told = results.then((logits) => [
          {
            tokenOf: noToken,
            logitsOf: (part: number, fromEnd: number) => logits!.at(fromEnd, part),
            hiddenOf: rowsOfParts(logits, (hidden, part, fromEnd) => hidden.at(fromEnd, part)),
          },
        ]);
        return { rows: parts.map((_, at) => at), results: quiet(told) };
      });
    return this.pages.runApart(
      parts,
      async ({ state, feeds, last, ...read }, later) => {
        const { ends, rows } = wantedRows(parts, last);
        const wanted = rowsLike(ends, read.tokens.length);
        const step = { ...read, pages: feeds, wanted, reader, hands };
        const resultOf = (tokens: readonly number[], logits: Logits | undefined): PagedResult => ({
          tokenOf: (part, fromEnd) => tokens[rows[part] - fromEnd],
          logitsOf: (part, fromEnd) => logits!.at(0, rows[part] - fromEnd),
          hiddenOf: rowsOfParts(logits, (hidden, part, fromEnd) => hidden.row(last[part] - fromEnd)),
        });
        if (drawer === undefined) {
          const { results } = await this.#decoder.start(state, step, tellsLogits);
          return { rows, results: quiet(results.then((logits) => [resultOf([], logits)])) };
        }
        const [usual] = parts.flatMap((part) => part.drawings);
        const own = parts.flatMap((part) => (part.drawings.length > 0 ? part.drawings : Array(part.keep).fill(usual)));
        const drawings = wanted.map((_, row): OneDrawing => own[row] ?? usual);
        const hostRows = parts.flatMap(({ wantsLogits, keep }, at) =>
          wantsLogits ? Array.from({ length: keep }, (_, row) => rows[at] - keep + 1 + row) : [],
        );
        const ask = { drawings, from: sourcesOf(parts, read.tokens.length), hostRows };
        const steps = later.map(({ feeds: own, last: _last, ...other }) => ({ ...other, pages: own, wanted }));
        const { results } = await drawer.begin(state, step, ask, steps);
        return { rows, results: quiet(results.then((all) => all.map((run) => resultOf(run.tokens, run.logits)))) };
      },
      count,
    );
  }

  /** Reads tokens of any number of texts in one run, as many of each as there are; the logits after the last one of each. */
  async step(entries: readonly PagedEntry[]): Promise<readonly Float32Array[]> {
    const asked = { keep: 1, wantsLogits: true, drawings: [], from: undefined };
    const { results } = await this.begin(
      entries.map((entry) => ({ ...entry, ...asked })),
      undefined,
      1,
    );
    const [{ logitsOf }] = await results;
    return entries.map((_, at) => logitsOf(at, 0));
  }

  /** True if the model hands out its last hidden state. */
  get givesHidden(): boolean {
    return this.#hidden !== undefined;
  }

  /** Reads tokens of one text; the sum of the last hidden state over them and, one after the other as here, those `before`. */
  sumHidden(entry: Pick<PagedPart, "sequence" | "tokens">, before: Float64Array | undefined): Promise<Float64Array> {
    return this.pages.runApart([entry], async ({ state, feeds, last, ...read }) => {
      const { measured } = await this.#hidden!.runMeasured(state, { ...read, pages: feeds, wanted: last });
      const rows = readNumbers(measured[0].toView());
      const size = measured[0].dims.at(-1)!;
      const sums = before === undefined ? new Float64Array(size) : Float64Array.from(before);
      for (let at = 0; at < rowsOf(entry.tokens) * size; at++) sums[at % size] += Number(rows[at]);
      return sums;
    });
  }

  release(): void {
    for (const sequence of this.pages.pool.sequences) sequence.release();
  }
}

/** The rows beside logits, where there are any. */
const rowsOfParts = (
  logits: Logits | undefined,
  row: (hidden: Logits, part: number, fromEnd: number) => Float32Array,
): PagedResult["hiddenOf"] => {
  const hidden = logits?.hidden;
  return hidden && ((part, fromEnd) => row(hidden, part, fromEnd));
};

/** Of a run that draws none. */
export const noToken = (): number => -1;

/** The tokens whose logits are wanted, by their numbers among all, and which of them is the last of each part. */
function wantedRows(
  parts: readonly PagedPart[],
  last: readonly number[],
): { readonly ends: readonly number[]; readonly rows: readonly number[] } {
  const ends: number[] = [];
  const rows = parts.map(({ keep }, part) => {
    for (let at = keep - 1; at >= 0; at--) ends.push(last[part] - at);
    return ends.length - 1;
  });
  return { ends, rows };
}

/** For each token the row of the run before that drew it; tokens that fill up are read like those of the texts. Undefined where none was drawn. */
function sourcesOf(parts: readonly PagedPart[], count: number): readonly (number | undefined)[] | undefined {
  if (parts.every(({ from }) => from === undefined)) return undefined;
  const sources = parts.flatMap(({ tokens, from }) =>
    typeof tokens === "number" ? [from] : tokens.map(() => undefined),
  );
  const isAsLeft = sources.every((row, at) => row === at);
  for (let at = sources.length; at < count; at++) sources.push(isAsLeft ? at : undefined);
  return sources;
}

/** Rows that are wanted, filled up to few numbers that recur: runs of the same shapes are prepared once. */
function rowsLike(wanted: readonly number[], samples: number): readonly number[] {
  const count = Math.min(samples, 4 ** Math.max(1, Math.ceil(Math.log2(wanted.length) / 2)));
  return [...wanted, ...Array<number>(Math.max(0, count - wanted.length)).fill(wanted[0])];
}

/** A promise that nobody has to wait for. */
function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}
