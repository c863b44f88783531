/**
 * A pool of blocks that sequences share: allocation, reference counts, copy on write, prefixes that are held once. Bookkeeping only: no
 * device and no bytes; copies are asked for through a callback, for all layers at once.
 */
import {
  checkCallback,
  checkFlag,
  checkList,
  checkName,
  checkNumbers,
  checkObject,
  checkOptions,
} from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import { Blocks } from "./blocks.js";
import { type PrefixHash, PrefixIndex } from "./prefix-index.js";
import { Sequence } from "./sequence.js";
import type { StateSlots } from "./state-slots.js";

/** Options of `new BlockPool`. */
export interface BlockPoolOptions {
  /** How many blocks the pool has. */
  readonly blocks: number;
  /** Rows (tokens) in a block. */
  readonly blockSize: number;
  /** Copies the first `rows` rows of a block into another one, in every layer. */
  readonly copy?: ((from: number, to: number, rows: number) => void) | undefined;
  /**
   * False never shares blocks between sequences with the same beginning.
   * @default true
   */
  readonly sharePrefixes?: boolean | undefined;
  /**
   * The hash that finds equal beginnings. What it finds is verified token by token.
   * @default a built-in hash
   */
  readonly hash?: PrefixHash | undefined;
}

const blockPoolOptionNames: OptionNames<BlockPoolOptions> = {
  blocks: true,
  blockSize: true,
  copy: true,
  sharePrefixes: true,
  hash: true,
};

/** What the sequences of a pool share with it. */
export interface PoolParts {
  readonly blocks: Blocks;
  readonly index: PrefixIndex;
  readonly blockSize: number;
  readonly share: boolean;
  /** Where sequences keep what has no rows. */
  readonly states: StateSlots | undefined;
  copy(from: number, to: number, rows: number): void;
  forget(sequence: Sequence): void;
}

/** Rows to make room for: tokens, or a number of rows whose tokens are not known yet. */
export interface AppendEntry {
  /** The sequence that gets longer. */
  readonly sequence: Sequence;
  /** Its new tokens, or how many there are where they are not known. */
  readonly tokens: readonly number[] | number;
}

/** Blocks by what they are used for. */
export interface PoolStatistics {
  /** All of them. */
  readonly blocks: number;
  /** Rows in a block. */
  readonly blockSize: number;
  /** Used by a sequence. */
  readonly used: number;
  /** Used by more than one sequence. */
  readonly shared: number;
  /** Not in use, but kept in the prefix cache. */
  readonly kept: number;
  /** Not in use and empty. */
  readonly free: number;
  /** Blocks copied because a sequence was about to write one that it shared. */
  readonly copies: number;
}

/** One block as a picture shows it. */
export interface BlockDescription {
  /** The block's number in the pool. */
  readonly block: number;
  /** "used" by a sequence; "kept" in the prefix cache but not in use; or "free". */
  readonly state: "used" | "kept" | "free";
  /** How many sequences use the block. */
  readonly references: number;
  /** Rows in use, as far as the sequence with the most of them goes. */
  readonly rows: number;
  /** The sequences that use the block, and which of their blocks it is. */
  readonly holders: readonly { readonly sequence: string; readonly column: number }[];
}

/** More blocks than this cannot be asked for: all of them are counted one by one. */
const mostBlocks = 2 ** 24;

/** A pool of cache blocks that sequences share, with a prefix cache: the bookkeeping of paged caches, without tensors. */
export class BlockPool {
  /** Rows in a block. */
  readonly blockSize: number;
  readonly #parts: PoolParts;
  readonly #sequences = new Map<string, Sequence>();
  #named = 0;
  #copies = 0;

  /** `states`: for paged states, where a sequence keeps more than rows. */
  constructor(options: BlockPoolOptions, states?: StateSlots) {
    checkOptions("the options of a pool", options, blockPoolOptionNames);
    const { blocks, blockSize, copy = () => {}, sharePrefixes = true, hash } = options;
    for (const [name, given] of Object.entries({ blocks, blockSize }))
      if (!Number.isSafeInteger(given) || given < 1)
        throw new InsituError(
          "invalid-argument",
          `a pool's ${name} must be a whole number above 0, got ${valueText(given)}`,
        );
    if (blocks > mostBlocks)
      throw new InsituError("invalid-argument", `a pool has at most ${mostBlocks} blocks, got ${blocks}`);
    checkCallback("a pool's copy", copy);
    checkFlag("a pool's sharePrefixes", sharePrefixes);
    checkCallback("a pool's hash", hash);
    const index = new PrefixIndex(hash);
    this.blockSize = blockSize;
    this.#parts = {
      blocks: new Blocks(blocks, index),
      index,
      blockSize,
      share: sharePrefixes,
      states,
      copy: (from, to, rows) => {
        copy(from, to, rows);
        this.#copies++;
      },
      forget: (sequence) => this.#sequences.delete(sequence.name),
    };
  }

  /** The sequences that hold blocks, in the order in which they came. */
  get sequences(): readonly Sequence[] {
    return [...this.#sequences.values()];
  }

  /** How many blocks there are. */
  get blocks(): number {
    return this.#parts.blocks.count;
  }

  /** Blocks copied so far because a sequence was about to write one that it shared. */
  get copies(): number {
    return this.#copies;
  }

  /** Blocks by what they are used for. */
  get statistics(): PoolStatistics {
    const { blocks } = this.#parts;
    let shared = 0;
    for (let block = 0; block < blocks.count; block++) if (blocks.references(block) > 1) shared++;
    return {
      blocks: blocks.count,
      blockSize: this.blockSize,
      used: blocks.count - blocks.available,
      shared,
      kept: blocks.kept,
      free: blocks.free,
      copies: this.#copies,
    };
  }

  /** Rows that can still be appended to new blocks. */
  get room(): number {
    return this.#parts.blocks.available * this.blockSize;
  }

  /** A new, empty sequence. It shares beginnings with those of the same salt only. */
  add(name?: string, salt = ""): Sequence {
    checkName("the name of a sequence", name);
    if (typeof salt !== "string")
      throw new InsituError("invalid-argument", `the salt of a sequence must be text, got ${valueText(salt)}`);
    let free = name;
    while (free === undefined || (name === undefined && this.#sequences.has(free))) free = `sequence ${++this.#named}`;
    if (this.#sequences.has(free))
      throw new InsituError("invalid-argument", `the pool has a sequence "${free}" already; release it first`);
    const sequence = new Sequence(this, this.#parts, free, salt);
    this.#sequences.set(free, sequence);
    return sequence;
  }

  /** Makes room for rows of several sequences; the slots of each one's rows. Where not all fit, nothing changes. */
  append(entries: readonly AppendEntry[]): number[][] {
    checkEntries(entries);
    const { blocks } = this.#parts;
    const needed = this.#neededBy(entries);
    if (needed > blocks.available)
      throw this.exhausted(
        needed,
        entries.map(({ sequence, tokens }) => `${rowsOf(tokens)} rows of "${sequence.name}"`).join(", "),
      );
    const before = entries.map(({ sequence }) => [sequence.length, sequence.position] as const);
    try {
      return entries.map(({ sequence, tokens }) => sequence.grow(tokens));
    } catch (error) {
      entries.forEach(({ sequence }, at) => sequence.truncate(...before[at]));
      throw error;
    }
  }

  /** Throws for a table that reads outside the pool, names a block that is not in use, or has too few blocks for a length. */
  checkTable(table: readonly number[], length: number, who = "a block table"): void {
    const { blocks } = this.#parts;
    const needed = Math.ceil(length / this.blockSize);
    if (!Number.isSafeInteger(length) || length < 0 || needed > table.length)
      throw new InsituError(
        "invalid-argument",
        `${who}: a length of ${length} rows needs ${needed} blocks of ${this.blockSize}, the table has ${table.length}`,
      );
    for (const [column, block] of table.slice(0, needed).entries()) {
      if (!Number.isSafeInteger(block) || block < 0 || block >= blocks.count)
        throw new InsituError(
          "invalid-argument",
          `${who}: entry ${column} is block ${block}, which lies outside the pool of ${blocks.count} blocks`,
        );
      if (blocks.references(block) === 0)
        throw new InsituError(
          "invalid-state",
          `${who}: entry ${column} is block ${block}, which was freed: no sequence holds it`,
        );
    }
  }

  /** Empties the prefix cache: forgets the contents of blocks that are not in use. */
  forgetPrefixes(): void {
    this.#parts.states?.forget();
    this.#parts.blocks.clear();
  }

  /** What each block is used for. */
  describe(): BlockDescription[] {
    const { blocks, index } = this.#parts;
    const holders: { sequence: Sequence; column: number }[][] = Array.from({ length: blocks.count }, () => []);
    for (const sequence of this.#sequences.values())
      sequence.table.forEach((block, column) => holders[block].push({ sequence, column }));
    return holders.map((held, block) => ({
      block,
      state: held.length > 0 ? "used" : blocks.isKept(block) ? "kept" : "free",
      references: blocks.references(block),
      rows: Math.max(
        index.of(block) === undefined ? 0 : this.blockSize,
        ...held.map(({ sequence, column }) => Math.min(this.blockSize, sequence.length - column * this.blockSize)),
      ),
      holders: held.map(({ sequence, column }) => ({ sequence: sequence.name, column })),
    }));
  }

  /** The error of a pool that is full: it names who holds the blocks. */
  exhausted(needed: number, what: string): InsituError {
    const { blocks } = this.#parts;
    const held = this.sequences
      .filter(({ table }) => table.length > 0)
      .toSorted((a, b) => b.table.length - a.table.length)
      .map(({ name, table }) => {
        const shared = table.filter((block) => blocks.references(block) > 1).length;
        return `"${name}" holds ${table.length}${shared === 0 ? "" : ` (${shared} shared)`}`;
      });
    const listed = held.length > 8 ? [...held.slice(0, 8), `${held.length - 8} more`] : held;
    return new InsituError(
      "out-of-memory",
      `the pool of ${blocks.count} blocks of ${this.blockSize} rows is full: ${what} need${needed === 1 ? "s" : ""} ${needed} more, ${blocks.available} are left;${listed
        .map((each) => ` ${each},`)
        .join("")
        .replace(/,$/, ";")} release or truncate a sequence, or make the pool larger`,
    );
  }

  /** Blocks that an append takes: new ones, and copies of shared ones that are not full. The last user of a block needs no copy. */
  #neededBy(entries: readonly AppendEntry[]): number {
    const { blocks } = this.#parts;
    const left = new Map<number, number>();
    const seen = new Set<Sequence>();
    let needed = 0;
    for (const { sequence, tokens } of entries) {
      const count = rowsOf(tokens);
      sequence.live("append");
      if (sequence.pool !== this)
        throw new InsituError("invalid-argument", `append: sequence "${sequence.name}" belongs to another pool`);
      if (seen.has(sequence))
        throw new InsituError("invalid-argument", `append: sequence "${sequence.name}" is named twice`);
      if (!Number.isSafeInteger(count) || count < 0)
        throw new InsituError("invalid-argument", `append: "${sequence.name}" cannot grow by ${valueText(count)} rows`);
      seen.add(sequence);
      needed += Math.ceil((sequence.length + count) / this.blockSize) - sequence.table.length;
      if (sequence.length % this.blockSize === 0 || count === 0) continue;
      const last = sequence.table.at(-1)!;
      const users = left.get(last) ?? blocks.references(last);
      if (users > 1) {
        needed++;
        left.set(last, users - 1);
      }
    }
    return needed;
  }
}

/** Throws for what names no sequences of a pool, with tokens or a number of rows. */
function checkEntries(entries: readonly AppendEntry[]): void {
  checkList("append: the entries", entries);
  for (const entry of entries) {
    checkObject("append: an entry", entry);
    if (!Sequence.isSequence(entry.sequence))
      throw new InsituError("invalid-argument", `append: an entry needs a sequence, got ${valueText(entry.sequence)}`);
    if (typeof entry.tokens !== "number") checkNumbers(`append: the tokens of "${entry.sequence.name}"`, entry.tokens);
  }
}

/** Rows that tokens take, or that many. */
export const rowsOf = (tokens: readonly number[] | number): number =>
  typeof tokens === "number" ? tokens : tokens.length;
