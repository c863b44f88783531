/** Attention on WebGPU, over caches with pitch. Computes in float32 whatever the cache is kept in. */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel, type WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { acceptsAttention, appendHeads, maskPlace, recordAttention, takeOver } from "../shared/webgpu/attention.js";
import { acceptsRows, type Heads, headsOf } from "../shared/webgpu/heads.js";
import { Attention23, Attention24, Attention25 } from "./op.js";

type Call = CallOf<typeof Attention23 | typeof Attention24 | typeof Attention25>;

const floats: readonly string[] = ["float32", "float16", "bfloat16"];

const partsOf = ({ inputs: { Q, K, V }, attrs }: Call): Record<"query" | "key" | "value", Heads> => ({
  query: headsOf(Q, attrs.q_num_heads ?? 1),
  key: headsOf(K, attrs.kv_num_heads ?? 1),
  value: headsOf(V, attrs.kv_num_heads ?? 1),
});

/** Attention over a cache that is written outside, or joined inside. */
export const attention: WebgpuKernel = webgpuKernel([Attention23, Attention24, Attention25], {
  accepts(call) {
    const { inputs, outputs, attrs } = call;
    const { Q, K, V, attn_mask: mask, past_key, past_value } = inputs;
    const { Y, present_key, present_value } = outputs;
    if (Y === undefined || outputs.qk_matmul_output !== undefined) return "the scores are asked for";
    if (Q.type !== K.type || !floats.includes(Q.type) || !floats.includes(V.type))
      return `there is no kernel for ${Q.type} queries and ${K.type}, ${V.type} caches`;
    if (Q.type === "bfloat16" && Q.shape.at(-2) !== 1)
      return "ONNX rounds every stage of a bfloat16 prefill, the kernel only its result";
    const precision = attrs.softmax_precision ?? Q.type;
    if (precision !== Q.type && precision !== "float32") return `the softmax is to be computed in ${precision}`;
    if (mask !== undefined && mask.type !== "bool" && !floats.includes(mask.type))
      return `there is no kernel for a mask of ${mask.type}`;
    if (past_key !== undefined && present_key === undefined) return "there is a past, but no present to join it into";
    const caches = [past_key, past_value, present_key, present_value];
    for (const operand of [Q, K, V, ...caches])
      if (operand !== undefined && acceptsRows(operand) !== true) return acceptsRows(operand);
    const written = [present_key?.place.buffer, present_value?.place.buffer];
    if ([Q, K, V].some(({ place }) => written.includes(place.buffer))) return "the rows lie in the cache itself";
    if (Y.place.size === 0 || K.place.size === 0) return "there is nothing to compute";
    const { query, key, value } = partsOf(call);
    return acceptsAttention(query, key, value, Y);
  },
  record(call, recorder) {
    const { inputs, outputs, attrs, opset } = call;
    const { attn_mask: mask, past_key, past_value } = inputs;
    const { query, key: freshKey, value: freshValue } = partsOf(call);
    const key = joined(past_key, freshKey, outputs.present_key, recorder);
    const value = joined(past_value, freshValue, outputs.present_value, recorder);
    const lengths = "nonpad_kv_seqlen" in inputs ? inputs.nonpad_kv_seqlen : undefined;
    const windows = "left_window_size" in attrs ? attrs : undefined;
    recordAttention(
      {
        query,
        key,
        value,
        output: headsOf(outputs.Y!, query.heads), // or it was not accepted
        lengths: lengths && { of: lengths, sample: 1, head: 0, add: 0 },
        past: lengths === undefined ? (past_key?.shape[2] ?? 0) : undefined,
        causal: attrs.is_causal,
        left: windows?.left_window_size ?? -1,
        right: windows?.right_window_size ?? -1,
        window: -1,
        mask: mask && maskPlace(mask, key.rows, opset < 24),
        scale: attrs.scale ?? 1 / Math.sqrt(query.size),
        softcap: attrs.softcap,
        sink: undefined,
      },
      recorder,
    );
  },
});

/** The rows to attend to: past and fresh ones in the present, where it is asked for. */
function joined(
  past: Operand | undefined,
  fresh: Heads,
  present: Operand | undefined,
  recorder: WebgpuRecorder,
): Heads {
  if (present === undefined) return fresh;
  const target = headsOf(present, fresh.heads);
  takeOver(past && headsOf(past, fresh.heads), target, recorder);
  appendHeads(fresh, target, past?.shape[2] ?? 0, recorder);
  return target;
}
