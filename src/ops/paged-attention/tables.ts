/** What a call of PagedAttention reads: the lengths, tables and query_starts of its samples, checked before any page is read. */
import { isKnown } from "../../graph/dim.js";
import { checkTables, numbersOf, type Tables } from "../shared/paged/tables.js";
import type { PagedCall, PagedSizes } from "./sizes.js";

/** Reads and checks lengths and tables; undefined where operands or shapes are not known yet. */
export function readTables(call: PagedCall, sizes: PagedSizes): Tables | undefined {
  const { block_tables, seq_lens } = call.inputs;
  const { batch, kvHeads, columns, blocks, blockSize } = sizes;
  if (!isKnown(batch) || !isKnown(kvHeads) || !isKnown(columns) || !isKnown(blocks) || !isKnown(blockSize))
    return undefined;
  const lengths = numbersOf(seq_lens);
  const entries = numbersOf(block_tables);
  if (lengths === undefined || entries === undefined) return undefined;
  const tables = {
    lengths,
    perHeadLengths: seq_lens.shape?.length === 2,
    entries,
    perHeadTables: block_tables.shape?.length === 3,
  };
  checkTables(call, tables, { batch, heads: kvHeads, columns, blocks, blockSize });
  return tables;
}

/** Reads and checks where the queries of samples begin; undefined where there is no query_starts, or where it or shapes are not known yet. */
export function readStarts(call: PagedCall, { queryBatch, queries }: PagedSizes): ArrayLike<number> | undefined {
  const starts = numbersOf(call.inputs.query_starts);
  if (starts === undefined || !isKnown(queryBatch) || !isKnown(queries)) return undefined;
  const tokens = queryBatch * queries;
  const ends: readonly (readonly [at: number, must: number, what: string])[] = [
    [0, 0, "0"],
    [starts.length - 1, tokens, `${tokens}, the tokens of query`],
  ];
  for (const [at, must, what] of ends)
    call.check(starts[at] === must, () => `query_starts[${at}] must be ${what}, got ${starts[at]}`, "invalid-argument");
  for (let at = 1; at < starts.length; at++)
    call.check(
      starts[at] >= starts[at - 1],
      () => `query_starts[${at}] must not lie before query_starts[${at - 1}] = ${starts[at - 1]}, got ${starts[at]}`,
      "invalid-argument",
    );
  return starts;
}
