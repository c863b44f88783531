/**
 * PagedAttention: attention over keys and values that lie in pages, read where they lie. Block tables say which pages are a
 * sample's, lengths how many of their rows are valid after this step's write. Writes no cache.
 *
 * With query_starts the batch is packed (a variable-length batch): samples have any number of queries each, which stand one sample behind the
 * other in `query`, those of sample i from query_starts[i] up to query_starts[i + 1]. `query` has a batch of 1 then, or a batch of tokens.
 *
 * head_sink has a score for each head that takes part in every softmax and brings no value.
 */
import { flag, float, int } from "../../graph/attribute.js";
import { multiplyDims } from "../../graph/dim.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { attentionPageTypes, modeOf } from "../shared/paged/layouts.js";
import { indexTypes } from "../shared/rules/types.js";
import { attendPages } from "./reference.js";
import { sizesOf } from "./sizes.js";
import { readStarts, readTables } from "./tables.js";
import { eachWithEach } from "../shared/rules/work.js";

/** Attends over the pages that `block_tables` names, `seq_lens` rows of them. */
export const PagedAttention = defineOp({
  name: "PagedAttention",
  domain: "insitu",
  since: 1,
  types: { T: ["float32", "float16", "bfloat16"], C: attentionPageTypes, B: indexTypes, L: indexTypes, S: indexTypes },
  inputs: {
    query: tensor("T"),
    key_cache: tensor("C"),
    value_cache: tensor("C"),
    block_tables: tensor("B"),
    seq_lens: tensor("L"),
    key_scale: optional(tensor("float32")),
    value_scale: optional(tensor("float32")),
    query_starts: optional(tensor("S")),
    head_sink: optional(tensor("T")),
  },
  outputs: { Y: tensor("T"), attention_sums: optional(tensor("float32")) },
  attrs: {
    cache_mode: modeOf(["Norm", "PA_NZ", "NHSD"], "Norm"),
    is_causal: flag(false),
    kv_num_heads: int(),
    q_num_heads: int(),
    scale: float(),
    softcap: float(0),
    left_window_size: int(-1),
    right_window_size: int(-1),
  },
  rows: { window: ({ left_window_size: left }) => (left < 0 ? undefined : left + 1) },

  infer(call) {
    const { batch, heads, queryBatch, queries, valueSize, columns, blockSize } = sizesOf(call);
    const { shape } = call.inputs.query;
    return {
      Y: {
        shape:
          shape &&
          (shape.length === 3
            ? [queryBatch, queries, multiplyDims(heads, valueSize)]
            : [queryBatch, heads, queries, valueSize]),
      },
      attention_sums: { shape: [batch, heads, multiplyDims(columns, blockSize)] },
    };
  },

  looksAt: ["block_tables", "seq_lens", "query_starts"],
  validate(call) {
    const sizes = sizesOf(call);
    readTables(call, sizes);
    readStarts(call, sizes);
  },

  work: ({ inputs }) => eachWithEach(inputs.query, inputs.key_cache, inputs.block_tables),

  reference(call) {
    attendPages(call);
  },
});
