/** Attention over pages, quantised pages and repacking as plain functions on tensors. The operators' rules are theirs. */
import type { PagedLayout } from "#insitu/ops/shared/paged/layouts.js";
import type { Tensor } from "#insitu/tensor/tensor.js";
import { callOperator, readArguments } from "./call-operator.js";

/** Operands of `pagedAttention`. Index tensors are int32 or int64. */
interface PagedAttentionInputs {
  /** [batch, heads, length, size], or [batch, length, heads * size] with `qNumHeads`. */
  readonly query: Tensor;
  readonly keyCache: Tensor;
  readonly valueCache: Tensor;
  /** [batch, columns], or [batch, kv heads, columns] for pages of one head. */
  readonly blockTables: Tensor;
  /** [batch] or [batch, kv heads]: valid rows after this step's write. */
  readonly seqLens: Tensor;
  /** float32 [blocks, block size, heads]: for pages of int8 and float8. */
  readonly keyScale?: Tensor | undefined;
  readonly valueScale?: Tensor | undefined;
  /** [samples + 1]: where each sample's tokens begin in a packed batch, and the end; the query's batch or its length is 1 then. */
  readonly queryStarts?: Tensor | undefined;
  /** [heads], of the query's type: scores that take part in each softmax and bring no value. */
  readonly headSink?: Tensor | undefined;
}

/** Attributes of `pagedAttention`. */
interface PagedAttentionOptions {
  readonly cacheMode?: PagedLayout | "" | null;
  readonly isCausal?: boolean;
  readonly qNumHeads?: number;
  readonly kvNumHeads?: number;
  readonly scale?: number;
  readonly softcap?: number;
  readonly leftWindowSize?: number;
  readonly rightWindowSize?: number;
  /** Asks for `attentionSums` too. */
  readonly attentionSums?: boolean;
}

/** Attention over pages; with `attentionSums` also each row's probability, summed over the queries: [batch, heads, rows]. */
export function pagedAttention(
  inputs: PagedAttentionInputs,
  given?: PagedAttentionOptions,
): { y: Tensor; attentionSums: Tensor | undefined } {
  const { attentionSums, cacheMode, ...rest } = readArguments("ops.pagedAttention", inputs, given);
  const { Y, attention_sums } = callOperator({
    name: "PagedAttention",
    domain: "insitu",
    label: "ops.pagedAttention",
    inputs: {
      query: inputs.query,
      key_cache: inputs.keyCache,
      value_cache: inputs.valueCache,
      block_tables: inputs.blockTables,
      seq_lens: inputs.seqLens,
      key_scale: inputs.keyScale,
      value_scale: inputs.valueScale,
      query_starts: inputs.queryStarts,
      head_sink: inputs.headSink,
    },
    outputs: attentionSums === true ? ["Y", "attention_sums"] : ["Y"],
    options: { ...rest, cacheMode: cacheMode ?? "" },
  });
  return { y: Y, attentionSums: attention_sums };
}

/** Operands of `quantizedScatterPaKvCache`. */
interface QuantizedScatterPaKvCacheInputs {
  /** [tokens, heads, size] */
  readonly key: Tensor;
  /** int8, float8e4m3fn or float8e5m2. */
  readonly keyCache: Tensor;
  /** float32 [blocks, block size, heads] */
  readonly keyScale: Tensor;
  /** [tokens]. Negative entries are skipped. */
  readonly slotMapping: Tensor;
  readonly value: Tensor;
  readonly valueCache: Tensor;
  readonly valueScale: Tensor;
}

/** Quantises keys and values and writes them into pages. With `inPlace`, the tensors returned are those given. */
export function quantizedScatterPaKvCache(
  inputs: QuantizedScatterPaKvCacheInputs,
  given?: { readonly cacheMode?: PagedLayout | "" | null; readonly inPlace?: boolean },
): { keyCache: Tensor; keyScale: Tensor; valueCache: Tensor; valueScale: Tensor } {
  const options = readArguments("ops.quantizedScatterPaKvCache", inputs, given);
  const { key_cache, key_scale, value_cache, value_scale } = callOperator({
    name: "QuantizedScatterPaKvCache",
    domain: "insitu",
    label: "ops.quantizedScatterPaKvCache",
    inputs: {
      key: inputs.key,
      key_cache: inputs.keyCache,
      key_scale: inputs.keyScale,
      slot_mapping: inputs.slotMapping,
      value: inputs.value,
      value_cache: inputs.valueCache,
      value_scale: inputs.valueScale,
    },
    outputs: ["key_cache", "key_scale", "value_cache", "value_scale"],
    options: { ...options, cacheMode: options.cacheMode ?? "" },
  });
  return { keyCache: key_cache, keyScale: key_scale, valueCache: value_cache, valueScale: value_scale };
}

/** Operands of `repackCache`. */
interface RepackCacheInputs {
  readonly cache: Tensor;
  /** [batch, n] or [batch, heads, n]: the row that each row becomes; −1 leaves it. */
  readonly rows: Tensor;
  /** [batch, columns]: the cache is pages, and rows are counted through its table. */
  readonly blockTables?: Tensor | undefined;
}

/** Moves rows within a cache. With `inPlace`, the cache returned is the one given. */
export function repackCache(
  inputs: RepackCacheInputs,
  given?: { readonly axis?: number; readonly cacheMode?: PagedLayout | "" | null; readonly inPlace?: boolean },
): { cache: Tensor } {
  const options = readArguments("ops.repackCache", inputs, given);
  const { cache } = callOperator({
    name: "RepackCache",
    domain: "insitu",
    label: "ops.repackCache",
    inputs: { cache: inputs.cache, rows: inputs.rows, block_tables: inputs.blockTables },
    outputs: ["cache"],
    options: { ...options, cacheMode: options.cacheMode ?? "" },
  });
  return { cache };
}
