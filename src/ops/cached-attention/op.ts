/**
 * CachedAttention: the rows of a step written into the caches, and attention over them, with the norms of heads and the rotary embedding
 * before. No operator of ONNX's: the passes make it of TensorScatter, Attention and the nodes around them, for backends that do all of it at
 * once.
 *
 *     Q, K ──▶ [heads normalized] ──▶ [RotaryEmbedding] ─┬▶ TensorScatter past_key ──▶ present_key ───┐
 *     V ─────────────────────────────────────────────────┴▶ TensorScatter past_value ▶ present_value ─┴▶ Attention ──▶ Y
 *
 * Q, K and V have heads side by side; where K and V are left out, Q holds all three. Caches are [batch, heads, rows, size] or
 * [batch, rows, heads · size].
 */
import { flag, float, int, oneOf, required } from "../../graph/attribute.js";
import { update } from "../../graph/effect.js";
import { float as floatValue, int as intValue, ints as intsValue } from "../../graph/attribute-values.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import type { View } from "../../tensor/view.js";
import { Attention25 } from "../attention/op.js";
import { Reshape14 as Reshape } from "../reshape/op.js";
import { writeStep, writtenParts } from "../shared/families/cache-writes.js";
import {
  type BodyStep,
  inferComposed,
  integers,
  runComposed,
  step,
  validateComposed,
} from "../shared/families/composed.js";
import { turnedHeads, type TurningCall } from "../shared/families/turned-heads.js";
import { attentionSteps } from "../shared/rules/work.js";
import { Transpose } from "../transpose/op.js";

/** What decides the body. */
interface CachedCall extends TurningCall {
  readonly inputs: TurningCall["inputs"] & {
    readonly write_indices: unknown;
    readonly past_key: { readonly shape?: readonly unknown[] | undefined };
  };
  readonly attrs: TurningCall["attrs"] & {
    readonly is_causal: boolean;
    readonly scale: number;
    readonly softcap: number;
    readonly mode: "linear" | "circular";
    readonly left_window_size: number;
    readonly right_window_size: number;
  };
}

const toHeads = { perm: intsValue([0, 2, 1, 3]) };

/** The write of one cache. */
const scatterStep = (which: "key" | "value", rows: string, { inputs, attrs }: CachedCall): BodyStep =>
  writeStep(which, rows, {
    axis: inputs.past_key.shape?.length === 4 ? 2 : 1,
    mode: attrs.mode,
    hasIndices: inputs.write_indices !== undefined,
  });

function bodyOf(call: CachedCall): readonly BodyStep[] {
  const { inputs, attrs } = call;
  const { q_num_heads: heads, kv_num_heads: shared, head_size: size } = attrs;
  const apart = inputs.past_key.shape?.length === 4;
  const turned = turnedHeads(call);
  const steps: BodyStep[] = [...turned.steps];
  const then = (op: BodyStep["op"], operands: BodyStep["inputs"], result: string, attributes = {}): string => {
    steps.push(step(op, operands, [result], attributes));
    return result;
  };
  const laid = (name: string, count: number): string =>
    apart
      ? then(Transpose, [then(Reshape, [name, integers(0, 0, count, size)], `${name} apart`)], `${name} first`, toHeads)
      : name;
  const query = laid(turned.query, heads);
  steps.push(scatterStep("key", laid(turned.key, shared), call));
  steps.push(scatterStep("value", laid(turned.value, shared), call));
  const operands = [query, "present_key", "present_value", undefined, undefined, undefined, "nonpad_kv_seqlen"];
  const attended = then(Attention25, operands, apart ? "attended" : "Y", {
    is_causal: intValue(attrs.is_causal ? 1 : 0),
    scale: floatValue(attrs.scale),
    softcap: floatValue(attrs.softcap),
    left_window_size: intValue(attrs.left_window_size),
    right_window_size: intValue(attrs.right_window_size),
    ...(apart ? {} : { q_num_heads: intValue(heads), kv_num_heads: intValue(shared) }),
  });
  if (apart) then(Reshape, [then(Transpose, [attended], "rows", toHeads), integers(0, 0, heads * size)], "Y");
  return steps;
}

/** Writes a step's rows into the caches and attends over them. */
export const CachedAttention = defineOp({
  name: "CachedAttention",
  domain: "insitu",
  since: 1,
  types: { T: ["float32", "float16", "bfloat16"] },
  inputs: {
    Q: tensor("T"),
    K: optional(tensor("T")),
    V: optional(tensor("T")),
    past_key: tensor("T"),
    past_value: tensor("T"),
    write_indices: optional(tensor("int64")),
    nonpad_kv_seqlen: tensor("int64"),
    cos_cache: optional(tensor("T")),
    sin_cache: optional(tensor("T")),
    position_ids: optional(tensor("int64")),
    q_norm_scale: optional(tensor("T")),
    k_norm_scale: optional(tensor("T")),
  },
  outputs: { Y: tensor("T"), present_key: optional(tensor("T")), present_value: optional(tensor("T")) },
  attrs: {
    q_num_heads: required(int()),
    kv_num_heads: required(int()),
    head_size: required(int()),
    is_causal: flag(false),
    scale: float(1),
    softcap: float(0),
    mode: oneOf(["linear", "circular"], "linear"),
    interleaved: flag(false),
    rotary_embedding_dim: int(0),
    epsilon: float(Math.fround(1e-5)),
    left_window_size: int(-1),
    right_window_size: int(-1),
    /** The caches' axis of rows. */
    axis: required(int()),
  },
  effects: {
    present_key: update("past_key", { along: "axis", brings: { input: "Q", axis: 1 } }),
    present_value: update("past_value", { along: "axis", brings: { input: "Q", axis: 1 } }),
  },
  lengths: { start: "write_indices", end: "nonpad_kv_seqlen", wraps: ({ mode }) => mode === "circular" },
  rows: { window: ({ left_window_size: left }) => (left < 0 ? undefined : left + 1) },
  looksAt: ["write_indices", "nonpad_kv_seqlen", "position_ids"],
  validate: (call) => validateComposed(call, bodyOf),
  overwrites(call) {
    const { past_key: past, Q, write_indices } = call.inputs;
    const { kv_num_heads: shared, head_size: size } = call.attrs;
    const [batch, rows] = Q.shape;
    const shape = past.shape.length === 4 ? [batch, shared, rows, size] : [batch, rows, shared * size];
    const parts = (which: "key" | "value", present: View | undefined): readonly View[] =>
      writtenParts(
        scatterStep(which, "rows", call),
        call.label,
        call.inputs[`past_${which}`],
        shape,
        write_indices,
        present,
      );
    return {
      present_key: parts("key", call.outputs.present_key),
      present_value: parts("value", call.outputs.present_value),
    };
  },
  infer(call) {
    const both = (call.inputs.K === undefined) === (call.inputs.V === undefined);
    call.check(both, "K and V are given together, or neither where Q holds all three", "invalid-graph");
    return inferComposed(bodyOf(call), call.label, call.inputs, ["Y", "present_key", "present_value"]);
  },
  work: ({ inputs }) => attentionSteps(inputs.Q, inputs.K, inputs.past_key),
  reference: (call) => runComposed(bodyOf(call), call.label, call.inputs, call.outputs),
});
