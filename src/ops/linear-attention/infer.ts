/** LinearAttention's shape rule: which operands each update rule takes, how their packed dimensions agree, and which head reads which. */
import { type Dim, divideExactly, isKnown, multiplyDims, shapeText, unknownDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { float, int, oneOf, required } from "../../graph/attribute.js";
import {
  type AttributeResults,
  type CallContext,
  optional,
  type OutputFact,
  type PerParameter,
  tensor,
} from "../../graph/op.js";
import { headsOf } from "../attention/heads.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { checkWindow, stateShape } from "../shared/rules/state-window.js";

/** The operands, in order. */
export const inputs = {
  query: tensor("T"),
  key: tensor("T"),
  value: tensor("T"),
  past_state: optional(tensor("S")),
  decay: optional(tensor("T")),
  beta: optional(tensor("T")),
};

/** What both operators are told. */
export const attrs = {
  // How many tokens a parallel implementation takes at a time; it changes no result.
  chunk_size: int(64),
  kv_num_heads: required(int()),
  q_num_heads: required(int()),
  scale: float(0),
  update_rule: oneOf(["linear", "gated", "delta", "gated_delta"], "gated_delta"),
};

/** How the state takes in a token. */
type UpdateRule = AttributeResults<typeof attrs>["update_rule"];

/** True if the rule lets the state decay. */
export const decays = (rule: UpdateRule): boolean => rule === "gated" || rule === "gated_delta";

/** True if the rule writes what is new about a value, not the value. */
export const corrects = (rule: UpdateRule): boolean => rule === "delta" || rule === "gated_delta";

/** Operands by name. */
export type Operands<V> = PerParameter<typeof inputs, V>;

/** Attributes by name; onnxruntime's operator alone has a window. */
export type LinearAttentionAttributes = AttributeResults<typeof attrs> & { readonly state_window?: number };

/** The call of the shape rule. */
interface LinearAttentionInfer extends CallContext {
  readonly inputs: Operands<Fact>;
  readonly attrs: LinearAttentionAttributes;
}

/**
 * How many heads there are of each kind. A state may be read by several query heads, or several states by one; several states may take in
 * the same key. Heads follow each other: of n heads that share m others, head h has the other number floor(h · m / n).
 */
interface HeadCounts {
  readonly queries: number;
  readonly keys: number;
  readonly states: number;
  readonly outputs: number;
}

/** The heads of a call whose sizes are known. */
export function headCounts(
  { q_num_heads: queries, kv_num_heads: states }: LinearAttentionAttributes,
  querySize: number,
  keySize: number,
): HeadCounts {
  // Heads of no size say nothing about their number.
  const keys = querySize === 0 ? states : (keySize * queries) / querySize;
  return { queries, keys, states, outputs: Math.max(queries, states) };
}

/** Shapes of the output and the state. Fails where operands and attributes do not go together. */
export function inferLinearAttention(call: LinearAttentionInfer): { output: OutputFact; present_state: OutputFact } {
  const { query, key, value, past_state, decay, beta } = call.inputs;
  const { q_num_heads: heads, kv_num_heads: kvHeads, update_rule: rule, state_window: window } = call.attrs;
  const isMicrosofts = window !== undefined;
  call.check(
    heads > 0 && kvHeads > 0,
    () => `q_num_heads and kv_num_heads must be positive, got ${heads} and ${kvHeads}`,
    "invalid-argument",
  );
  call.check(
    heads % kvHeads === 0 || (isMicrosofts && kvHeads % heads === 0),
    () =>
      isMicrosofts
        ? `one of q_num_heads and kv_num_heads must be a multiple of the other, got ${heads} and ${kvHeads}`
        : `q_num_heads must be a multiple of kv_num_heads, got ${heads} and ${kvHeads}`,
    "invalid-argument",
  );
  for (const [name, fact, taken] of [
    ["decay", decay, decays(rule)],
    ["beta", beta, corrects(rule)],
  ] as const) {
    // onnxruntime passes over what the rule does not take.
    call.check(
      (fact !== undefined) === taken || (isMicrosofts && !taken),
      `update_rule "${rule}" ${taken ? "needs" : "does not take"} the input ${name}`,
      "invalid-graph",
    );
  }
  for (const [name, fact] of Object.entries({ query, key, value, decay, beta })) checkRank(call, name, fact, 3);
  checkWindow(call, past_state, window, 4);
  const q = headsOf(call, "query", query, { attribute: "q_num_heads", count: heads });
  const v = headsOf(call, "value", value, { attribute: "kv_num_heads", count: kvHeads });
  let size = isMicrosofts
    ? keySizeOf(call, key, q.size, kvHeads)
    : unifyDims(
        call,
        q.size,
        headsOf(call, "key", key, { attribute: "kv_num_heads", count: kvHeads }).size,
        "query and key must have the same head size",
      );
  let valueSize = v.size;
  let batch = q.batch;
  let length = q.length;
  for (const [name, fact] of Object.entries({ key, value, decay, beta })) {
    if (fact?.shape === undefined) continue;
    batch = unifyDims(call, batch, fact.shape[0], `query and ${name} must agree in the batch`);
    length = unifyDims(call, length, fact.shape[1], `query and ${name} must agree in the sequence length`);
  }
  if (past_state?.shape !== undefined) {
    const [pastBatch, pastHeads, pastSize, pastValueSize] = past_state.shape.slice(-4);
    batch = unifyDims(call, batch, pastBatch, "query and past_state must agree in the batch");
    unifyDims(call, kvHeads, pastHeads, "past_state must have kv_num_heads heads");
    size = unifyDims(call, size, pastSize, "past_state must be [batch,heads,key size,value size]: key size");
    valueSize = unifyDims(
      call,
      valueSize,
      pastValueSize,
      "past_state must be [batch,heads,key size,value size]: value size",
    );
  }
  if (decays(rule)) checkLast(call, "decay", decay, [kvHeads, multiplyDims(kvHeads, size)]);
  if (corrects(rule)) checkLast(call, "beta", beta, [kvHeads, 1]);
  return {
    output: { shape: [batch, length, multiplyDims(Math.max(heads, kvHeads), valueSize)] },
    // Without a past the state has the type of the activations.
    present_state: {
      type: past_state?.type ?? query.type,
      shape: stateShape(window, [batch, kvHeads, size, valueSize]),
    },
  };
}

/** The head size of keys that may have fewer heads than there are states. */
function keySizeOf(call: CallContext, key: Fact, size: Dim, states: number): Dim {
  const packed = key.shape?.[2];
  if (packed === undefined || !isKnown(packed)) return size;
  if (!isKnown(size)) return divideExactly(packed, states) ?? unknownDim();
  const keys = packed / size;
  call.check(
    size > 0 && Number.isInteger(keys) && keys > 0 && states % keys === 0,
    () =>
      `the last dimension of key must hold heads of ${size}, the query's size, as many as divide kv_num_heads ${states}, got ${packed}`,
  );
  return size;
}

function checkLast(call: CallContext, name: string, fact: Fact | undefined, allowed: readonly Dim[]): void {
  const last = fact?.shape?.[2];
  if (last === undefined || !isKnown(last) || !allowed.every(isKnown)) return;
  call.check(
    allowed.includes(last),
    () => `the last dimension of ${name} must be ${[...new Set(allowed)].join(" or ")}, got ${shapeText(fact?.shape)}`,
  );
}
