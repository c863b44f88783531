/** PagedAttention on WebGPU: pages are read where they lie, through tables that the device reads. Computes in float32 whatever they are kept in. */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { pageHeadsOf } from "../shared/paged/strides.js";
import { acceptsAttention, recordAttention } from "../shared/webgpu/attention.js";
import type { CacheRows } from "../shared/webgpu/attention-parts.js";
import { type Heads, headsOf, tokensOf } from "../shared/webgpu/heads.js";
import { packedBatch } from "../shared/webgpu/packed-batch.js";
import { pageRowsOf } from "../shared/webgpu/page-rows.js";
import { PagedAttention } from "./op.js";

type Call = CallOf<typeof PagedAttention>;

/** Keys or values. */
const rowsOf = ({ inputs, attrs }: Call, query: Heads, cache: Operand, scales: Operand | undefined): CacheRows => {
  const { block_tables: tables, key_cache } = inputs;
  const { cache_mode: layout } = attrs;
  const pageHeads = tables.shape.length === 3 ? 1 : pageHeadsOf(layout, key_cache.shape, query.size);
  return pageRowsOf(cache, { layout, pageHeads, tables, batch: query.batch, scales });
};

const partsOf = (call: Call): { readonly query: Heads; readonly key: CacheRows; readonly value: CacheRows } => {
  const { query: Q, key_cache, value_cache, key_scale, value_scale } = call.inputs;
  const query = headsOf(Q, call.attrs.q_num_heads ?? 1);
  return {
    query,
    key: rowsOf(call, query, key_cache, key_scale),
    value: rowsOf(call, query, value_cache, value_scale),
  };
};

/** Attention over pages. */
export const pagedAttention: WebgpuKernel = webgpuKernel([PagedAttention], {
  accepts(call) {
    const { Y, attention_sums: sums } = call.outputs;
    if (Y === undefined || sums !== undefined) return "the sums are asked for";
    const gap = Object.entries(call.inputs).find(([, operand]) => operand?.contiguous === false);
    if (gap !== undefined) return `${gap[0]} has gaps`;
    if (Y.place.size === 0 || call.inputs.block_tables.place.size === 0) return "there is nothing to compute";
    const { query, key, value } = partsOf(call);
    return acceptsAttention(query, key, value, Y);
  },
  record(call, recorder) {
    const { inputs, outputs, attrs } = call;
    const { seq_lens: lengths } = inputs;
    const { query, key, value } = partsOf(call);
    const perHead = lengths.shape.length === 2;
    const output = headsOf(outputs.Y!, query.heads); // or it was not accepted
    const { packed, table } = packedBatch(inputs, recorder);
    recordAttention(
      {
        query: packed === undefined ? query : tokensOf(query),
        key,
        value,
        output: packed === undefined ? output : tokensOf(output),
        packed,
        lengths: { of: lengths, table, sample: perHead ? key.heads : 1, head: perHead ? 1 : 0, add: 0 },
        past: undefined,
        causal: attrs.is_causal,
        left: attrs.left_window_size,
        right: attrs.right_window_size,
        window: -1,
        mask: undefined,
        scale: attrs.scale ?? 1 / Math.sqrt(query.size),
        softcap: attrs.softcap,
        sink: inputs.head_sink,
      },
      recorder,
    );
  },
});
