/** Attention's shape rule: what its operands may be together, and the shapes of its outputs. The versions differ in a few lines. */
import { addDims, type Dim, isKnown, multiplyDims, unknownDim } from "../../graph/dim.js";
import { type Fact, factText, knownIntegers } from "../../graph/fact.js";
import { elementType, flag, float, int } from "../../graph/attribute.js";
import {
  type AttributeResults,
  type CallContext,
  optional,
  type OutputFact,
  type PerParameter,
  tensor,
} from "../../graph/op.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";
import { headsOf } from "./heads.js";
import { checkMask, type MaskEnd } from "./mask.js";

/** What opset versions change: how a short mask is read, and whether head counts may stand beside 4-dimensional operands. */
export interface Version {
  readonly maskEnd: MaskEnd;
  readonly headCountsWith4D: boolean;
}

/** The operands of all versions, in order. */
export const inputs = {
  Q: tensor("T1"),
  K: tensor("T1"),
  V: tensor("T2"),
  attn_mask: optional(tensor("U")),
  past_key: optional(tensor("T1")),
  past_value: optional(tensor("T2")),
};

/** The attributes of all versions. */
export const attrs = {
  is_causal: flag(false),
  kv_num_heads: int(),
  q_num_heads: int(),
  qk_matmul_output_mode: int(0),
  scale: float(),
  softcap: float(0),
  softmax_precision: elementType(),
};

/** Operands by name; those that a version lacks are left out. */
export type Operands<V> = PerParameter<typeof inputs, V> & {
  readonly nonpad_kv_seqlen?: V | undefined;
  readonly head_sink?: V | undefined;
};

/** Attributes by name; those that a version lacks are left out. */
export type Attributes = AttributeResults<typeof attrs> & {
  readonly left_window_size?: number;
  readonly right_window_size?: number;
};

/** Outputs by name. */
export type OutputName = "Y" | "present_key" | "present_value" | "qk_matmul_output";

/** The call of a shape rule, of any version. */
interface AttentionInfer extends CallContext {
  readonly inputs: Operands<Fact>;
  readonly attrs: Attributes;
  wants(output: OutputName): boolean;
}

/** Shapes of all outputs. Fails where operands, attributes and outputs do not go together. */
export function inferAttention(call: AttentionInfer, version: Version): Record<OutputName, OutputFact> {
  const { inputs, attrs } = call;
  checkAttributes(call);
  checkCaches(call);
  checkHeadCounts(call, version);
  const query = headsOf(call, "Q", inputs.Q, { attribute: "q_num_heads", count: attrs.q_num_heads });
  const key = headsOf(call, "K", inputs.K, { attribute: "kv_num_heads", count: attrs.kv_num_heads });
  const value = headsOf(call, "V", inputs.V, { attribute: "kv_num_heads", count: attrs.kv_num_heads });
  const agree = (dims: readonly (Dim | undefined)[], rule: string): Dim =>
    dims.reduce<Dim | undefined>(
      (a, b) => (a === undefined ? b : b === undefined ? a : unifyDims(call, a, b, rule)),
      undefined,
    ) ?? unknownDim();
  const pastKey = inputs.past_key?.shape; // [batch, kv heads, past, size]
  const pastValue = inputs.past_value?.shape; // [batch, kv heads, past, value size]
  const batch = agree(
    [query.batch, key.batch, value.batch, pastKey?.[0], pastValue?.[0]],
    "Q, K, V and the past must agree in the batch",
  );
  const kvHeads = agree(
    [key.heads, value.heads, pastKey?.[1], pastValue?.[1]],
    "K, V and the past must have the same number of heads",
  );
  const size = agree([query.size, key.size, pastKey?.[3]], "Q, K and past_key must have the same head size");
  const valueSize = agree([value.size, pastValue?.[3]], "V and past_value must have the same head size");
  const fresh = agree([key.length, value.length], "K and V must have the same length");
  const past =
    inputs.past_key === undefined
      ? 0
      : agree([pastKey?.[2], pastValue?.[2]], "past_key and past_value must have the same length");
  const total = addDims(past, fresh);
  if (isKnown(query.heads) && isKnown(kvHeads)) {
    const [queryHeads, shared] = [query.heads, kvHeads];
    call.check(
      shared > 0 && queryHeads % shared === 0,
      () => `the number of heads of Q must be a multiple of that of K, got ${queryHeads} and ${shared}`,
    );
  }
  if (inputs.attn_mask !== undefined)
    checkMask(call, inputs.attn_mask, [batch, query.heads, query.length, total], version.maskEnd);
  const { nonpad_kv_seqlen: nonpad } = inputs;
  if (nonpad !== undefined) {
    checkRank(call, "nonpad_kv_seqlen", nonpad, 1);
    if (nonpad.shape !== undefined)
      unifyDims(call, nonpad.shape[0], batch, "nonpad_kv_seqlen needs one entry a sample of the batch");
  }
  if (inputs.head_sink !== undefined) checkSinks(call, inputs.head_sink, query.heads);
  const packed = inputs.Q.shape?.length === 3;
  const shape = packed
    ? [batch, query.length, multiplyDims(query.heads, valueSize)]
    : [batch, query.heads, query.length, valueSize];
  return {
    Y: { shape: inputs.Q.shape === undefined ? undefined : shape },
    present_key: { shape: [batch, kvHeads, total, size] },
    present_value: { shape: [batch, kvHeads, total, valueSize] },
    qk_matmul_output: { shape: [batch, query.heads, query.length, total] },
  };
}

/** Fails unless there is one sink a head. */
export function checkSinks(call: CallContext, sinks: Fact, heads: Dim): void {
  checkRank(call, "head_sink", sinks, 1);
  if (sinks.shape !== undefined)
    unifyDims(call, sinks.shape[0], heads, "head_sink needs one entry a head of the queries");
}

/** The checks on data: how many rows of an outer cache are valid. Of K and the past only the shapes are asked. */
export function validateAttention(call: AttentionInfer): void {
  const { K, past_key, nonpad_kv_seqlen: nonpad } = call.inputs;
  const lengths = knownIntegers(nonpad);
  const fresh = K.shape?.at(K.shape.length === 3 ? 1 : 2);
  const past = past_key === undefined ? 0 : past_key.shape?.[2];
  if (lengths !== undefined && fresh !== undefined && past !== undefined)
    checkNonpad(call, lengths, addDims(past, fresh));
}

/** Fails unless every sample's count lies in [0, keys]. A mask that covers fewer keys is padded like any other. */
export function checkNonpad(call: CallContext, lengths: readonly number[], total: Dim): void {
  lengths.forEach((length, sample) => {
    const got = `got nonpad_kv_seqlen[${sample}] = ${length}`;
    call.check(length >= 0, () => `nonpad_kv_seqlen must not be negative, ${got}`, "invalid-argument");
    if (isKnown(total))
      call.check(
        length <= total,
        () => `nonpad_kv_seqlen must not be larger than the ${total} keys of K, ${got}`,
        "invalid-argument",
      );
  });
}

function checkAttributes({ attrs, check }: AttentionInfer): void {
  const { qk_matmul_output_mode: mode, softcap, softmax_precision: precision } = attrs;
  check(
    [0, 1, 2, 3].includes(mode),
    () => `qk_matmul_output_mode must be 0, 1, 2 or 3, got ${mode}`,
    "invalid-argument",
  );
  check(softcap >= 0, () => `softcap must not be negative, got ${softcap}`, "invalid-argument");
  check(
    precision === undefined || floats.includes(precision),
    () => `softmax_precision must be ${floats.join(", ")}, got ${precision}`,
    "invalid-argument",
  );
  for (const side of ["left_window_size", "right_window_size"] as const) {
    const size = attrs[side] ?? -1;
    check(size >= -1, () => `${side} must be -1 or not negative, got ${size}`, "invalid-argument");
  }
}

function checkCaches(call: AttentionInfer): void {
  const { past_key, past_value, nonpad_kv_seqlen } = call.inputs;
  const presents = [call.wants("present_key"), call.wants("present_value")];
  call.check(
    (past_key === undefined) === (past_value === undefined),
    "past_key and past_value must be given together, got only one of them",
    "invalid-graph",
  );
  call.check(
    presents[0] === presents[1],
    "present_key and present_value must be asked for together, got only one of them",
    "invalid-graph",
  );
  checkRank(call, "past_key", past_key, 4);
  checkRank(call, "past_value", past_value, 4);
  if (nonpad_kv_seqlen === undefined) return;
  call.check(
    past_key === undefined,
    "nonpad_kv_seqlen stands for a cache written outside and must not be combined with past_key and past_value",
    "invalid-graph",
  );
  call.check(
    !presents[0],
    "nonpad_kv_seqlen stands for a cache written outside and must not be combined with present_key and present_value",
    "invalid-graph",
  );
}

function checkHeadCounts(call: AttentionInfer, version: Version): void {
  const { Q, K, V } = call.inputs;
  const counts = { q_num_heads: call.attrs.q_num_heads, kv_num_heads: call.attrs.kv_num_heads };
  for (const [name, fact] of Object.entries({ Q, K, V })) {
    checkRank(call, name, fact, 3, 4);
    call.check(
      fact.shape === undefined || Q.shape === undefined || fact.shape.length === Q.shape.length,
      () => `Q, K and V must have the same number of dimensions, got ${factText(Q)} and ${name} ${factText(fact)}`,
    );
  }
  for (const [attribute, count] of Object.entries(counts)) {
    if (count === undefined) continue;
    call.check(count > 0, () => `${attribute} must be positive, got ${count}`, "invalid-argument");
    if (Q.shape?.length !== 4) continue;
    call.check(
      version.headCountsWith4D,
      () => `${attribute} must not be given for operands of 4 dimensions, got ${count}`,
      "invalid-graph",
    );
    const fact = attribute === "q_num_heads" ? Q : K;
    if (fact.shape !== undefined)
      unifyDims(call, fact.shape[1], count, `${attribute} must be the number of heads of ${fact === Q ? "Q" : "K"}`);
  }
}
