/** Attention's reference implementation: writes the present, then attends over it. */
import { readIntegers, readNumbers } from "../../tensor/access.js";
import { cloneView, copyView } from "../../tensor/copy.js";
import type { View } from "../../tensor/view.js";
import type { CallContext } from "../../graph/op.js";
import { attend, type ScoresMode } from "./attend.js";
import { headsView } from "./heads.js";
import { type Attributes, checkNonpad, type Operands, type OutputName, type Version } from "./infer.js";
import { biasOf } from "./mask.js";

/** The call of the reference implementation, of any version. */
interface AttentionCall extends CallContext {
  readonly inputs: Operands<View>;
  readonly outputs: { readonly [N in OutputName]: View | undefined };
  readonly attrs: Attributes;
}

/** Computes every output that is asked for. */
export function runAttention(call: AttentionCall, version: Version): void {
  const { inputs, outputs, attrs } = call;
  const { past_key: pastKey, past_value: pastValue, attn_mask: mask } = inputs;
  const kvHeads = attrs.kv_num_heads ?? inputs.K.shape[1];
  const queries = headsView(inputs.Q, attrs.q_num_heads ?? inputs.Q.shape[1]); // [batch, heads, queries, size]
  const freshKeys = headsView(inputs.K, kvHeads); // [batch, kv heads, fresh, size]
  const freshValues = headsView(inputs.V, kvHeads); // [batch, kv heads, fresh, value size]
  const past = pastKey?.shape[2] ?? 0;
  const total = past + freshKeys.shape[2];
  const nonpad = inputs.nonpad_kv_seqlen && readIntegers(inputs.nonpad_kv_seqlen);
  if (nonpad !== undefined) checkNonpad(call, nonpad, total);
  const scores = outputs.qk_matmul_output;
  attend({
    queries,
    keys: join(pastKey, freshKeys, outputs.present_key),
    values: join(pastValue, freshValues, outputs.present_value),
    output: outputs.Y && headsView(outputs.Y, queries.shape[1]),
    scores: scores && { view: scores, mode: attrs.qk_matmul_output_mode as ScoresMode },
    placement: {
      queries: queries.shape[2],
      total,
      past,
      nonpad,
      causal: attrs.is_causal,
      left: attrs.left_window_size ?? -1,
      right: attrs.right_window_size ?? -1,
    },
    bias: mask && biasOf(mask, queries.type, version.maskEnd),
    scale: attrs.scale ?? 1 / Math.sqrt(queries.shape[3]),
    softcap: attrs.softcap,
    softmaxType: attrs.softmax_precision ?? queries.type,
    sinks: inputs.head_sink && readNumbers(inputs.head_sink),
  });
}

/** The past followed by the fresh rows, written into `present` where it is asked for. The past stays where it already stands there. */
function join(past: View | undefined, fresh: View, present: View | undefined): readonly View[] {
  if (present === undefined) return past === undefined ? [fresh] : [past, fresh];
  const length = past?.shape[2] ?? 0;
  if (past !== undefined) {
    const target = present.slice(2, 0, length);
    if (past.data !== target.data) copyView(past, target);
    else if (past.offset !== target.offset || past.strides.some((stride, axis) => stride !== target.strides[axis]))
      copyView(cloneView(past), target);
  }
  copyView(fresh, present.slice(2, length, present.shape[2]));
  return [present];
}
