/** PagedCachedAttention on WebGPU: the heads are turned and written into their slots by one dispatch, and the pages attended over where they lie. */
import { type CallOf, isInPlace } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { pageStrides } from "../shared/paged/strides.js";
import { recordAttention } from "../shared/webgpu/attention.js";
import type { CacheRows } from "../shared/webgpu/attention-parts.js";
import { type Heads, headsOf, tokensOf } from "../shared/webgpu/heads.js";
import { packedBatch } from "../shared/webgpu/packed-batch.js";
import { acceptsFresh, freshHeads, headTurnings } from "../shared/webgpu/fresh-heads.js";
import { moveRows, placeOf } from "../shared/webgpu/rows.js";
import { ownTable } from "../shared/webgpu/tables.js";
import { type SlotPlaces, turnIntoPages } from "../shared/webgpu/turn-into-pages.js";
import { PagedCachedAttention } from "./op.js";

type Call = CallOf<typeof PagedCachedAttention>;

/** Keys or values: where slots are written, and rows read through the tables. */
function pagesOf({ inputs, outputs, attrs }: Call, which: "key" | "value", query: Heads): SlotPlaces & CacheRows {
  const { block_tables: tables } = inputs;
  const of = outputs[`present_${which}`]!; // or it was not accepted
  const { blockSize, size, block, row, head, piece, pieceStep } = pageStrides(
    attrs.cache_mode,
    of.shape,
    attrs.kv_num_heads,
  );
  const columns = tables.shape.at(-1)!;
  return {
    of,
    type: of.type,
    offset: of.place.offset,
    batch: query.batch,
    heads: attrs.kv_num_heads,
    rows: columns * blockSize,
    size,
    sample: 0,
    head,
    row,
    blockSize,
    block,
    pages: {
      tables,
      tableSample: columns,
      tableHead: 0,
      blockSize,
      block,
      piece,
      pieceStep,
      scales: undefined,
      scaleHeads: attrs.kv_num_heads,
    },
  };
}

/** Writes a step's rows into pages and attends. */
export const pagedCachedAttention: WebgpuKernel = webgpuKernel([PagedCachedAttention], {
  accepts(call) {
    const { inputs, outputs } = call;
    const { Y, present_key, present_value } = outputs;
    if (Y === undefined || present_key === undefined || present_value === undefined)
      return "not both of output and presents are asked for";
    const { past_key, past_value, slot_mapping, block_tables, seq_lens, query_starts } = inputs;
    const numbers = [slot_mapping, block_tables, seq_lens, query_starts];
    for (const operand of [past_key, past_value, present_key, present_value, ...numbers])
      if (operand?.contiguous === false) return "caches, slots or tables have gaps";
    if (present_key.place.buffer === present_value.place.buffer) return "both caches lie in one buffer";
    if (block_tables.place.size === 0) return "there is nothing to compute";
    return acceptsFresh(call, Y, [present_key, present_value]);
  },
  record(call, recorder) {
    const { inputs, outputs, attrs } = call;
    for (const [past, present] of [
      [inputs.past_key, outputs.present_key!],
      [inputs.past_value, outputs.present_value!],
    ])
      if (!isInPlace(past, present)) {
        const copy = { name: "copyCache", type: past.type, shape: past.shape };
        const ends = { source: placeOf(past), target: placeOf(present) };
        for (const dispatch of moveRows({ ...copy, ...ends }, recorder.device)) recorder.dispatch(dispatch);
      }
    const { query, key, value } = freshHeads(call);
    const [keys, values] = [pagesOf(call, "key", query), pagesOf(call, "value", query)];
    const { slot_mapping: slots, position_ids: positions } = inputs;
    const turnings = headTurnings(call, positions && ownTable("positions", positions), recorder);
    const turned = turnIntoPages({ query, key, value, turnings, slots, keys, values }, recorder);
    const output = headsOf(outputs.Y!, attrs.q_num_heads); // or it was not accepted
    const { packed, table } = packedBatch(inputs, recorder);
    recordAttention(
      {
        query: packed === undefined ? turned : tokensOf(turned),
        key: keys,
        value: values,
        output: packed === undefined ? output : tokensOf(output),
        packed,
        lengths: { of: inputs.seq_lens, table, sample: 1, head: 0, add: 0 },
        past: undefined,
        causal: attrs.is_causal,
        left: attrs.left_window_size,
        right: attrs.right_window_size,
        window: -1,
        mask: undefined,
        scale: attrs.scale,
        softcap: attrs.softcap,
        sink: undefined,
      },
      recorder,
    );
  },
});
