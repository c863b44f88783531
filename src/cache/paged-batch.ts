/**
 * What one run over pages is fed: tokens of several sequences, where their rows are written, and which blocks and how many rows each sees. In one of
 * three forms; lays numbers out, and knows neither pool nor model.
 *
 *     padded   [[_, _, a0], [b0, b1, b2]]       as many tokens for each sequence, zeros in front, one table a sequence
 *     apart    [[a0], [b0], [b1], [b2]]         each token a sample with a table and a length of its own
 *     packed   [[a0], [b0], [b1], [b2]]         one table and one length a sequence, and where its tokens begin: query_starts 0, 1, 4
 */
import { packedInput, pageInputs } from "#insitu/rewrite/page-names.js";
import { Tensor } from "../tensor/tensor.js";
import { rowsOf } from "./block-pool.js";
import { int64, int64Table } from "../decoder/decoder-inputs.js";
import { usualCount, usualSequences } from "./usual-count.js";

/** A sequence's part of a run, room for its tokens included. */
export interface SequenceRows {
  /** Its blocks. */
  readonly table: readonly number[];
  /** What it reads, or how many tokens, where the host does not know them. */
  readonly tokens: readonly number[] | number;
  /** The position of the first token. */
  readonly position: number;
  /** Where each token's row is written. */
  readonly slots: readonly number[];
  /** Its rows after the run. */
  readonly length: number;
}

/** What a decoder is fed. */
export interface BatchFeeds {
  /** The tokens of each sample, equally many for all. */
  readonly tokens: readonly (readonly number[])[];
  /** The position of each sample's first token; negative for padding before a text. */
  readonly positions: readonly number[];
  /** The number of each sequence's last token among all. */
  readonly last: readonly number[];
  /** slot_mapping, block_tables, seq_lens, and query_starts in a packed batch. */
  readonly feeds: Readonly<Record<string, Tensor>>;
}

/** As many tokens for each sequence: shorter ones have zeros in front, which are written nowhere and see nothing. */
export function paddedBatch(sequences: readonly SequenceRows[], columns: number): BatchFeeds {
  const count = Math.max(...sequences.map(({ tokens }) => rowsOf(tokens)));
  const padded = <T>(list: readonly T[], by: T): T[] => [
    ...Array.from({ length: count - list.length }, () => by),
    ...list,
  ];
  return {
    tokens: sequences.map(({ tokens }) => padded(typeof tokens === "number" ? [] : tokens, 0)),
    positions: sequences.map(({ position, tokens }) => position - (count - rowsOf(tokens))),
    last: sequences.map((_, at) => (at + 1) * count - 1),
    feeds: {
      [pageInputs.slots]: int64(
        sequences.flatMap(({ slots }) => padded(slots, -1)),
        [sequences.length * count],
      ),
      [pageInputs.tables]: int64Table(tablesOf(sequences), columns),
      [pageInputs.lengths]: int64(lengthsOf(sequences), [sequences.length]),
    },
  };
}

/** Every token a sample of its own, which sees the rows up to its own; filled up to a number of samples that recurs. */
export function apartBatch(sequences: readonly SequenceRows[], columns: number): BatchFeeds {
  const { tokens, positions, slots, last } = tokensOf(sequences, usualCount);
  const samples = tokens.length;
  const lengths = new BigInt64Array(samples);
  const tables = new BigInt64Array(samples * columns).fill(-1n);
  let first = 0;
  for (const { table, tokens: read, length } of sequences) {
    const row = first * columns;
    const count = rowsOf(read);
    table.forEach((block, column) => (tables[row + column] = BigInt(block)));
    for (let index = 0; index < count; index++) {
      if (index > 0) tables.copyWithin(row + index * columns, row, row + columns);
      lengths[first + index] = BigInt(length - (count - 1 - index));
    }
    first += count;
  }
  return {
    tokens,
    positions,
    last,
    feeds: {
      [pageInputs.slots]: int64(slots, [samples]),
      [pageInputs.tables]: new Tensor("int64", tables, [samples, columns]),
      [pageInputs.lengths]: new Tensor("int64", lengths, [samples]),
    },
  };
}

/** One sequence behind the other; one that reads no token has one that is written nowhere, so that each has a last one. */
export const packedBatch = (sequences: readonly SequenceRows[], columns: number): BatchFeeds =>
  packed(
    sequences.map((own) => (rowsOf(own.tokens) > 0 ? own : { ...own, tokens: 1, slots: [-1] })),
    columns,
    false,
  );

/** The same, filled up to numbers of tokens and of sequences that recur. */
export const filledBatch = (sequences: readonly SequenceRows[], columns: number): BatchFeeds =>
  packed(sequences, columns, true);

function packed(sequences: readonly SequenceRows[], columns: number, fills: boolean): BatchFeeds {
  const { tokens, positions, slots, last } = tokensOf(sequences, fills ? usualCount : (count) => count);
  const starts = sequences.reduce((all, own) => [...all, all.at(-1)! + rowsOf(own.tokens)], [0]);
  // Tokens that fill up are those of sequences without rows: one each, where all others have no more.
  const isFilled = starts.at(-1)! < tokens.length;
  const isMixed = starts.at(-1)! > sequences.length;
  const least = sequences.length + (isFilled ? 1 : 0);
  const samples = !fills ? least : isMixed ? usualSequences(sequences.length) : usualCount(least);
  while (starts.length < samples) starts.push(isMixed ? tokens.length : Math.min(starts.at(-1)! + 1, tokens.length));
  if (starts.length <= samples) starts.push(tokens.length);
  const none = Array.from({ length: samples - sequences.length }, () => []);
  return {
    tokens,
    positions,
    last,
    feeds: {
      [pageInputs.slots]: int64(slots, [slots.length]),
      [pageInputs.tables]: int64Table([...tablesOf(sequences), ...none], columns),
      [pageInputs.lengths]: int64([...lengthsOf(sequences), ...none.map(() => 0)], [samples]),
      [packedInput]: int64(starts, [samples + 1]),
    },
  };
}

const tablesOf = (sequences: readonly SequenceRows[]): readonly (readonly number[])[] =>
  sequences.map(({ table }) => table);

const lengthsOf = (sequences: readonly SequenceRows[]): readonly number[] => sequences.map(({ length }) => length);

/** The tokens of all sequences as samples of one token, filled up with such as are written nowhere. */
function tokensOf(
  sequences: readonly SequenceRows[],
  countOf: (count: number) => number,
): {
  readonly tokens: readonly (readonly number[])[];
  readonly positions: readonly number[];
  readonly slots: readonly number[];
  readonly last: readonly number[];
} {
  const tokens: number[][] = [];
  const positions: number[] = [];
  const slots: number[] = [];
  const last: number[] = [];
  for (const { tokens: read, position, slots: own } of sequences) {
    for (let index = 0; index < rowsOf(read); index++) {
      tokens.push([typeof read === "number" ? 0 : read[index]]);
      positions.push(position + index);
      slots.push(own[index]);
    }
    last.push(tokens.length - 1);
  }
  for (let fill = countOf(tokens.length) - tokens.length; fill > 0; fill--) {
    tokens.push([0]);
    positions.push(0);
    slots.push(-1);
  }
  return { tokens, positions, slots, last };
}

/** What one of several runs needs to know of a sequence, of which each reads a token. */
export const rowsInRun = (own: SequenceRows, run: number, count: number): SequenceRows => ({
  ...own,
  position: own.position + run,
  slots: own.slots.slice(run, run + 1),
  length: own.length - (count - 1 - run),
});
