/**
 * Sequences of different lengths on one set of pages: a session's state that holds the pools of all layers, and the block pool that
 * decides which rows are whose. One run reads tokens of any number of sequences. Chooses no token and knows no text.
 */
import { InsituError } from "../base/error.js";
import type { Feeds } from "../session/feeds.js";
import type { Session } from "../session/session.js";
import type { State } from "../session/state.js";
import { readNumbers } from "../tensor/access.js";
import type { Tensor } from "../tensor/tensor.js";
import { type AppendEntry, BlockPool, type BlockPoolOptions } from "./block-pool.js";
import { DecoderRun, int64 } from "./decoder-run.js";
import { copyBlock, moveRows, pageLayout } from "./page-bytes.js";
import { applyPolicy, type EvictionPolicy, wholeBlocks } from "./eviction.js";
import { pageInputs, sumsName } from "./pages-model.js";
import type { Sequence } from "./sequence.js";

/** How pages are made. */
export interface PagedStateOptions extends Omit<BlockPoolOptions, "copy" | "blockSize"> {
  /** Rows in a block: 16 where left out. */
  readonly blockSize?: number;
}

/** Tokens that a run reads for one sequence. */
export interface PagedEntry {
  readonly sequence: Sequence;
  readonly tokens: readonly number[];
  /** The position of the first token; where the sequence goes on when left out. */
  readonly position?: number;
  /** Rows to write again and how many are valid then, in place of new ones. */
  readonly rows?: { readonly start: number; readonly valid: number };
}

/** One run: what a decoder is fed beside what it alone knows. */
export interface PagedBatch {
  /** As many for each sequence: shorter ones have zeros in front, which are written nowhere and see nothing. */
  readonly tokens: readonly (readonly number[])[];
  /** The position of each sequence's first column; below 0 in front of a text. */
  readonly positions: readonly number[];
  /** slot_mapping, block_tables and seq_lens. */
  readonly feeds: Feeds;
  readonly state: State;
}

/** What a sequence's tokens led to. */
export interface PagedLogits {
  /** After the last token. */
  readonly last: Float32Array;
  /** After each token, one row after another; only the last where the model keeps no more. */
  readonly rows: Float32Array;
}

/** The pages of a model. */
export class PagedState {
  readonly pool: BlockPool;
  readonly #state: State;
  readonly #decoder: DecoderRun;
  readonly #layout: "Norm" | "NHSD";
  /** Settled when the run before is over: runs take turns. */
  #last: Promise<void> = Promise.resolve();

  /** Pages for a session whose model reads and writes them. */
  constructor(session: Session, { blockSize = 16, ...options }: PagedStateOptions) {
    const missing = Object.values(pageInputs).find((name) => !session.inputNames.includes(name));
    if (missing !== undefined)
      throw new InsituError(
        "invalid-argument",
        `the model has no input "${missing}": load it on pages, InferenceSession.create(path, { change: pages() })`,
      );
    this.pool = new BlockPool({ ...options, blockSize, copy: (from, to) => copyBlock(this.#state, from, to) });
    this.#decoder = new DecoderRun(session, sumsName(""));
    this.#state = session.createState({ dims: { num_blocks: options.blocks, block_size: blockSize } });
    this.#layout = pageLayout(session, this.#state);
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
    const sequence = this.pool.add(name);
    // The last token must be read: its logits are wanted.
    if (tokens.length > 1) sequence.share(tokens.slice(0, -1));
    return sequence;
  }

  /** Reads tokens of several sequences in one run; the logits after them. */
  step(entries: readonly PagedEntry[]): Promise<PagedLogits[]> {
    return this.run(entries, async (batch) => {
      const { logits, rows, vocabulary, measured } = await this.#decoder.run(batch);
      for (const sums of measured) addSums(sums, entries);
      return entries.map((entry, at) => {
        const end = (at + 1) * rows * vocabulary;
        const own = Math.min(rows, entry.tokens.length);
        return { last: logits.subarray(end - vocabulary, end), rows: logits.subarray(end - own * vocabulary, end) };
      });
    });
  }

  /** Makes room for tokens, runs `body`, and keeps what it wrote; where it throws, the sequences are as before. Calls take turns. */
  async run<T>(entries: readonly PagedEntry[], body: (batch: PagedBatch) => Promise<T>): Promise<T> {
    const empty = entries.find(({ tokens }) => tokens.length === 0);
    if (entries.length === 0 || empty !== undefined)
      throw new InsituError("invalid-argument", `sequence "${empty?.sequence.name ?? ""}" has no token to read`);
    const turn = this.#last;
    let over = (): void => {};
    this.#last = new Promise((resolve) => (over = resolve));
    await turn;
    const before = entries.map(({ sequence }) => [sequence.length, sequence.position] as const);
    const positions = entries.map(({ sequence, position }) => position ?? sequence.position);
    try {
      const slots = this.#reserve(entries);
      const result = await body(this.#batchOf(entries, positions, slots));
      for (const { sequence, rows } of entries) if (rows === undefined) sequence.commit();
      return result;
    } catch (error) {
      for (const [at, { sequence }] of entries.entries())
        if (sequence.length > before[at][0]) sequence.truncate(...before[at]);
      throw error;
    } finally {
      over();
    }
  }

  /** Keeps only some rows of a sequence: whole blocks are given back, the rows that are left move together. */
  keep(sequence: Sequence, rows: readonly number[]): void {
    sequence.keep(rows, (sources) => moveRows(this.#state, sequence.table, sources, this.#layout));
  }

  /**
   * Lets a policy choose which rows of a sequence stay, `budget` of them. Blocks with a survivor stay whole unless `exact` asks to move
   * survivors together: then no more than the budget stays.
   */
  evict(
    sequence: Sequence,
    policy: EvictionPolicy,
    { budget, exact = false }: { readonly budget: number; readonly exact?: boolean },
  ): void {
    sequence.live("evict");
    this.#decoder.requirePositions("evict");
    const { length, scores } = sequence;
    const positions = Array.from({ length }, (_, row) => sequence.positionOf(row));
    const what = `sequence "${sequence.name}" of ${length} rows`;
    const most = Math.min(budget, Math.max(0, length - 1));
    const chosen = (asked: number): readonly number[] =>
      applyPolicy(policy, { positions, scores, budget: asked }, most, what);
    if (exact) return this.keep(sequence, chosen(budget));
    // Survivors keep their blocks whole: fewer are asked for until the blocks fit the budget.
    for (let asked = budget; asked > 0;) {
      const rows = wholeBlocks(chosen(asked), length, this.pool.blockSize);
      if (rows.length <= most) return this.keep(sequence, rows);
      asked -= Math.max(1, (rows.length - most) >> 1);
    }
    throw new InsituError(
      "invalid-argument",
      `${what}: no whole blocks of ${this.pool.blockSize} rows can be given back so that at most ${most} rows stay; ask with exact: true`,
    );
  }

  /** Gives the memory back; sequences cannot be used afterwards. */
  release(): void {
    for (const sequence of this.pool.sequences) sequence.release();
    this.#state.release();
  }

  #reserve(entries: readonly PagedEntry[]): number[][] {
    const appended: AppendEntry[] = entries.filter(({ rows }) => rows === undefined);
    const slots = this.pool.append(appended);
    return entries.map(({ sequence, rows, tokens }) => {
      if (rows === undefined) return slots.shift()!;
      return sequence.overwrite(rows.start, tokens.length);
    });
  }

  #batchOf(
    entries: readonly PagedEntry[],
    positions: readonly number[],
    slots: readonly (readonly number[])[],
  ): PagedBatch {
    const count = Math.max(...entries.map(({ tokens }) => tokens.length));
    const lengths = entries.map(({ sequence, rows }) => rows?.valid ?? sequence.length);
    const longest = Math.max(...entries.map(({ sequence }) => sequence.table.length));
    // Shapes that change at every block would make a program for each.
    const columns = Math.min(this.pool.blocks, 2 ** Math.ceil(Math.log2(Math.max(64, longest))));
    entries.forEach(({ sequence }, at) =>
      this.pool.checkTable(sequence.table, lengths[at], `sequence "${sequence.name}"`),
    );
    const padded = <T>(list: readonly T[], length: number, by: T): T[] => [
      ...Array.from({ length: length - list.length }, () => by),
      ...list,
    ];
    return {
      tokens: entries.map(({ tokens }) => padded(tokens, count, 0)),
      positions: positions.map((first, at) => first - (count - entries[at].tokens.length)),
      feeds: {
        [pageInputs.slots]: int64(
          slots.flatMap((own) => padded(own, count, -1)),
          [entries.length * count],
        ),
        [pageInputs.tables]: int64(
          entries.flatMap(({ sequence: { table } }) =>
            Array.from({ length: columns }, (_, column) => table[column] ?? -1),
          ),
          [entries.length, columns],
        ),
        [pageInputs.lengths]: int64(lengths, [entries.length]),
      },
      state: this.#state,
    };
  }
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
