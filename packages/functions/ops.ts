/** The operators as plain functions on tensors: functional by default, in place with `{ inPlace: true }`. */
import type { ElementType } from "#insitu/tensor/element-type.js";
import type { Tensor } from "#insitu/tensor/tensor.js";
import { pagedAttention, quantizedScatterPaKvCache, repackCache } from "./paged-attention.js";
import { convertPagedLayout, gatherPaKvCache, scatterPaKvCache, slotMapping } from "./paged.js";
import { callOperator, type CallOptions, type OptionValue, readArguments } from "./call-operator.js";

/** Operands of `tensorScatter`. */
interface TensorScatterInputs {
  readonly pastCache: Tensor;
  readonly update: Tensor;
  /** int64 [batch]; zeros when left out. */
  readonly writeIndices?: Tensor | undefined;
}

/** Attributes of `tensorScatter`. */
interface TensorScatterOptions extends CallOptions {
  readonly axis?: number;
  readonly mode?: "linear" | "circular";
}

/** Writes `update` into the cache at `writeIndices`, along `axis`. With `inPlace`, `presentCache` is `pastCache` itself. */
function tensorScatter(inputs: TensorScatterInputs, given?: TensorScatterOptions): { presentCache: Tensor } {
  const options = readArguments("ops.tensorScatter", inputs, given);
  const { present_cache } = callOperator({
    name: "TensorScatter",
    label: "ops.tensorScatter",
    inputs: { past_cache: inputs.pastCache, update: inputs.update, write_indices: inputs.writeIndices },
    outputs: ["present_cache"],
    options: { ...options },
  });
  return { presentCache: present_cache };
}

/** Operands of `attention`. */
interface AttentionInputs {
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  readonly attnMask?: Tensor | undefined;
  readonly pastKey?: Tensor | undefined;
  readonly pastValue?: Tensor | undefined;
  /** int64 [batch]: valid keys after this step's write. */
  readonly nonpadKvSeqlen?: Tensor | undefined;
}

/** Attributes of `attention`. ONNX's own spellings (`is_causal`) are understood too. */
interface AttentionOptions extends CallOptions {
  readonly isCausal?: boolean | number;
  readonly qNumHeads?: number;
  readonly kvNumHeads?: number;
  readonly scale?: number;
  readonly softcap?: number;
  readonly softmaxPrecision?: ElementType;
  /** Asks for `qkMatmulOutput` too, taken at this point. */
  readonly qkMatmulOutputMode?: 0 | 1 | 2 | 3;
  readonly leftWindowSize?: number;
  readonly rightWindowSize?: number;
  readonly [onnxSpelling: string]: OptionValue;
}

/** What `attention` makes: the presents where there is a past, the scores where a mode asks for them. */
interface AttentionResults {
  readonly y: Tensor;
  readonly presentKey?: Tensor;
  readonly presentValue?: Tensor;
  readonly qkMatmulOutput?: Tensor;
}

/** Scaled dot-product attention. */
function attention(inputs: AttentionInputs, given?: AttentionOptions): AttentionResults {
  const options: AttentionOptions = readArguments("ops.attention", inputs, given);
  const { q, k, v, attnMask, pastKey, pastValue, nonpadKvSeqlen } = inputs;
  const scores = options.qkMatmulOutputMode !== undefined || options["qk_matmul_output_mode"] !== undefined;
  const { Y, present_key, present_value, qk_matmul_output } = callOperator({
    name: "Attention",
    label: "ops.attention",
    inputs: {
      Q: q,
      K: k,
      V: v,
      attn_mask: attnMask,
      past_key: pastKey,
      past_value: pastValue,
      nonpad_kv_seqlen: nonpadKvSeqlen,
    },
    outputs: [
      "Y",
      ...(pastKey === undefined ? [] : ["present_key", "present_value"]),
      ...(scores ? ["qk_matmul_output"] : []),
    ],
    options,
  });
  return {
    y: Y,
    ...(present_key === undefined ? {} : { presentKey: present_key }),
    ...(present_value === undefined ? {} : { presentValue: present_value }),
    ...(qk_matmul_output === undefined ? {} : { qkMatmulOutput: qk_matmul_output }),
  };
}

/**
 * ONNX's cache and attention operators as functions on tensors, without a model.
 * @example
 * ```ts
 * import { ops, Tensor } from "insitu";
 *
 * const cache = new Tensor("float32", new Float32Array(8), [1, 4, 2]);
 * const row = new Tensor("float32", [1, 2], [1, 1, 2]);
 * const at = new Tensor("int64", [2n], [1]);
 * ops.tensorScatter({ pastCache: cache, update: row, writeIndices: at }, { inPlace: true });
 * console.log(cache.data);
 * ```
 */
export const ops: {
  readonly tensorScatter: typeof tensorScatter;
  readonly attention: typeof attention;
  readonly scatterPaKvCache: typeof scatterPaKvCache;
  readonly gatherPaKvCache: typeof gatherPaKvCache;
  readonly slotMapping: typeof slotMapping;
  readonly convertPagedLayout: typeof convertPagedLayout;
  readonly pagedAttention: typeof pagedAttention;
  readonly quantizedScatterPaKvCache: typeof quantizedScatterPaKvCache;
  readonly repackCache: typeof repackCache;
} = {
  tensorScatter,
  attention,
  scatterPaKvCache,
  gatherPaKvCache,
  slotMapping,
  convertPagedLayout,
  pagedAttention,
  quantizedScatterPaKvCache,
  repackCache,
};
