/**
 * Block tables and lengths as data: reads them, and refuses what points outside the pool or past a table. Reads no page, writes
 * nothing. Entries behind the blocks that a length needs are not looked at.
 */
import { type Fact, knownView } from "../../../graph/fact.js";
import type { CallContext } from "../../../graph/op.js";
import { readNumbers } from "../../../tensor/access.js";
import { View } from "../../../tensor/view.js";

/** The integers of an operand as numbers, where they are known. Past 2^53 they are rounded, which no rule here can miss. */
export function numbersOf(operand: Fact | View | undefined): ArrayLike<number> | undefined {
  const view = operand === undefined || operand instanceof View ? operand : knownView(operand);
  return view && readNumbers(view);
}

/** `[3]`, or `[3,1]` for an entry of one head. */
const entryText = (sample: number, head: number | undefined): string =>
  head === undefined ? `[${sample}]` : `[${sample},${head}]`;

/** What a table is checked against. */
interface TableBounds {
  readonly batch: number;
  /** Tables or lengths of their own for so many heads; 1 where a sample has one of each. */
  readonly heads: number;
  readonly columns: number;
  readonly blocks: number;
  readonly blockSize: number;
}

/** Valid rows of each sample, or of each head of each sample; the blocks that hold them. */
export interface Tables {
  readonly lengths: ArrayLike<number>;
  readonly perHeadLengths: boolean;
  readonly entries: ArrayLike<number>;
  readonly perHeadTables: boolean;
}

/** Fails unless every length lies in its table, and every block it needs in the pool. */
export function checkTables(call: CallContext, tables: Tables, bounds: TableBounds): void {
  const { lengths, perHeadLengths, entries, perHeadTables } = tables;
  const { batch, columns, blocks, blockSize } = bounds;
  const heads = perHeadLengths || perHeadTables ? bounds.heads : 1;
  const room = columns * blockSize;
  for (let sample = 0; sample < batch; sample++) {
    let checked = 0; // columns of a table that all heads share
    for (let head = 0; head < heads; head++) {
      const length = lengths[perHeadLengths ? sample * heads + head : sample];
      const lengthHead = perHeadLengths ? head : undefined;
      if (!(length >= 0))
        call.fail(`seq_lens${entryText(sample, lengthHead)} must not be negative, got ${length}`, "invalid-argument");
      if (length > room)
        call.fail(
          `seq_lens${entryText(sample, lengthHead)} must be at most the ${room} rows of its table, ${columns} blocks of ${blockSize}, got ${length}`,
          "invalid-argument",
        );
      const needed = Math.ceil(length / blockSize);
      const start = (perHeadTables ? sample * heads + head : sample) * columns;
      for (let column = perHeadTables ? 0 : checked; column < needed; column++) {
        const block = entries[start + column];
        if (block >= 0 && block < blocks) continue;
        const at = perHeadTables ? `[${sample},${head},${column}]` : `[${sample},${column}]`;
        call.fail(
          `block_tables${at} must lie in [0, ${blocks - 1}], the blocks of the pool, since seq_lens${entryText(sample, lengthHead)} = ${length} needs it; got ${block}`,
          "invalid-argument",
        );
      }
      checked = Math.max(checked, needed);
    }
  }
}
