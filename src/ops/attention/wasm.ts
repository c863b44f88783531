/** Attention on WASM. Computes in float32 whatever the cache is kept in. */
import type { Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import {
  appendHeads,
  type Heads,
  headsOf,
  maskAt,
  type MaskPlace,
  noMask,
  recordAttention,
  takeOver,
} from "../shared/wasm/attention.js";
import { type FloatType, isFloatType } from "../shared/wasm/work.js";
import { Attention23, Attention24, Attention25, SinkAttention } from "./op.js";

/** Attention over a cache with pitch. */
export const attention: WasmKernel = wasmKernel([Attention23, Attention24, Attention25, SinkAttention], {
  accepts({ inputs, outputs, attrs }) {
    const { Q: query, K: key, V: value, attn_mask: mask, past_key } = inputs;
    if (outputs.Y === undefined || outputs.qk_matmul_output !== undefined) return "the scores are asked for";
    if (!isFloatType(query.type) || !isFloatType(key.type) || key.type !== value.type)
      return `there is no kernel for ${query.type} queries and ${key.type}, ${value.type} caches`;
    if (query.type !== key.type) return "queries and keys differ in type";
    const precision = attrs.softmax_precision ?? query.type;
    if (precision !== query.type && precision !== "float32") return `the softmax is to be computed in ${precision}`;
    if (mask !== undefined && mask.type !== "bool" && !isFloatType(mask.type))
      return `there is no kernel for a mask of ${mask.type}`;
    if (past_key !== undefined && outputs.present_key === undefined)
      return "there is a past, but no present to join it into";
    if ([query, key, value].some((operand) => operand.strides.at(-1) !== 1 && operand.shape.at(-1) !== 1))
      return "rows have gaps";
    if (query.type === "bfloat16" && query.shape.at(-2) !== 1)
      return "ONNX rounds every stage of a bfloat16 prefill, the kernel only its result";
    if ("head_sink" in inputs && !inputs.head_sink.contiguous) return "sinks have gaps";
    const all = [query, key, value, outputs.Y];
    return all.every(({ view }) => view.size > 0) ? true : "there is nothing to compute";
  },
  record({ inputs, outputs, attrs, opset }, recorder) {
    const { Q, K, V, attn_mask: mask, past_key, past_value } = inputs;
    const lengths = "nonpad_kv_seqlen" in inputs ? inputs.nonpad_kv_seqlen : undefined;
    const sinks = "head_sink" in inputs ? inputs.head_sink : undefined;
    const { left_window_size: left, right_window_size: right } =
      "left_window_size" in attrs ? attrs : { left_window_size: -1, right_window_size: -1 };
    const query = headsOf(recorder, Q, attrs.q_num_heads);
    const key = joined(recorder, past_key, headsOf(recorder, K, attrs.kv_num_heads), outputs.present_key);
    recordAttention(recorder, {
      query,
      key,
      value: joined(recorder, past_value, headsOf(recorder, V, attrs.kv_num_heads), outputs.present_value),
      output: headsOf(recorder, outputs.Y!, query.heads), // or it was not accepted
      lengths: lengths === undefined ? 0 : recorder.address(lengths),
      past: past_key?.shape[2] ?? 0,
      causal: attrs.is_causal,
      left,
      right,
      mask: mask === undefined ? noMask : maskOf(mask, key.rows, sinks === undefined && opset < 24, recorder),
      scale: attrs.scale ?? 1 / Math.sqrt(query.size),
      softcap: attrs.softcap,
      sinks: sinks === undefined ? 0 : recorder.address(sinks),
    });
  },
});

/** The rows to attend to: past and fresh ones in the present, where it is asked for. */
function joined(recorder: Recorder, past: Operand | undefined, fresh: Heads, present: Operand | undefined): Heads {
  if (present === undefined) return fresh;
  const target = headsOf(recorder, present, undefined);
  takeOver(recorder, past && headsOf(recorder, past, undefined), target);
  appendHeads(recorder, fresh, target, past?.shape[2] ?? 0);
  return target;
}

/** A dimension of 1 broadcasts, except that from opset 24 on the keys of a short mask are padded. */
function maskOf(mask: Operand, total: number, broadcasts: boolean, recorder: Recorder): MaskPlace {
  const place = maskAt(recorder.address(mask), mask.type as FloatType | "bool", mask);
  return broadcasts && (mask.shape.at(-1) ?? 1) === 1 ? { ...place, maskKey: 0, maskLength: total } : place;
}
