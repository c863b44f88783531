/**
 * PagedCachedAttention: the rows of a step written into pages, and attention over the pages of each sample, with the norms of heads and the
 * rotary embedding before. No operator of ONNX's: the passes make it of ScatterPaKvCache, PagedAttention and the nodes around them, for backends
 * that do all of it at once.
 *
 *     Q, K ──▶ [heads normalized] ──▶ [RotaryEmbedding] ─┬▶ ScatterPaKvCache slot_mapping ──▶ present_key ───┐
 *     V ─────────────────────────────────────────────────┴──────────────────────────────────▶ present_value ─┴▶ PagedAttention ──▶ Y
 *
 * Q, K and V have heads side by side; where K and V are left out, Q holds all three. With query_starts the batch is packed, as PagedAttention
 * has it.
 */
import { flag, float, int, required } from "../../graph/attribute.js";
import { float as floatValue, int as intValue, string as stringValue } from "../../graph/attribute-values.js";
import { overwrittenParts } from "../../graph/call.js";
import { update } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { View } from "../../tensor/view.js";
import { PagedAttention } from "../paged-attention/op.js";
import { Reshape14 as Reshape } from "../reshape/op.js";
import { ScatterPaKvCache } from "../scatter-pa-kv-cache/op.js";
import {
  type BodyStep,
  callableOf,
  inferComposed,
  integers,
  runComposed,
  step,
  validateComposed,
} from "../shared/families/composed.js";
import { turnedHeads, type TurningCall } from "../shared/families/turned-heads.js";
import { modeOf } from "../shared/paged/layouts.js";
import { indexTypes } from "../shared/rules/types.js";
import { attentionSteps } from "../shared/rules/work.js";

/** What decides the body. */
interface PagedCall extends TurningCall {
  readonly inputs: TurningCall["inputs"] & { readonly query_starts: unknown };
  readonly attrs: TurningCall["attrs"] & {
    readonly cache_mode: "Norm" | "NHSD";
    readonly is_causal: boolean;
    readonly scale: number;
    readonly softcap: number;
    readonly left_window_size: number;
    readonly right_window_size: number;
  };
}

/** The write of both caches. */
const scatterStep = (key: string, value: string, { attrs }: PagedCall): BodyStep =>
  step(
    ScatterPaKvCache,
    [key, "past_key", "slot_mapping", value, "past_value"],
    ["present_key", "present_value"],
    attrs.cache_mode === "NHSD" ? { scatter_mode: stringValue("NHSD") } : { cache_mode: stringValue(attrs.cache_mode) },
  );

function bodyOf(call: PagedCall): readonly BodyStep[] {
  const { attrs } = call;
  const { q_num_heads: heads, kv_num_heads: shared, head_size: size } = attrs;
  const { steps, query, key, value } = turnedHeads(call);
  const packed = call.inputs.query_starts === undefined ? [] : [undefined, undefined, "query_starts"];
  const vectors = (rows: string): BodyStep => step(Reshape, [rows, integers(-1, shared, size)], [`${rows} apart`], {});
  return [
    ...steps,
    vectors(key),
    vectors(value),
    scatterStep(`${key} apart`, `${value} apart`, call),
    step(PagedAttention, [query, "present_key", "present_value", "block_tables", "seq_lens", ...packed], ["Y"], {
      cache_mode: stringValue(attrs.cache_mode),
      is_causal: intValue(attrs.is_causal ? 1 : 0),
      q_num_heads: intValue(heads),
      kv_num_heads: intValue(shared),
      scale: floatValue(attrs.scale),
      softcap: floatValue(attrs.softcap),
      left_window_size: intValue(attrs.left_window_size),
      right_window_size: intValue(attrs.right_window_size),
    }),
  ];
}

/** Writes a step's rows into pages and attends over them. */
export const PagedCachedAttention = defineOp({
  name: "PagedCachedAttention",
  domain: "insitu",
  since: 1,
  types: { T: ["float32", "float16", "bfloat16"], I: indexTypes, B: indexTypes, L: indexTypes, S: indexTypes },
  inputs: {
    Q: tensor("T"),
    K: optional(tensor("T")),
    V: optional(tensor("T")),
    past_key: tensor("T"),
    past_value: tensor("T"),
    slot_mapping: tensor("I"),
    block_tables: tensor("B"),
    seq_lens: tensor("L"),
    cos_cache: optional(tensor("T")),
    sin_cache: optional(tensor("T")),
    position_ids: optional(tensor("int64")),
    q_norm_scale: optional(tensor("T")),
    k_norm_scale: optional(tensor("T")),
    query_starts: optional(tensor("S")),
  },
  outputs: { Y: tensor("T"), present_key: optional(tensor("T")), present_value: optional(tensor("T")) },
  attrs: {
    q_num_heads: required(int()),
    kv_num_heads: required(int()),
    head_size: required(int()),
    cache_mode: modeOf(["Norm", "NHSD"], "Norm"),
    is_causal: flag(false),
    scale: float(1),
    softcap: float(0),
    interleaved: flag(false),
    rotary_embedding_dim: int(0),
    epsilon: float(Math.fround(1e-5)),
    left_window_size: int(-1),
    right_window_size: int(-1),
  },
  effects: { present_key: update("past_key"), present_value: update("past_value") },
  rows: { window: ({ left_window_size: left }) => (left < 0 ? undefined : left + 1) },
  looksAt: ["slot_mapping", "block_tables", "seq_lens", "position_ids", "query_starts"],
  validate: (call) => validateComposed(call, bodyOf),
  overwrites(call) {
    const { past_key, past_value, slot_mapping } = call.inputs;
    const { present_key, present_value } = call.outputs;
    const { kv_num_heads: shared, head_size: size } = call.attrs;
    // Only the shape of what is written is looked at.
    const written = ({ type, data, offset }: View): View =>
      new View(type, [slot_mapping.shape[0], shared, size], data, offset, [0, 0, 0]);
    const [keys, values] = [written(past_key), written(past_value)];
    const parts = (which: number): readonly View[] =>
      overwrittenParts(
        callableOf(scatterStep("keys", "values", call), call.label),
        [keys, past_key, slot_mapping, values, past_value],
        [present_key ?? past_key, present_value ?? past_value],
        (position) => position === which,
      );
    return { present_key: parts(0), present_value: parts(1) };
  },
  infer(call) {
    const both = (call.inputs.K === undefined) === (call.inputs.V === undefined);
    call.check(both, "K and V are given together, or neither where Q holds all three", "invalid-graph");
    return inferComposed(bodyOf(call), call.label, call.inputs, ["Y", "present_key", "present_value"]);
  },
  work: ({ inputs }) => attentionSteps(inputs.Q, inputs.K, inputs.past_key),
  reference: (call) => runComposed(bodyOf(call), call.label, call.inputs, call.outputs),
});
