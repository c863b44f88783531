/**
 * Attention on WebGPU, over caches with pitch: by tiles, in float32 whatever the cache is kept in, or stage by stage where the scores are asked
 * for or ONNX's rounding between stages shows.
 */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel, type WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { acceptsAttention, appendHeads, maskPlace, recordAttention, takeOver } from "../shared/webgpu/attention.js";
import { acceptsRows, type Heads, headsOf } from "../shared/webgpu/heads.js";
import type { AttentionWork } from "../shared/webgpu/attention-parts.js";
import { Attention23, Attention24, Attention25, SinkAttention } from "./op.js";
import { mostScores, recordStages } from "./webgpu-stages.js";

type Call = CallOf<typeof Attention23 | typeof Attention24 | typeof Attention25 | typeof SinkAttention>;

const floats: readonly string[] = ["float32", "float16", "bfloat16"];

const partsOf = ({ inputs: { Q, K, V }, attrs }: Call): Record<"query" | "key" | "value", Heads> => ({
  query: headsOf(Q, attrs.q_num_heads ?? 1),
  key: headsOf(K, attrs.kv_num_heads ?? 1),
  value: headsOf(V, attrs.kv_num_heads ?? 1),
});

/** Scores of a prefill in bfloat16 up to which every stage is rounded, as ONNX's cases tell; beyond, results are the more exact ones of tiles. */
const mostRoundedScores = 1 << 22;

/** How many scores a call has. */
function scoreCount(call: Call): number {
  const { query, key } = partsOf(call);
  return query.batch * query.heads * query.rows * ((call.inputs.past_key?.shape[2] ?? 0) + key.rows);
}

/** What no way to compute it takes. */
function acceptsCall({ inputs, outputs }: Call): true | string {
  const { Q, K, V, attn_mask: mask, past_key, past_value } = inputs;
  const { present_key, present_value } = outputs;
  if (Q.type !== K.type || !floats.includes(Q.type) || !floats.includes(V.type))
    return `there is no kernel for ${Q.type} queries and ${K.type}, ${V.type} caches`;
  if (mask !== undefined && mask.type !== "bool" && !floats.includes(mask.type))
    return `there is no kernel for a mask of ${mask.type}`;
  if (past_key !== undefined && present_key === undefined) return "there is a past, but no present to join it into";
  const caches = [past_key, past_value, present_key, present_value];
  for (const operand of [Q, K, V, ...caches])
    if (operand !== undefined && acceptsRows(operand) !== true) return acceptsRows(operand);
  const written = [present_key?.place.buffer, present_value?.place.buffer];
  if ([Q, K, V].some(({ place }) => written.includes(place.buffer))) return "the rows lie in the cache itself";
  return Q.place.size === 0 || K.place.size === 0 ? "there is nothing to compute" : true;
}

/** What a call attends to, the present joined before. */
function workOf(call: Call, recorder: WebgpuRecorder): Omit<AttentionWork, "output" | "sink"> {
  const { inputs, outputs, attrs, opset } = call;
  const { attn_mask: mask, past_key, past_value } = inputs;
  const { query, key: freshKey, value: freshValue } = partsOf(call);
  const key = joined(past_key, freshKey, outputs.present_key, recorder);
  const value = joined(past_value, freshValue, outputs.present_value, recorder);
  const lengths = "nonpad_kv_seqlen" in inputs ? inputs.nonpad_kv_seqlen : undefined;
  const windows = "left_window_size" in attrs ? attrs : undefined;
  return {
    query,
    key,
    value,
    lengths: lengths && { of: lengths, sample: 1, head: 0, add: 0 },
    past: lengths === undefined ? (past_key?.shape[2] ?? 0) : undefined,
    causal: attrs.is_causal,
    left: windows?.left_window_size ?? -1,
    right: windows?.right_window_size ?? -1,
    window: -1,
    mask: mask && maskPlace(mask, key.rows, opset < 24 && !("head_sink" in inputs)),
    scale: attrs.scale ?? 1 / Math.sqrt(query.size),
    softcap: attrs.softcap,
  };
}

const served = [Attention23, Attention24, Attention25] as const;

/** Attention over a cache that is written outside, or joined inside. */
const byTiles: WebgpuKernel = webgpuKernel([...served, SinkAttention], {
  accepts(call) {
    const { inputs, outputs, attrs } = call;
    const { Q } = inputs;
    const { Y } = outputs;
    if (Y === undefined || outputs.qk_matmul_output !== undefined) return "the scores are asked for";
    if (Q.type === "bfloat16" && Q.shape.at(-2) !== 1 && scoreCount(call) <= mostRoundedScores)
      return "ONNX rounds every stage of a bfloat16 prefill, tiles only its result";
    const precision = attrs.softmax_precision ?? Q.type;
    if (precision !== Q.type && precision !== "float32") return `the softmax is to be computed in ${precision}`;
    if ("head_sink" in inputs && !inputs.head_sink.contiguous) return "sinks have gaps";
    const accepted = acceptsCall(call);
    if (accepted !== true) return accepted;
    const { query, key, value } = partsOf(call);
    return acceptsAttention(query, key, value, Y);
  },
  record(call, recorder) {
    const { Y } = call.outputs;
    const work = workOf(call, recorder);
    const sink = "head_sink" in call.inputs ? call.inputs.head_sink : undefined;
    // Y is there, or it was not accepted.
    recordAttention({ ...work, output: headsOf(Y!, work.query.heads), sink }, recorder);
  },
});

/** The same with its stages in memory. */
const byStages: WebgpuKernel = webgpuKernel(served, {
  accepts(call) {
    const { Q } = call.inputs;
    const { Y, qk_matmul_output: scores } = call.outputs;
    const precision = call.attrs.softmax_precision ?? Q.type;
    if (!floats.includes(precision)) return `the softmax is to be computed in ${precision}`;
    const accepted = acceptsCall(call);
    if (accepted !== true) return accepted;
    const count = scoreCount(call);
    if (count > mostScores) return `${count} scores are more than the ${mostScores} that are held at once`;
    if (scores !== undefined && (!scores.contiguous || scores.place.offset !== 0)) return "the scores have gaps";
    const { query, key, value } = partsOf(call);
    return Y === undefined ? true : acceptsAttention(query, key, value, Y);
  },
  record(call, recorder) {
    const { Y, qk_matmul_output: scores } = call.outputs;
    const { qk_matmul_output_mode: mode, softmax_precision: precision } = call.attrs;
    const work = workOf(call, recorder);
    const output = Y && headsOf(Y, work.query.heads);
    const softmaxType = precision ?? work.query.type;
    recordStages({ ...work, output, scores: scores && { of: scores, mode }, softmaxType }, recorder);
  },
});

/** By tiles where they give what is asked for, else stage by stage. */
export const attention: readonly WebgpuKernel[] = [byTiles, byStages];

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
