/**
 * One sequence of a pool: the blocks that hold its rows, in order, and the tokens behind them as far as they are known. Sequences share
 * blocks; one that is about to write a shared block gets a copy of its own first.
 */
import { checkCallback, checkCount, checkList, checkNumbers } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { BlockPool, PoolParts } from "./block-pool.js";
import { checkKept, type KeepPlan, planKeep } from "./keep-plan.js";
import type { PrefixNode } from "./prefix-index.js";

/** A sequence of rows in a pool. Made by `pool.add` and `sequence.fork`. */
export class Sequence {
  /** Its name in the pool. */
  readonly name: string;
  /** The pool that its blocks are of. */
  readonly pool: BlockPool;
  readonly #parts: PoolParts;
  #salt: string;
  #table: number[] = [];
  #length = 0;
  /** Of the rows at the beginning; those behind a gap or without tokens are not known. */
  #tokens: number[] = [];
  /** Of the full blocks at the beginning whose contents are written and known. */
  #nodes: PrefixNode[] = [];
  /** The true position of each row, where rows before it are gone; undefined where a row's number is its position. */
  #positions: number[] | undefined;
  /** The position of the next token, where the last row's does not tell it. */
  #next: number | undefined;
  /** The attention that each row has got, where somebody counts it. */
  #scores: number[] | undefined;
  #released = false;

  /** For pools. */
  constructor(pool: BlockPool, parts: PoolParts, name: string, salt: string) {
    this.pool = pool;
    this.#parts = parts;
    this.name = name;
    this.#salt = salt;
  }

  /** True for what a pool made. */
  static isSequence(value: unknown): value is Sequence {
    return typeof value === "object" && value !== null && #table in value;
  }

  /** Beginnings are shared between sequences of one salt only. */
  get salt(): string {
    return this.#salt;
  }

  /** Rows in use. */
  get length(): number {
    return this.#length;
  }

  /** The block of each `blockSize` rows. */
  get table(): readonly number[] {
    return this.#table;
  }

  /** Tokens of the rows at the beginning that are known. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  /** The position of the token that comes next: how many tokens there were, dropped ones included. */
  get position(): number {
    return this.#next ?? (this.#length === 0 ? 0 : this.positionOf(this.#length - 1) + 1);
  }

  /** The position of a row's token: what its rotary key was turned by. */
  positionOf(row: number): number {
    return this.#positions === undefined ? row : this.#positions[row];
  }

  /** The attention that each row has received since it was written; undefined if it is not counted. */
  get scores(): readonly number[] | undefined {
    return this.#scores && Array.from({ length: this.#length }, (_, row) => this.#scores![row] ?? 0);
  }

  /** Adds to the attention of the first rows. */
  addScores(scores: ArrayLike<number>): void {
    if (!ArrayBuffer.isView(scores)) checkList("addScores: the scores", scores);
    this.#scores ??= [];
    for (let row = 0; row < Math.min(scores.length, this.#length); row++)
      this.#scores[row] = (this.#scores[row] ?? 0) + scores[row];
  }

  /** True once its blocks were given back. */
  get released(): boolean {
    return this.#released;
  }

  /** Makes room for tokens, or for a number of rows whose tokens are not known yet, and returns the slots to write them to. All or nothing. */
  append(tokens: readonly number[] | number): number[] {
    return this.pool.append([{ sequence: this, tokens }])[0];
  }

  /** Marks all appended rows as written: full blocks can be shared from now on. */
  commit(): void {
    this.live("commit");
    const { blocks, index, blockSize, share } = this.#parts;
    if (!share) return;
    for (let column = this.#nodes.length; (column + 1) * blockSize <= this.#tokens.length; column++) {
      const parent = this.#nodes.at(-1);
      const tokens = this.#tokens.slice(column * blockSize, (column + 1) * blockSize);
      const found = index.find(parent, tokens, this.salt);
      const own = this.#table[column];
      if (found !== undefined && found.block !== own) {
        blocks.retain(found.block);
        this.#table[column] = found.block;
        blocks.drop(own);
      }
      this.#nodes.push(found ?? index.add(parent, tokens, this.salt, own));
    }
  }

  /** Says which tokens the first rows with unknown tokens hold. Full blocks can be shared afterwards. */
  learn(tokens: readonly number[]): void {
    this.live("learn");
    checkNumbers("learn: the tokens", tokens);
    const known = this.#tokens.length;
    if (known + tokens.length > this.#length)
      throw new InsituError(
        "invalid-argument",
        `sequence "${this.name}" has ${this.#length - known} rows whose tokens are not known, got ${tokens.length} tokens`,
      );
    if (this.#positions !== undefined || this.#next !== undefined) return;
    for (const token of tokens) this.#tokens.push(token);
    this.commit();
  }

  /** Shares other sequences' blocks that hold the beginning of `tokens`, which continue this sequence's own. Returns the new number of rows. */
  share(tokens: readonly number[]): number {
    this.live("share");
    checkNumbers("share: the tokens", tokens);
    const { blocks, index, blockSize, share } = this.#parts;
    if (this.#tokens.length < this.position || !this.#tokens.every((token, at) => token === tokens[at]))
      throw new InsituError(
        "invalid-argument",
        `sequence "${this.name}" cannot share: its ${this.#length} rows are not the beginning of the ${tokens.length} tokens given`,
      );
    const found: PrefixNode[] = [];
    for (let at = 0; share && at + blockSize <= tokens.length; at += blockSize) {
      const node = index.find(found.at(-1), tokens.slice(at, at + blockSize), this.salt);
      if (node === undefined) break;
      found.push(node);
    }
    // What has no rows is taken over from a checkpoint.
    const { states } = this.#parts;
    while (states !== undefined && found.length > 0 && !states.has(found.at(-1))) found.pop();
    if (found.length * blockSize <= this.#length) return this.#length;
    states?.load(this, found.at(-1));
    const before = this.#table;
    for (const { block } of found) blocks.retain(block);
    for (const block of before.toReversed()) blocks.drop(block);
    this.#table = found.map(({ block }) => block);
    this.#nodes = found;
    this.#length = found.length * blockSize;
    this.#tokens = tokens.slice(0, this.#length);
    this.#positions = undefined;
    this.#next = undefined;
    return this.#length;
  }

  /**
   * A hash for each full block that the rows from this sequence's length to `to` would fill. It covers all tokens up to the
   * block's end. `tokens` must continue this sequence's own.
   */
  blockHashes(tokens: readonly number[], to: number): number[] {
    const { index, blockSize } = this.#parts;
    const hashes: number[] = [];
    let before = this.#nodes.at(-1)?.hash;
    for (let at = this.#nodes.length * blockSize; at + blockSize <= to; at += blockSize) {
      before = index.hashAfter(before, tokens.slice(at, at + blockSize), this.salt);
      if (at >= this.#length) hashes.push(before);
    }
    return hashes;
  }

  /** An object that identifies the contents of a full block: the same object in all sequences that hold it. Undefined if the tokens are not known. */
  contentsOf(column: number): object | undefined {
    return this.#nodes[column];
  }

  /** A second sequence with the same rows, in the same blocks. */
  fork(name?: string): Sequence {
    this.live("fork");
    const fork = this.pool.add(name, this.salt);
    for (const block of this.#table) this.#parts.blocks.retain(block);
    this.#parts.states?.fork(this, fork);
    fork.#table = [...this.#table];
    fork.#length = this.#length;
    fork.#tokens = [...this.#tokens];
    fork.#nodes = [...this.#nodes];
    fork.#positions = this.#positions && [...this.#positions];
    fork.#next = this.#next;
    fork.#scores = this.#scores && [...this.#scores];
    return fork;
  }

  /** Forgets every row from `length` on, and gives back the blocks that only held such rows. The text goes on at `position` then. */
  truncate(length: number, position?: number): void {
    this.live("truncate");
    if (!Number.isSafeInteger(length) || length < 0 || length > this.#length)
      throw new InsituError(
        "invalid-argument",
        `sequence "${this.name}" has ${this.#length} rows and cannot be cut to ${valueText(length)}`,
      );
    checkCount("truncate: the position", position);
    if (length === this.#length) return;
    const { blocks, blockSize, states } = this.#parts;
    states?.cut(this, length, this.#nodes[length / blockSize - 1]);
    this.#next = position;
    const kept = Math.ceil(length / blockSize);
    for (const block of this.#table.splice(kept).toReversed()) blocks.drop(block);
    this.#length = length;
    this.#tokens.length = Math.min(this.#tokens.length, length);
    this.#nodes.length = Math.min(this.#nodes.length, Math.floor(length / blockSize));
    if (this.#scores !== undefined) this.#scores.length = Math.min(this.#scores.length, length);
    if (length === 0 && position === undefined) this.#positions = undefined;
    else if (this.#positions !== undefined) this.#positions.length = length;
  }

  /** Shares beginnings with sequences of another salt from now on. It must have no rows. */
  separate(salt: string): void {
    this.live("separate");
    if (this.#length > 0)
      throw new InsituError("invalid-argument", `sequence "${this.name}" has ${this.#length} rows, and keeps its salt`);
    this.#salt = salt;
  }

  /** Prepares existing rows to be written again: shared blocks are copied, and the rows' tokens become unknown. Returns their slots. */
  overwrite(start: number, count: number): number[] {
    this.live("overwrite");
    checkCount("overwrite: the count", count);
    if (!Number.isSafeInteger(start) || start < 0 || start + count > this.#length)
      throw new InsituError(
        "invalid-argument",
        `sequence "${this.name}" has ${this.#length} rows, of which ${valueText(start)} to ${typeof start === "number" ? start + count - 1 : "any"} cannot be written again`,
      );
    const { blocks, blockSize } = this.#parts;
    const first = Math.floor(start / blockSize);
    const last = Math.ceil((start + count) / blockSize);
    const shared = this.#table.slice(first, last).filter((block) => blocks.references(block) > 1).length;
    if (shared > blocks.available) throw this.pool.exhausted(shared, `writing ${count} rows of "${this.name}" again`);
    for (let column = first; column < last; column++)
      this.own(column, Math.min(blockSize, this.#length - column * blockSize));
    this.#tokens.length = Math.min(this.#tokens.length, start);
    this.#nodes.length = Math.min(this.#nodes.length, first);
    return this.slots(start, start + count);
  }

  /** Gives back whole blocks from the middle or the end, by column: the rows behind them move up. */
  dropColumns(columns: readonly number[]): void {
    this.live("dropColumns");
    checkNumbers("dropColumns: the columns", columns);
    const gone = new Set(columns);
    for (const column of gone)
      if (column >= this.#table.length)
        throw new InsituError(
          "invalid-argument",
          `sequence "${this.name}" has ${this.#table.length} blocks and no block ${column} to give back`,
        );
    if (gone.size === 0) return;
    const first = Math.min(...gone);
    const { blockSize } = this.#parts;
    this.#next = this.position;
    const before = this.#positions ?? Array.from({ length: this.#length }, (_, row) => row);
    this.#positions = before.filter((_, row) => !gone.has(Math.floor(row / blockSize)));
    this.#scores = this.#scores?.filter((_, row) => !gone.has(Math.floor(row / blockSize)));
    for (const column of [...gone].toSorted((a, b) => b - a)) this.#parts.blocks.drop(this.#table[column]);
    this.#table = this.#table.filter((_, column) => !gone.has(column));
    this.#length = this.#positions.length;
    this.#tokens.length = Math.min(this.#tokens.length, first * blockSize);
    this.#nodes.length = Math.min(this.#nodes.length, first);
  }

  /**
   * Keeps the rows named, in order, and drops the others. Blocks without survivors are given back, and blocks that keep all their rows stay. `move`
   * brings the other blocks' rows together in blocks of this sequence's own: row i of the table
   * becomes what row `sources[i]` was. Blocks that are empty then are given back. How many rows moved. Where there is no room for copies
   * of shared blocks, nothing changes.
   */
  keep(rows: readonly number[], move: (sources: readonly number[]) => void): number {
    checkCallback("keep: what moves rows", move);
    const { blocks, blockSize } = this.#parts;
    const { gone, order, sources, written, moving, cost } = this.#planKeep(rows);
    if (cost > blocks.available) throw this.pool.exhausted(cost, `bringing the rows of "${this.name}" together`);
    const positions = rows.map((row) => this.positionOf(row));
    const scores = this.scores && rows.map((row) => this.#scores![row] ?? 0);
    const next = this.position;
    const known = rows.findIndex((row, at) => row !== at);
    const lost = new Set(gone);
    const left = this.#table.map((_, column) => column).filter((column) => !lost.has(column));
    this.dropColumns(gone);
    const places = new Map(left.map((column, at) => [column, at]));
    for (const column of written) this.own(places.get(column)!, blockSize);
    const before = this.#table;
    this.#table = order.map((column) => before[places.get(column)!]);
    if (moving.length > 0) move(sources);
    for (const block of this.#table.splice(Math.ceil(rows.length / blockSize)).toReversed()) blocks.drop(block);
    this.#length = rows.length;
    this.#tokens.length = Math.min(this.#tokens.length, known < 0 ? rows.length : known);
    const untouched = Math.min(this.#tokens.length, moving[0] ?? rows.length);
    this.#nodes.length = Math.min(this.#nodes.length, Math.floor(untouched / blockSize));
    this.#positions = positions;
    this.#next = next;
    this.#scores = scores;
    return moving.length;
  }

  /** How many free blocks `keep` needs for these rows: blocks to copy, less blocks that are freed first. */
  costOfKeeping(rows: readonly number[]): number {
    return this.#planKeep(rows).cost;
  }

  /** The slots of rows: block · blockSize + row in the block. */
  slots(from: number, to: number): number[] {
    checkNumbers("slots: the rows", [from, to]);
    const { blockSize } = this.#parts;
    const room = this.#table.length * blockSize;
    if (from > to || to > room)
      throw new InsituError(
        "invalid-argument",
        `sequence "${this.name}" has blocks for ${room} rows, and no slots for rows ${from} to ${to - 1}`,
      );
    return Array.from({ length: to - from }, (_, at) => {
      const row = from + at;
      return this.#table[Math.floor(row / blockSize)] * blockSize + (row % blockSize);
    });
  }

  /** Gives all blocks back. The sequence cannot be used afterwards. Full blocks stay in the prefix cache until the room is needed. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#parts.states?.release(this);
    // The end of a text goes first: what is left is still found from its beginning.
    for (const block of this.#table.splice(0).toReversed()) this.#parts.blocks.drop(block);
    this.#length = 0;
    this.#tokens = [];
    this.#nodes = [];
    this.#parts.forget(this);
  }

  /** For pools: throws for a sequence that was released. */
  live(what: string): void {
    if (this.#released)
      throw new InsituError("released", `${what}: sequence "${this.name}" was released and holds no block any more`);
  }

  /** For pools: makes a block this sequence's own before it is written. */
  own(column: number, rows: number): void {
    const { blocks, index } = this.#parts;
    const block = this.#table[column];
    if (blocks.references(block) === 1) {
      index.forget(block);
      return;
    }
    const fresh = blocks.take();
    try {
      this.#parts.copy(block, fresh, rows);
    } catch (error) {
      blocks.drop(fresh);
      throw error;
    }
    this.#table[column] = fresh;
    blocks.drop(block);
  }

  /** For pools: takes the blocks that more rows need, which must be available; the slots of the rows. */
  grow(tokens: readonly number[] | number): number[] {
    const { blocks, blockSize } = this.#parts;
    const count = typeof tokens === "number" ? tokens : tokens.length;
    const start = this.#length;
    const { position } = this;
    if (start % blockSize !== 0 && count > 0) this.own(Math.floor(start / blockSize), start % blockSize);
    while (this.#table.length * blockSize < start + count) this.#table.push(blocks.take());
    if (typeof tokens !== "number" && this.#tokens.length === start && position === start)
      for (const token of tokens) this.#tokens.push(token);
    if (this.#positions !== undefined) for (let at = 0; at < count; at++) this.#positions.push(position + at);
    if (this.#next !== undefined) this.#next += count;
    this.#length = start + count;
    return this.slots(start, start + count);
  }

  /** How rows that stay come together, and what that costs in blocks. Throws for rows that cannot be kept. */
  #planKeep(rows: readonly number[]): KeepPlan & { readonly cost: number } {
    this.live("keep");
    checkKept(this.name, rows, this.#length);
    const { blocks, blockSize } = this.#parts;
    const isShared = (column: number): boolean => blocks.references(this.#table[column]) > 1;
    const plan = planKeep(rows, this.#table.length, blockSize, isShared);
    const given = plan.gone.filter((column) => !isShared(column)).length;
    return { ...plan, cost: plan.written.filter(isShared).length - given };
  }
}
