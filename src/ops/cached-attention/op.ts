/**
 * CachedAttention: the rows of a step written into the caches, and attention over them, with the norms of heads and the rotary embedding
 * before. No operator of ONNX's: the passes make it of the nodes that write, those that attend and the nodes around them, for backends that do all
 * of it at once.
 *
 *     Q, K ──▶ [heads normalized] ──▶ [RotaryEmbedding] ─┬▶ past_key ──▶ present_key ───┐
 *     V ─────────────────────────────────────────────────┴▶ past_value ▶ present_value ─┴▶ attention ──▶ Y
 *
 * Q, K and V have heads side by side; where K and V are left out, Q holds all three. How the caches lie decides who writes and who attends:
 *
 *     linear, [batch, heads, rows, size] or [batch, rows, heads · size]    TensorScatter at write_indices, Attention over nonpad_kv_seqlen rows
 *     pages, where there are block_tables, as `cache_mode` says            ScatterPaKvCache to slot_mapping, PagedAttention over seq_lens rows
 *
 * With query_starts a batch on pages is packed, as PagedAttention has it; head_sink is a score for each head that brings no value.
 */
import { flag, float, int, oneOf, required } from "../../graph/attribute.js";
import {
  float as floatValue,
  int as intValue,
  ints as intsValue,
  string as stringValue,
} from "../../graph/attribute-values.js";
import { overwrittenParts } from "../../graph/call.js";
import { update } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { View } from "../../tensor/view.js";
import { Attention25, SinkAttention } from "../attention/op.js";
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
import { TensorScatter } from "../tensor-scatter/op.js";
import { Transpose } from "../transpose/op.js";

/** What decides the body. */
interface CachedCall extends TurningCall {
  readonly inputs: TurningCall["inputs"] & {
    readonly write_indices: unknown;
    readonly past_key: { readonly shape?: readonly unknown[] | undefined };
    readonly block_tables: unknown;
    readonly query_starts: unknown;
    readonly head_sink: unknown;
  };
  readonly attrs: TurningCall["attrs"] & {
    readonly cache_mode: "Norm" | "NHSD";
    readonly is_causal: boolean;
    readonly scale: number;
    readonly softcap: number;
    readonly mode: "linear" | "circular";
    readonly left_window_size: number;
    readonly right_window_size: number;
  };
}

const isPaged = ({ inputs }: CachedCall): boolean => inputs.block_tables !== undefined;

const toHeads = { perm: intsValue([0, 2, 1, 3]) };

/** The writes of both caches. */
function writeSteps(key: string, value: string, call: CachedCall): readonly BodyStep[] {
  const { cache_mode: layout, mode } = call.attrs;
  if (isPaged(call)) {
    const operands = [key, "past_key", "slot_mapping", value, "past_value"];
    const presents = ["present_key", "present_value"];
    const named = layout === "NHSD" ? "scatter_mode" : "cache_mode";
    return [step(ScatterPaKvCache, operands, presents, { [named]: stringValue(layout) })];
  }
  const attributes = { axis: intValue(call.inputs.past_key.shape?.length === 4 ? 2 : 1), mode: stringValue(mode) };
  const indices = call.inputs.write_indices === undefined ? undefined : "write_indices";
  return [
    step(TensorScatter, ["past_key", key, indices], ["present_key"], attributes),
    step(TensorScatter, ["past_value", value, indices], ["present_value"], attributes),
  ];
}

function bodyOf(call: CachedCall): readonly BodyStep[] {
  const { inputs, attrs } = call;
  const { q_num_heads: heads, kv_num_heads: shared, head_size: size } = attrs;
  const paged = isPaged(call);
  const apart = !paged && inputs.past_key.shape?.length === 4;
  const { query, key, value, steps: turning } = turnedHeads(call);
  const steps: BodyStep[] = [...turning];
  const then = (op: BodyStep["op"], operands: BodyStep["inputs"], result: string, attributes = {}): string => {
    steps.push(step(op, operands, [result], attributes));
    return result;
  };
  const cut = (name: string, ...shape: readonly number[]): string =>
    then(Reshape, [name, integers(...shape)], `${name} apart`);
  const inFront = (name: string, count: number): string =>
    apart ? then(Transpose, [cut(name, 0, 0, count, size)], `${name} first`, toHeads) : name;
  const queries = inFront(query, heads);
  const [keys, values] = [key, value].map((rows) => (paged ? cut(rows, -1, shared, size) : inFront(rows, shared)));
  steps.push(...writeSteps(keys, values, call));
  const operands = [queries, "present_key", "present_value"];
  const attributes = {
    is_causal: intValue(attrs.is_causal ? 1 : 0),
    scale: floatValue(attrs.scale),
    softcap: floatValue(attrs.softcap),
    left_window_size: intValue(attrs.left_window_size),
    right_window_size: intValue(attrs.right_window_size),
    ...(apart ? {} : { q_num_heads: intValue(heads), kv_num_heads: intValue(shared) }),
  };
  if (paged) {
    const given = (["query_starts", "head_sink"] as const).map((name) =>
      inputs[name] === undefined ? undefined : name,
    );
    const packed = given.some((name) => name !== undefined) ? [undefined, undefined, ...given] : [];
    then(PagedAttention, [...operands, "block_tables", "seq_lens", ...packed], "Y", {
      ...attributes,
      cache_mode: stringValue(attrs.cache_mode),
    });
    return steps;
  }
  const lengths = [undefined, undefined, undefined, "nonpad_kv_seqlen"];
  const [op, sinks] = inputs.head_sink === undefined ? [Attention25, []] : [SinkAttention, ["head_sink"]];
  const attended = then(op, [...operands, ...lengths, ...sinks], apart ? "attended" : "Y", attributes);
  if (apart) then(Reshape, [then(Transpose, [attended], "rows", toHeads), integers(0, 0, heads * size)], "Y");
  return steps;
}

/** Writes a step's rows into the caches and attends over them. */
export const CachedAttention = defineOp({
  name: "CachedAttention",
  domain: "insitu",
  since: 1,
  types: { T: ["float32", "float16", "bfloat16"], I: indexTypes, B: indexTypes, L: indexTypes, S: indexTypes },
  inputs: {
    Q: tensor("T"),
    K: optional(tensor("T")),
    V: optional(tensor("T")),
    past_key: tensor("T"),
    past_value: tensor("T"),
    write_indices: optional(tensor("int64")),
    nonpad_kv_seqlen: optional(tensor("int64")),
    cos_cache: optional(tensor("T")),
    sin_cache: optional(tensor("T")),
    position_ids: optional(tensor("int64")),
    q_norm_scale: optional(tensor("T")),
    k_norm_scale: optional(tensor("T")),
    slot_mapping: optional(tensor("I")),
    block_tables: optional(tensor("B")),
    seq_lens: optional(tensor("L")),
    query_starts: optional(tensor("S")),
    head_sink: optional(tensor("T")),
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
    cache_mode: modeOf(["Norm", "NHSD"], "Norm"),
    interleaved: flag(false),
    rotary_embedding_dim: int(0),
    epsilon: float(Math.fround(1e-5)),
    left_window_size: int(-1),
    right_window_size: int(-1),
    /** The axis of rows of linear caches. */
    axis: int(),
  },
  effects: {
    present_key: update("past_key", { along: "axis", brings: { input: "Q", axis: 1 } }),
    present_value: update("past_value", { along: "axis", brings: { input: "Q", axis: 1 } }),
  },
  lengths: { start: "write_indices", end: "nonpad_kv_seqlen", wraps: ({ mode }) => mode === "circular" },
  rows: { window: ({ left_window_size: left }) => (left < 0 ? undefined : left + 1) },
  looksAt: [
    "write_indices",
    "nonpad_kv_seqlen",
    "position_ids",
    "slot_mapping",
    "block_tables",
    "seq_lens",
    "query_starts",
  ],
  validate: (call) => validateComposed(call, bodyOf),
  overwrites(call) {
    const { inputs, outputs } = call;
    const { kv_num_heads: shared, head_size: size } = call.attrs;
    const [batch, rows] = inputs.Q.shape;
    const shape = isPaged(call)
      ? [inputs.slot_mapping!.shape[0], shared, size]
      : inputs.past_key.shape.length === 4
        ? [batch, shared, rows, size]
        : [batch, rows, shared * size];
    // Only the shape of what is written is looked at.
    const written = ({ type, data, offset }: View): View =>
      new View(
        type,
        shape,
        data,
        offset,
        shape.map(() => 0),
      );
    const views: Readonly<Record<string, View | readonly View[] | undefined>> = {
      ...inputs,
      key: written(inputs.past_key),
      value: written(inputs.past_value),
      present_key: outputs.present_key ?? inputs.past_key,
      present_value: outputs.present_value ?? inputs.past_value,
    };
    const find = (name: BodyStep["inputs"][number]): View | undefined =>
      typeof name === "string" ? (views[name] as View | undefined) : name;
    const parts = (present: "present_key" | "present_value"): readonly View[] =>
      writeSteps("key", "value", call).flatMap((write) =>
        overwrittenParts(
          callableOf(write, call.label),
          write.inputs.map(find),
          write.outputs.map(find),
          (position) => write.outputs[position] === present && outputs[present] !== undefined,
        ),
      );
    return { present_key: parts("present_key"), present_value: parts("present_value") };
  },
  infer(call) {
    const {
      K,
      V,
      nonpad_kv_seqlen: lengths,
      slot_mapping: slots,
      block_tables: tables,
      seq_lens: counts,
    } = call.inputs;
    const both = (K === undefined) === (V === undefined);
    call.check(both, "K and V are given together, or neither where Q holds all three", "invalid-graph");
    const whole = [slots, tables, counts].every((each) => (each === undefined) === (lengths !== undefined));
    call.check(
      whole,
      "linear caches need nonpad_kv_seqlen; pages slot_mapping, block_tables and seq_lens in its place",
      "invalid-graph",
    );
    const linear = lengths !== undefined;
    call.check(
      linear === (call.attrs.axis !== undefined),
      "linear caches, and no others, have an axis",
      "invalid-graph",
    );
    return inferComposed(bodyOf(call), call.label, call.inputs, ["Y", "present_key", "present_value"]);
  },
  work: ({ inputs }) => attentionSteps(inputs.Q, inputs.K, inputs.past_key),
  reference: (call) => runComposed(bodyOf(call), call.label, call.inputs, call.outputs),
});
