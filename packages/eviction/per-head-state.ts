/**
 * Texts whose heads keep different rows, and different numbers of them: pages of one head each, with a block table and a length for every
 * key/value head. What one head lets go of, another may take. Layers share the tables.
 */
import { checkList, checkName, checkObject } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { Session } from "#insitu/session/session.js";
import type { State } from "#insitu/session/state.js";
import { readNumbers } from "#insitu/tensor/access.js";
import type { Tensor } from "#insitu/tensor/tensor.js";
import { BlockPool } from "#insitu/cache/block-pool.js";
import { Decoder } from "#insitu/decoder/decoder.js";
import { int64 } from "#insitu/decoder/decoder-inputs.js";
import { applyPolicy, checkBudget, type EvictionPolicy } from "#insitu/cache/eviction.js";
import { checkSequence, checkStateArguments, checkTokens } from "#insitu/cache/given.js";
import { keepRows, pageLayout } from "#insitu/cache/page-bytes.js";
import type { PagedLogits, PagedStateOptions } from "#insitu/cache/paged-state.js";
import { pageInputs, sumsName } from "#insitu/rewrite/page-names.js";
import { RowChecks } from "#insitu/cache/row-checks.js";
import type { Sequence } from "#insitu/cache/sequence.js";
import { Mutex } from "#insitu/cache/mutex.js";

/** A conversation: a sequence of rows for each key/value head. */
export interface PerHeadText {
  /** The text's name. */
  readonly name: string;
  /** A sequence for each key/value head. */
  readonly heads: readonly Sequence[];
}

/** Throws unless this is a text. */
function checkText(what: string, text: PerHeadText): void {
  checkObject(`${what}: the text`, text);
  checkList(`${what}: the heads of the text`, text.heads);
  if (text.heads.length === 0) throw new InsituError("invalid-argument", `${what}: a text has at least one head`);
  for (const sequence of text.heads) checkSequence(what, sequence);
}

/** The pages of a model with tables for each head: `pages({ perHead: true })`. */
export class PerHeadState {
  /** The pool of blocks, and which sequences use them. */
  readonly pool: BlockPool;
  /** The state of the session. */
  readonly state: State;
  readonly #decoder: Decoder;
  readonly #checks: RowChecks;
  readonly #layout: "Norm" | "NHSD";
  readonly #heads: number;
  #named = 0;
  /** Runs and evictions take turns. */
  readonly #turns = new Mutex();

  constructor(session: Session, options: Pick<PagedStateOptions, "blockSize" | "blocks">) {
    checkStateArguments("a state with tables for each head", session, options, { blockSize: true, blocks: true });
    const { blockSize = 16, blocks } = options;
    const heads = session.inputMetadata.find(({ name }) => name === pageInputs.tables)?.shape[1];
    if (typeof heads !== "number")
      throw new InsituError(
        "invalid-argument",
        "the model has no block table for each head: load it with change: pages({ perHead: true })",
      );
    this.#heads = heads;
    // Rows of one head are no text: there is nothing to find them by.
    this.pool = new BlockPool({
      blocks,
      blockSize,
      sharePrefixes: false,
      copy: (from, to) => this.state.copyPart(from, to),
    });
    this.#decoder = new Decoder(session, { measures: sumsName("") });
    this.#checks = new RowChecks(session);
    this.state = session.createState({ dims: { num_blocks: blocks, block_size: blockSize } });
    this.#layout = pageLayout(session, this.state);
  }

  /** A new, empty conversation. */
  add(name = `text ${++this.#named}`): PerHeadText {
    checkName("the name of a text", name);
    return { name, heads: Array.from({ length: this.#heads }, (_, head) => this.pool.add(`${name}, head ${head}`)) };
  }

  /** A second sequence with the same rows, in the same blocks. */
  fork(text: PerHeadText, name = `text ${++this.#named}`): PerHeadText {
    checkText("fork", text);
    checkName("the name of a text", name);
    return { name, heads: text.heads.map((sequence, head) => sequence.fork(`${name}, head ${head}`)) };
  }

  /** Reads tokens of several sequences in one run; the logits after them. If it throws, the sequences are as before. */
  async step(
    entries: readonly { readonly text: PerHeadText; readonly tokens: readonly number[] }[],
  ): Promise<PagedLogits[]> {
    checkList("the entries of a step", entries);
    if (entries.length === 0) throw new InsituError("invalid-argument", "a step needs at least one text");
    for (const entry of entries) {
      checkObject("an entry of a step", entry);
      checkText("an entry of a step", entry.text);
      checkTokens(`text "${entry.text.name}"`, entry.tokens);
    }
    return this.#turns.take(() => this.#run(entries));
  }

  async #run(
    entries: readonly { readonly text: PerHeadText; readonly tokens: readonly number[] }[],
  ): Promise<PagedLogits[]> {
    const sequences = entries.flatMap(({ text }) => text.heads);
    const before = sequences.map(({ length, position }) => [length, position] as const);
    const count = Math.max(...entries.map(({ tokens }) => tokens.length));
    const positions = entries.map(({ text, tokens }) => text.heads[0].position - (count - tokens.length));
    try {
      const slots = this.pool.append(
        entries.flatMap(({ text, tokens }) => text.heads.map((sequence) => ({ sequence, tokens: tokens.length }))),
      );
      const padding = entries.map(({ tokens }) => Array.from({ length: count - tokens.length }, () => 0));
      const { logits, measured } = await this.#decoder.runMeasured(this.state, {
        tokens: entries.map(({ tokens }, at) => [...padding[at], ...tokens]),
        positions,
        pages: this.#feeds(sequences, slots, entries.length, count),
      });
      for (const sums of measured) this.#measure(sums, sequences);
      return entries.map(({ tokens }, at) => ({ last: logits.at(0, at), rows: logits.last(tokens.length, at) }));
    } catch (error) {
      for (const [at, sequence] of sequences.entries())
        if (sequence.length > before[at][0]) sequence.truncate(...before[at]);
      throw error;
    }
  }

  /**
   * Lets a policy choose the rows of each head that stay: `budgets` of them, a number for all or one for each head. A head within its
   * budget keeps all. Where there is no room for copies of blocks that a fork shares, nothing changes. It takes its turn among the runs.
   */
  async evict(text: PerHeadText, policy: EvictionPolicy, budgets: number | readonly number[]): Promise<void> {
    checkText("evict", text);
    if (typeof budgets !== "number") checkList("evict: the budgets", budgets);
    this.#checks.requirePositions("evict");
    if (typeof budgets !== "number" && budgets.length !== text.heads.length)
      throw new InsituError(
        "invalid-argument",
        `text "${text.name}" has ${text.heads.length} heads, and budgets for ${budgets.length} were given`,
      );
    return this.#turns.take(() => this.#evict(text, policy, budgets));
  }

  async #evict(text: PerHeadText, policy: EvictionPolicy, budgets: number | readonly number[]): Promise<void> {
    const kept = text.heads.map((sequence, head) => {
      sequence.live("evict");
      const budget = typeof budgets === "number" ? budgets : budgets[head];
      const what = `"${sequence.name}" of ${sequence.length} rows`;
      const positions = Array.from({ length: sequence.length }, (_, row) => sequence.positionOf(row));
      if (budget >= sequence.length) return positions.map((_, row) => row);
      checkBudget(budget, what);
      const rows = applyPolicy(policy, { positions, scores: sequence.scores, budget }, budget, what);
      this.#checks.requireWindow(rows.length, (row) => positions[rows[row]], sequence.position, what);
      return rows;
    });
    const evicted = text.heads.flatMap((sequence, head) =>
      kept[head].length < sequence.length ? [{ sequence, rows: kept[head] }] : [],
    );
    // What one head gives back may be another's copy: the heads that need least go first.
    const costs = new Map(evicted.map(({ sequence, rows }) => [sequence, sequence.costOfKeeping(rows)]));
    const needed = [...costs.values()].reduce((sum, cost) => sum + cost, 0);
    if (needed * this.pool.blockSize > this.pool.room)
      throw this.pool.exhausted(needed, `bringing the rows of "${text.name}" together`);
    for (const { sequence, rows } of evicted.toSorted((a, b) => costs.get(a.sequence)! - costs.get(b.sequence)!))
      await keepRows(this.state, sequence, rows, this.#layout);
  }

  /** Gives a sequence's blocks back. */
  release(text?: PerHeadText): void {
    if (text !== undefined) checkText("release", text);
    for (const sequence of text?.heads ?? this.pool.sequences) sequence.release();
    if (text === undefined) this.state.release();
  }

  #feeds(
    sequences: readonly Sequence[],
    slots: readonly (readonly number[])[],
    batch: number,
    count: number,
  ): Record<string, Tensor> {
    const heads = this.#heads;
    const longest = Math.max(...sequences.map(({ table }) => table.length));
    const columns = Math.min(this.pool.blocks, 2 ** Math.ceil(Math.log2(Math.max(64, longest))));
    for (const { table, length, name } of sequences) this.pool.checkTable(table, length, `sequence "${name}"`);
    const slotAt = (index: number): number => {
      const [token, head] = [Math.floor(index / heads), index % heads];
      const own = slots[Math.floor(token / count) * heads + head];
      return own[(token % count) - (count - own.length)] ?? -1;
    };
    return {
      [pageInputs.slots]: int64(
        Array.from({ length: batch * count * heads }, (_, index) => slotAt(index)),
        [batch * count * heads],
      ),
      [pageInputs.tables]: int64(
        sequences.flatMap(({ table }) => Array.from({ length: columns }, (_, column) => table[column] ?? -1)),
        [batch, heads, columns],
      ),
      [pageInputs.lengths]: int64(
        sequences.map(({ length }) => length),
        [batch, heads],
      ),
    };
  }

  /** Adds the attention of one layer to what the rows of each head got from the query heads that share it. */
  #measure(sums: Tensor, sequences: readonly Sequence[]): void {
    const [, queryHeads, columns] = sums.dims;
    const numbers = readNumbers(sums.toView());
    const group = queryHeads / this.#heads;
    sequences.forEach((sequence, at) => {
      const rows = new Float64Array(Math.min(columns, sequence.length));
      for (let query = 0; query < group; query++) {
        const start = (at * group + query) * columns;
        for (let row = 0; row < rows.length; row++) rows[row] += numbers[start + row];
      }
      sequence.addScores(rows);
    });
  }
}
