/**
 * Sequences of different lengths on one set of pages: a session's state that holds the pools of all layers, and the block pool that
 * decides which rows are whose. One run reads tokens of any number of sequences. Chooses no token and knows no text.
 */
import { checkCount, checkFlag, checkList, checkNumbers, checkObject, checkOptions } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { Session } from "../session/session.js";
import type { State } from "../session/state.js";
import { readNumbers } from "../tensor/access.js";
import type { Tensor } from "../tensor/tensor.js";
import { type AppendEntry, BlockPool, type BlockPoolOptions, rowsOf } from "./block-pool.js";
import { Decoder } from "../decoder/decoder.js";
import { checkSequence, checkStateArguments, checkTokens, pagedStateOptionNames } from "./given.js";
import type { Logits } from "../decoder/logits.js";
import { keepRows, pageLayout } from "./page-bytes.js";
import {
  apartBatch,
  type BatchFeeds,
  filledBatch,
  packedBatch,
  paddedBatch,
  type SequenceRows,
} from "./paged-batch.js";
import { applyPolicy, checkBudget, type EvictionPolicy, rowsInBlocks } from "./eviction.js";
import { packedInput, pageInputs, sumsName } from "../rewrite/page-names.js";
import { RowChecks } from "./row-checks.js";
import type { Sequence } from "./sequence.js";
import { Mutex } from "./mutex.js";

/** How pages are made. */
export interface PagedStateOptions extends Omit<BlockPoolOptions, "copy" | "blockSize"> {
  /** Rows in a block: 16 where left out. */
  readonly blockSize?: number;
  /** Blocks of a sequence that tables have room for from the beginning: 64 where left out. Longer ones make tables, and programs, of other shapes. */
  readonly columns?: number;
}

/** Tokens that a run reads for one sequence. */
export interface PagedEntry {
  /** Whose tokens they are. */
  readonly sequence: Sequence;
  /** The tokens to read. */
  readonly tokens: readonly number[];
  /** The position of the first token; where the sequence goes on when left out. */
  readonly position?: number;
  /** Rows to write again and how many are valid then, in place of new ones. */
  readonly rows?: { readonly start: number; readonly valid: number };
}

/** The same, or how many tokens, where the host does not know them: the body of the run feeds them, and `learn` tells the sequence later. */
interface RunEntry extends Omit<PagedEntry, "tokens"> {
  readonly tokens: readonly number[] | number;
}

/** One run: what a decoder is fed beside what it alone knows. */
export interface PagedBatch extends BatchFeeds {
  /** The state to run with. */
  readonly state: State;
}

/** Makes a run's feeds. */
type BatchMaker = (sequences: readonly SequenceRows[], columns: number) => BatchFeeds;

/** What a sequence's tokens led to. */
export interface PagedLogits {
  /** After the last token. */
  readonly last: Float32Array;
  /** After each token, one row after another; only the last where the model keeps no more. */
  readonly rows: Float32Array;
}

/** What an eviction did to a sequence. */
export interface Evicted {
  /** Rows that stay. */
  readonly kept: number;
  /** Of these, rows that the policy let go of: fewer than a block has. */
  readonly spared: number;
  /** Rows that moved to another place in a block. */
  readonly moved: number;
  /** Blocks that the sequence gave back. */
  readonly blocks: number;
}

/** The pages of a model. */
export class PagedState {
  /** The blocks, and who has them. */
  readonly pool: BlockPool;
  readonly #state: State;
  readonly #session: Session;
  readonly #checks: RowChecks;
  /** For steps; made when one is asked for, since runs with a body of the caller's may be of any model. */
  #decoder: Decoder | undefined;
  readonly #layout: "Norm" | "NHSD";
  readonly #columns: number;
  /** True if the model takes packed batches: every run is one. */
  readonly isPacked: boolean;
  /** Runs and evictions take turns. */
  readonly #turns = new Mutex();

  /** Pages for a session whose model reads and writes them. */
  constructor(session: Session, given: PagedStateOptions) {
    checkStateArguments("a paged state", session, given, pagedStateOptionNames);
    const { blockSize = 16, columns = 64, ...options } = given;
    checkCount("option columns", columns, 1);
    this.#columns = columns;
    const missing = Object.values(pageInputs).find((name) => !session.inputNames.includes(name));
    if (missing !== undefined)
      throw new InsituError(
        "invalid-argument",
        `the model has no input "${missing}": load it on pages, InferenceSession.create(path, { change: pages() })`,
      );
    this.pool = new BlockPool({ ...options, blockSize, copy: (from, to) => this.#state.copyPart(from, to) });
    this.#session = session;
    this.#checks = new RowChecks(session);
    this.#state = session.createState({ dims: { num_blocks: options.blocks, block_size: blockSize } });
    this.#layout = pageLayout(session, this.#state);
    this.isPacked = session.inputNames.includes(packedInput);
  }

  /** The pools of all layers, as the session holds them. */
  get state(): State {
    return this.#state;
  }

  /** Bytes of all pools. */
  get byteLength(): number {
    return this.#state.byteLength;
  }

  /** Bytes of one block in all layers. */
  get blockBytes(): number {
    return this.#state.byteLength / this.pool.blocks;
  }

  /** A new sequence; what others have read of its tokens is taken over, and need not be read again: see its length. */
  add(name?: string, tokens: readonly number[] = []): Sequence {
    checkNumbers("the tokens of a sequence", tokens);
    const sequence = this.pool.add(name);
    // The last token must be read: its logits are wanted.
    if (tokens.length > 1) sequence.share(tokens.slice(0, -1));
    return sequence;
  }

  /** Reads tokens of several sequences in one run; the logits after them. */
  async step(entries: readonly PagedEntry[]): Promise<PagedLogits[]> {
    this.#checkEntries(entries);
    for (const { sequence, tokens } of entries) checkTokens(`sequence "${sequence.name}"`, tokens);
    return this.run(entries, async ({ state, feeds, last, ...reading }) => {
      this.#decoder ??= new Decoder(this.#session, { measures: sumsName("") });
      // In a packed batch every token is a sample of the logits.
      const wanted = this.isPacked ? { wanted: reading.tokens.map((_, token) => token) } : {};
      const { logits, measured } = await this.#decoder.runMeasured(state, { ...reading, ...wanted, pages: feeds });
      for (const sums of measured) addSums(sums, entries);
      return entries.map(({ tokens }, at) =>
        this.isPacked
          ? { last: logits.at(0, last[at]), rows: rowsBefore(logits, last[at], tokens.length) }
          : { last: logits.at(0, at), rows: logits.last(tokens.length, at) },
      );
    });
  }

  /**
   * Makes room for tokens, runs `body`, and keeps what it wrote; where it throws, the sequences are as before. Calls take turns. Where the model
   * takes packed batches, a sequence that reads no token has one that is written nowhere.
   */
  async run<T>(entries: readonly RunEntry[], body: (batch: PagedBatch) => Promise<T>): Promise<T> {
    return this.#take(entries, body, this.isPacked ? packedBatch : paddedBatch);
  }

  /**
   * The same without padding between sequences that read many tokens and such that read one: a packed batch where the model takes it, else with every
   * token a sample of its own, which sees the rows up to its own and is computed alike whatever it is read with. A few tokens of nobody fill up to
   * a number that recurs: runs of the same shapes are prepared once. With a `count` there is room for so many runs that each read one token of
   * every sequence, and `body` is given what the later ones are fed in place of what the first is.
   */
  async runApart<T>(
    entries: readonly RunEntry[],
    body: (batch: PagedBatch, later: readonly BatchFeeds[]) => Promise<T>,
    count = 1,
  ): Promise<T> {
    return this.#take(entries, body, this.isPacked ? filledBatch : apartBatch, count);
  }

  async #take<T>(
    entries: readonly RunEntry[],
    body: (batch: PagedBatch, later: readonly BatchFeeds[]) => Promise<T>,
    batchOf: BatchMaker,
    count = 1,
  ): Promise<T> {
    this.#checkEntries(entries);
    if (typeof body !== "function")
      throw new InsituError("invalid-argument", `a run needs a function, got ${valueText(body)}`);
    const leave = await this.#turns.enter();
    const before = entries.map(({ sequence }) => [sequence.length, sequence.position] as const);
    try {
      const positions = entries.map(({ sequence, position }) => position ?? sequence.position);
      // A sequence that was evicted, and cut since, may have its gap among the latest rows.
      for (const { sequence, rows } of entries)
        if (rows === undefined)
          this.#checks.requireWindow(
            sequence.length,
            (row) => sequence.positionOf(row),
            sequence.position,
            `sequence "${sequence.name}" of ${sequence.length} rows`,
          );
      const slots = this.#reserve(count === 1 ? entries : entries.map((entry) => ({ ...entry, tokens: count })));
      const columns = this.#columnsOf(entries);
      const rows = entries.map((entry, at) => this.#rowsOf(entry, positions[at], slots[at]));
      const [batch, ...later] = Array.from({ length: count }, (_, run) =>
        batchOf(count === 1 ? rows : rows.map((own) => rowsInRun(own, run, count)), columns),
      );
      const result = await body({ ...batch, state: this.#state }, later);
      for (const { sequence, rows: again } of entries) if (again === undefined) sequence.commit();
      return result;
    } catch (error) {
      for (const [at, { sequence }] of entries.entries())
        if (sequence.length > before[at][0]) sequence.truncate(...before[at]);
      throw error;
    } finally {
      leave();
    }
  }

  /** Throws for entries that cannot be run: before a turn is taken, which others wait for. */
  #checkEntries(entries: readonly RunEntry[]): void {
    checkList("the entries of a run", entries);
    if (entries.length === 0) throw new InsituError("invalid-argument", "a run needs at least one sequence");
    for (const entry of entries) {
      checkObject("an entry of a run", entry);
      checkSequence("an entry of a run", entry.sequence);
      if (typeof entry.tokens === "number") checkCount("the tokens of an entry", entry.tokens);
      else checkTokens(`sequence "${entry.sequence.name}"`, entry.tokens);
      checkCount("the position of an entry", entry.position);
      if (entry.rows === undefined) continue;
      checkObject("the rows of an entry", entry.rows);
      for (const name of ["start", "valid"] as const)
        if (!Number.isSafeInteger(entry.rows[name]) || entry.rows[name] < 0)
          throw new InsituError(
            "invalid-argument",
            `rows.${name} of an entry must be a whole number from 0 on, got ${valueText(entry.rows[name])}`,
          );
    }
  }

  /**
   * Keeps only some rows of a sequence: whole blocks are given back, the rows that are left move together. How many moved. It takes its turn
   * among the runs.
   */
  async keep(sequence: Sequence, rows: readonly number[]): Promise<number> {
    checkSequence("keep", sequence);
    return this.#turns.take(() => keepRows(this.#state, sequence, rows, this.#layout));
  }

  /**
   * Lets a policy choose which rows of a sequence stay, `budget` of them: all that it names do. Room is given back in whole blocks, so
   * that fewer rows than a block has stay beside them; with `exact` none do. Rows move only where blocks cannot stay whole. A sequence
   * within its budget stays as it is. It takes its turn among the runs.
   */
  async evict(
    sequence: Sequence,
    policy: EvictionPolicy,
    options: { readonly budget: number; readonly exact?: boolean },
  ): Promise<Evicted> {
    checkSequence("evict", sequence);
    checkOptions("the options of evict", options, { budget: true, exact: true });
    const { budget, exact = false } = options;
    checkFlag("option exact", exact);
    return this.#turns.take(() => this.#evict(sequence, policy, budget, exact));
  }

  async #evict(sequence: Sequence, policy: EvictionPolicy, budget: number, exact: boolean): Promise<Evicted> {
    sequence.live("evict");
    this.#checks.requirePositions("evict");
    const { length } = sequence;
    // Rows that were taken over from another text got no attention from this one yet.
    const measures = this.#session.outputNames.some((name) => name.startsWith(sumsName("")));
    const scores = sequence.scores ?? (measures ? new Array<number>(length).fill(0) : undefined);
    const what = `sequence "${sequence.name}" of ${length} rows`;
    checkBudget(budget, what);
    if (length <= budget) return { kept: length, spared: 0, moved: 0, blocks: 0 };
    const positions = Array.from({ length }, (_, row) => sequence.positionOf(row));
    const chosen = applyPolicy(policy, { positions, scores, budget }, budget, what);
    const rows = exact ? chosen : rowsInBlocks(chosen, length, this.pool.blockSize);
    this.#checks.requireWindow(rows.length, (row) => positions[rows[row]], sequence.position, what);
    const before = sequence.table.length;
    const moved = await keepRows(this.#state, sequence, rows, this.#layout);
    return {
      kept: rows.length,
      spared: rows.length - chosen.length,
      moved,
      blocks: before - sequence.table.length,
    };
  }

  /** Gives the memory back; sequences cannot be used afterwards. */
  release(): void {
    for (const sequence of this.pool.sequences) sequence.release();
    this.#state.release();
  }

  #reserve(entries: readonly RunEntry[]): number[][] {
    const appended: AppendEntry[] = entries.filter(({ rows }) => rows === undefined);
    const slots = this.pool.append(appended);
    return entries.map(({ sequence, rows, tokens }) => {
      if (rows === undefined) return slots.shift()!;
      return sequence.overwrite(rows.start, rowsOf(tokens));
    });
  }

  /** What a run needs to know of one sequence. */
  #rowsOf({ sequence, tokens, rows }: RunEntry, position: number, slots: readonly number[]): SequenceRows {
    const length = rows?.valid ?? sequence.length;
    this.pool.checkTable(sequence.table, length, `sequence "${sequence.name}"`);
    return { table: sequence.table, tokens, position, slots, length };
  }

  /** How many blocks tables tell. */
  #columnsOf(entries: readonly RunEntry[]): number {
    const longest = Math.max(...entries.map(({ sequence }) => sequence.table.length));
    // Shapes that change at every block would make a program for each.
    return Math.min(this.pool.blocks, longest <= this.#columns ? this.#columns : 2 ** Math.ceil(Math.log2(longest)));
  }
}

/** What one of several runs needs to know of a sequence, of which each reads a token. */
const rowsInRun = (own: SequenceRows, run: number, count: number): SequenceRows => ({
  ...own,
  position: own.position + run,
  slots: own.slots.slice(run, run + 1),
  length: own.length - (count - 1 - run),
});

/** The logits after each of so many tokens up to one, one row after another. */
function rowsBefore(logits: Logits, last: number, count: number): Float32Array {
  const rows = Array.from({ length: count }, (_, at) => logits.at(0, last - count + 1 + at));
  const all = new Float32Array(rows.reduce((sum, { length }) => sum + length, 0));
  rows.forEach((row, at) => all.set(row, at * row.length));
  return all;
}

/** Adds the attention of one layer, over all heads, to what the rows of each sequence got. */
function addSums(sums: Tensor, entries: readonly PagedEntry[]): void {
  const [, heads, columns] = sums.dims;
  const numbers = readNumbers(sums.toView());
  entries.forEach(({ sequence }, sample) => {
    const rows = new Float64Array(Math.min(columns, sequence.length));
    for (let head = 0; head < heads; head++) {
      const start = (sample * heads + head) * columns;
      for (let row = 0; row < rows.length; row++) rows[row] += numbers[start + row];
    }
    sequence.addScores(rows);
  });
}
