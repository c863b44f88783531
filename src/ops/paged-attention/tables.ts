/** What a call of PagedAttention reads: the lengths and tables of its samples, checked before any page is read. */
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
