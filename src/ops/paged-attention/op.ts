/**
 * PagedAttention: attention over keys and values that lie in pages, read where they lie. Block tables say which pages are a
 * sample's, lengths how many of their rows are valid after this step's write. Writes no cache.
 *
 * With query_starts the batch is packed (a variable-length batch): samples have any number of queries each, which stand one sample behind the
 * other in `query`, those of sample i from query_starts[i] up to query_starts[i + 1]. `query` has a batch of 1 then, or a batch of tokens.
 *
 * head_sink has a score for each head that takes part in every softmax and brings no value.
 */
import { multiplyDims } from "../../graph/dim.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { attentionPageTypes } from "../shared/paged/layouts.js";
import { indexTypes } from "../shared/rules/types.js";
import { attendPages } from "./reference.js";
import { attrs, inputs, sizesOf } from "./sizes.js";
import { readStarts, readTables } from "./tables.js";
import { eachWithEach } from "../shared/rules/work.js";

/** Attends over the pages that `block_tables` names, `seq_lens` rows of them. */
export const PagedAttention = defineOp({
  name: "PagedAttention",
  domain: "insitu",
  since: 1,
  types: { T: ["float32", "float16", "bfloat16"], C: attentionPageTypes, B: indexTypes, L: indexTypes, S: indexTypes },
  inputs,
  outputs: { Y: tensor("T"), attention_sums: optional(tensor("float32")) },
  attrs,
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
