/**
 * Sequences of different lengths on one set of pages: a session's state that holds the pools of all layers, and the block pool that
 * decides which rows are whose. One run reads tokens of any number of sequences. Chooses no token and knows no text.
 */
import { checkCount, checkFlag, checkNumbers, checkOptions } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { Session } from "../session/session.js";
import type { State } from "../session/state.js";
import { type AppendEntry, BlockPool, type BlockPoolOptions, rowsOf } from "./block-pool.js";
import { Decoder } from "../decoder/decoder.js";
import { int64 } from "../decoder/decoder-inputs.js";
import { checkSequence, checkStateArguments, checkTokens, pagedStateOptionNames } from "./given.js";
import { keepRows, pageLayout } from "./page-bytes.js";
import {
  apartBatch,
  type BatchFeeds,
  filledBatch,
  packedBatch,
  paddedBatch,
  rowsInRun,
  type SequenceRows,
} from "./paged-batch.js";
import type { EvictionPolicy } from "./eviction.js";
import { packedInput, pageInputs, stateInput, sumsName } from "#insitu/rewrite/page-names.js";
import { checkEntries, type PagedEntry, type RunEntry } from "./run-entries.js";
import { addSums, rowsBefore } from "./run-results.js";
import { RowChecks } from "./row-checks.js";
import type { Sequence } from "./sequence.js";
import { pooledStatesOf, StateSlots, usualSlots } from "./state-slots.js";
import { Mutex } from "./mutex.js";

/** Options of `new PagedState`. */
export interface PagedStateOptions extends Omit<BlockPoolOptions, "copy" | "blockSize"> {
  /**
   * Rows (tokens) in a block.
   * @default 16
   */
  readonly blockSize?: number | undefined;
  /**
   * How many blocks of one sequence the block tables have room for at first.
   * @default 64
   */
  readonly columns?: number | undefined;
  /**
   * For models with recurrent states (hybrids): how many sequences and checkpoints there is room for.
   * @default by their size, at most 128
   */
  readonly states?: number | undefined;
}

/** What a run of pages feeds to the decoder: tokens, positions, slots and block tables. */
export interface PagedBatch extends BatchFeeds {
  /** The state to run with. */
  readonly state: State;
}

/** Blocks between two checkpoints of tokens that come one by one. */
const markedBlocks = 4;

/** Makes a run's feeds. */
type BatchMaker = (sequences: readonly SequenceRows[], columns: number) => BatchFeeds;

/** The logits after a sequence's tokens. */
export interface PagedLogits {
  /** The logits after the last token. */
  readonly last: Float32Array;
  /** After each token, one row after another; only the last where the model keeps no more. */
  readonly rows: Float32Array;
}

/** The result of an eviction. */
export interface Evicted {
  /** Rows that stay. */
  readonly kept: number;
  /** Of these, rows that the policy would have dropped: fewer than a block has. */
  readonly spared: number;
  /** Rows that moved to another place in a block. */
  readonly moved: number;
  /** Blocks that the sequence gave back. */
  readonly blocks: number;
}

/**
 * A paged KV cache: many sequences in one pool of blocks. Sequences with the same beginning share blocks.
 * @example
 * ```ts
 * import { InferenceSession, PagedState, pages } from "insitu";
 *
 * const session = await InferenceSession.create("decoder.onnx", { change: pages() });
 * const state = new PagedState(session, { blocks: 64 });
 * const one = state.add("one");
 * await state.step([{ sequence: one, tokens: [7, 21, 3] }]);
 * console.log(one.fork("fork").table); // a fork shares the blocks
 * ```
 */
export class PagedState {
  /** The pool of blocks, and which sequences use them. */
  readonly pool: BlockPool;
  readonly #state: State;
  readonly #session: Session;
  readonly #checks: RowChecks;
  /** For steps; made when one is asked for, since runs with a body of the caller's may be of any model. */
  #decoder: Decoder | undefined;
  readonly #layout: "Norm" | "NHSD";
  readonly #columns: number;
  /** For engines: where texts keep states without rows, where the model has such. */
  readonly states: StateSlots | undefined;
  /** The names of the recurrent caches. */
  readonly stateNames: readonly string[];
  /** Size of one sequence's recurrent states, in bytes. */
  readonly stateBytes: number;
  /** True if the model takes packed batches: every run is one. */
  readonly isPacked: boolean;
  /** Runs and evictions take turns. */
  readonly #turns = new Mutex();

  /** Creates the pages of a session whose model `pages()` changed. */
  constructor(session: Session, given: PagedStateOptions) {
    checkStateArguments("a paged state", session, given, pagedStateOptionNames);
    const pooled = pooledStatesOf(session);
    const { blockSize = 16, columns = 64, states = usualSlots(pooled), ...options } = given;
    checkCount("option columns", columns, 1);
    checkCount("option states", states, 1);
    this.#columns = columns;
    const missing = Object.values(pageInputs).find((name) => !session.inputNames.includes(name));
    if (missing !== undefined)
      throw new InsituError(
        "invalid-argument",
        `the model has no input "${missing}": load it on pages, InferenceSession.create(path, { change: pages() })`,
      );
    this.stateNames = pooled.names;
    this.stateBytes = pooled.byteLength;
    if (pooled.names.length > 0)
      this.states = new StateSlots(states, (from, to) => this.#state.copyPart(from, to, pooled.names));
    const copy = (from: number, to: number): void => this.#state.copyPart(from, to, this.pageNames);
    this.pool = new BlockPool({ ...options, blockSize, copy }, this.states);
    this.#session = session;
    this.#checks = new RowChecks(session);
    const room: Record<string, number> = pooled.names.length > 0 ? { num_states: states + 1 } : {};
    this.#state = session.createState({ dims: { num_blocks: options.blocks, block_size: blockSize, ...room } });
    this.#layout = pageLayout(session, this.#state);
    this.isPacked = session.inputNames.includes(packedInput);
  }

  /** The session's state that holds the pools of all layers. */
  get state(): State {
    return this.#state;
  }

  /** Bytes of all pools. */
  get byteLength(): number {
    return this.#state.byteLength;
  }

  /** Bytes of one block in all layers. */
  get blockBytes(): number {
    const slots = this.states === undefined ? 0 : this.states.count + 1;
    return (this.#state.byteLength - slots * this.stateBytes) / this.pool.blocks;
  }

  /** The caches that are pages. */
  get pageNames(): readonly string[] {
    return this.#state.names.filter((name) => !this.stateNames.includes(name));
  }

  /** Adds a sequence. What other sequences have already read of `tokens` is shared (prefix cache): read on from its `length`. */
  add(name?: string, tokens: readonly number[] = []): Sequence {
    checkNumbers("the tokens of a sequence", tokens);
    const sequence = this.pool.add(name);
    // The last token must be read: its logits are wanted.
    if (tokens.length > 1) sequence.share(tokens.slice(0, -1));
    return sequence;
  }

  /** Reads tokens of several sequences in one run, and returns the logits after them. */
  async step(entries: readonly PagedEntry[]): Promise<PagedLogits[]> {
    checkEntries(entries, this.states !== undefined);
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
   * Like `run`, without padding between sequences that read many tokens and sequences that read one: as a packed batch if the model takes
   * those, otherwise with every token as a sample of its own. Batches are filled up to sizes that recur, so that runs of the same shapes are
   * prepared once. With a `count` there is room for that many runs of one token per sequence, and `body` gets the feeds of the later ones.
   */
  async runApart<T>(
    entries: readonly RunEntry[],
    body: (batch: PagedBatch, later: readonly BatchFeeds[]) => Promise<T>,
    count = 1,
  ): Promise<T> {
    if (this.states !== undefined) return this.#take(entries, body, paddedBatch, count);
    return this.#take(entries, body, this.isPacked ? filledBatch : apartBatch, count);
  }

  async #take<T>(
    entries: readonly RunEntry[],
    body: (batch: PagedBatch, later: readonly BatchFeeds[]) => Promise<T>,
    batchOf: BatchMaker,
    count = 1,
  ): Promise<T> {
    checkEntries(entries, this.states !== undefined);
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
      const own = this.states && entries.map(({ sequence }) => this.states!.own(sequence));
      const slots = this.#reserve(count === 1 ? entries : entries.map((entry) => ({ ...entry, tokens: count })));
      const columns = this.#columnsOf(entries);
      const rows = entries.map((entry, at) => this.#rowsOf(entry, positions[at], slots[at]));
      const [batch, ...later] = Array.from({ length: count }, (_, run) =>
        batchOf(count === 1 ? rows : rows.map((own) => rowsInRun(own, run, count)), columns),
      );
      const feeds = own === undefined ? batch.feeds : { ...batch.feeds, [stateInput]: int64(own, [own.length]) };
      const result = await body({ ...batch, feeds, state: this.#state }, later);
      for (const { sequence, rows: again, tokens } of entries) {
        if (again !== undefined) continue;
        sequence.commit();
        // What the first of several runs reads may be known.
        if (count > 1 && typeof tokens !== "number") sequence.learn(tokens);
      }
      for (const { sequence, tokens } of this.states === undefined ? [] : entries)
        this.#advance(sequence, rowsOf(tokens));
      return result;
    } catch (error) {
      for (const [at, { sequence }] of entries.entries())
        if (sequence.length > before[at][0]) sequence.truncate(...before[at]);
      throw error;
    } finally {
      leave();
    }
  }

  /** A sequence's states have read what it has; at the end of a block, of a prompt or now and then, they can be come back to. */
  #advance(sequence: Sequence, count: number): void {
    const { length } = sequence;
    const { blockSize } = this.pool;
    this.states!.read(sequence, length);
    const block = sequence.contentsOf(length / blockSize - 1);
    if (block !== undefined && (count > 1 || length % (markedBlocks * blockSize) === 0))
      this.states!.mark(sequence, block);
  }

  /** The length that a sequence can be truncated to: `length`, or for models with recurrent states the last checkpoint before it. */
  reachable(sequence: Sequence, length: number): number {
    const { states } = this;
    if (states === undefined || states.lengthOf(sequence) === length) return length;
    const { blockSize } = this.pool;
    let columns = Math.floor(length / blockSize);
    while (columns > 0 && !states.has(sequence.contentsOf(columns - 1))) columns--;
    return columns * blockSize;
  }

  /**
   * Keeps only these rows of a sequence, and moves them together, so that whole blocks are freed. Returns how many rows moved. Waits for runs that
   * are under way.
   */
  async keep(sequence: Sequence, rows: readonly number[]): Promise<number> {
    checkSequence("keep", sequence);
    this.#refuseStates("keep");
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
    this.#refuseStates("evict");
    return this.#turns.take(() => this.#evict(sequence, policy, budget, exact));
  }

  async #evict(sequence: Sequence, policy: EvictionPolicy, budget: number, exact: boolean): Promise<Evicted> {
    const { applyPolicy, checkBudget, rowsInBlocks } = await import("./eviction.js");
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

  #refuseStates(what: string): void {
    if (this.states !== undefined)
      throw new InsituError(
        "invalid-state",
        `${what}: the model has recurrent states, "${this.stateNames[0]}" for one, which have read every token: rows cannot be evicted`,
      );
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
