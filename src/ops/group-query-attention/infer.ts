/** GroupQueryAttention's shape rule: every check that needs no data, and those on lengths where the data are known. */
import {
  type Dim,
  divideExactly,
  isKnown,
  isKnownShape,
  maxDim,
  multiplyDims,
  type Shape,
  shapeText,
  unknownDim,
} from "../../graph/dim.js";
import { type Fact, factText, integersOf, knownIntegers } from "../../graph/fact.js";
import type { OutputFact } from "../../graph/op.js";
import type { ElementType } from "../../tensor/element-type.js";
import { checkOneElement } from "../shared/rules/operands.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import {
  checkLengths,
  checkPositions,
  type GroupQueryCall,
  type OutputName,
  type Step,
  tokenPositions,
} from "./call.js";

/** The call of the shape rule. */
interface InferGroupQueryCall extends GroupQueryCall<Fact> {
  wants(output: OutputName): boolean;
}

/** The sizes that operands agree on. */
interface Sizes {
  readonly batch: Dim;
  readonly length: Dim;
  readonly fresh: Dim;
  readonly size: Dim;
}

/** Types and shapes of all outputs. */
export function inferGroupQuery(call: InferGroupQueryCall): Partial<Record<OutputName, OutputFact>> {
  const { attrs } = call;
  checkAttributes(call);
  const sizes = sizesOf(call);
  const { batch, length, size } = sizes;
  const type = cacheType(call);
  const total = totalOf(call);
  const past = checkPast(call, sizes);
  checkWindowCache(call, sizes, past);
  checkRotary(call, sizes, total);
  checkExtras(call, sizes, total);
  checkScales(call, size);
  const present = past === undefined ? total : attrs.sliding_window_cache ? past : maxDim(total, past);
  const cache = {
    type,
    shape: [batch, attrs.kv_num_heads, present, attrs.kv_cache_bit_width === 4 ? halfOf(size) : size],
  };
  return {
    output: { shape: [batch, length, multiplyDims(size, attrs.num_heads)] },
    present_key: cache,
    present_value: cache,
    output_qk: { shape: [batch, attrs.num_heads, length, total] },
  };
}

/** The checks on data: lengths of the samples and positions in the rotary tables. */
export function validateGroupQuery(call: GroupQueryCall<Fact>): void {
  const { query, key, past_key, seqlens_k, total_sequence_length, position_ids, cos_cache, sin_cache } = call.inputs;
  const total = knownIntegers(total_sequence_length)?.[0];
  const seqlens = knownIntegers(seqlens_k);
  const past = past_key?.shape?.[2];
  if (total === undefined || seqlens === undefined || !isKnownShape(query.shape)) return;
  if ((key !== undefined && !isKnownShape(key.shape)) || (past !== undefined && !isKnown(past))) return;
  const [batch, length] = query.shape;
  const fresh = key === undefined ? length : (key.shape as readonly number[])[1];
  const step: Step = { batch, length, fresh, total, past };
  checkLengths(call, seqlens, step);
  const rows = [cos_cache?.shape?.[0], sin_cache?.shape?.[0]];
  const given = knownIntegers(position_ids);
  if (!call.attrs.do_rotary || (position_ids !== undefined && given === undefined)) return;
  if (rows.every((count) => typeof count === "number"))
    checkPositions(call, step, tokenPositions(step, seqlens, given), Math.min(...rows));
}

const halfOf = (size: Dim): Dim => (isKnown(size) ? Math.ceil(size / 2) : (divideExactly(size, 2) ?? unknownDim()));

function checkAttributes(call: InferGroupQueryCall): void {
  const { attrs } = call;
  const refuse = (condition: boolean, message: string): void => call.check(!condition, message, "invalid-argument");
  const { num_heads: heads, kv_num_heads: shared, kv_cache_bit_width: bits, local_window_size: window } = attrs;
  refuse(heads <= 0 || shared <= 0, `num_heads and kv_num_heads must be positive, got ${heads} and ${shared}`);
  refuse(heads % shared !== 0, `num_heads must be a multiple of kv_num_heads, got ${heads} and ${shared}`);
  refuse(!attrs.causal && window !== -1, `local_window_size must be -1 when causal is 0, got ${window}`);
  refuse(window < -1, `local_window_size must be -1 or more, got ${window}`);
  refuse(![0, 1, 2].includes(attrs.qk_output), `qk_output must be 0, 1 or 2, got ${attrs.qk_output}`);
  refuse(attrs.qk_output !== 0 && !call.wants("output_qk"), "qk_output is set, but no output output_qk is named");
  refuse(
    attrs.k_quant_type !== attrs.v_quant_type,
    `k_quant_type and v_quant_type must be the same, got ${attrs.k_quant_type} and ${attrs.v_quant_type}`,
  );
  const allowed = attrs.k_quant_type === "NONE" ? [0] : [4, 8];
  refuse(
    !allowed.includes(bits),
    `kv_cache_bit_width must be ${allowed.join(" or ")} with k_quant_type ${attrs.k_quant_type}, got ${bits}`,
  );
}

function sizesOf(call: InferGroupQueryCall): Sizes {
  const { query, key, value } = call.inputs;
  const { num_heads: heads, kv_num_heads: shared } = call.attrs;
  call.check(
    (key === undefined) === (value === undefined),
    "key and value must be given together, or neither of them with a packed query",
    "invalid-graph",
  );
  checkRank(call, "query", query, 3);
  checkRank(call, "key", key, 3);
  checkRank(call, "value", value, 3);
  const [batch, length, width] = query.shape ?? [unknownDim(), unknownDim(), unknownDim()];
  const parts = key === undefined ? heads + 2 * shared : heads;
  call.check(
    !isKnown(width) || width % parts === 0,
    () => `the last dimension of query must be a multiple of the ${parts} heads in it, got ${String(width)}`,
  );
  const size = divideExactly(width, parts) ?? unknownDim();
  if (key?.shape === undefined) return { batch, length, fresh: key === undefined ? length : unknownDim(), size };
  unifyDims(call, key.shape[0], batch, "key and query must agree in the batch");
  unifyDims(
    call,
    key.shape[2],
    multiplyDims(size, shared),
    "the last dimension of key must hold kv_num_heads heads of query's size",
  );
  value?.shape?.forEach((dim, axis) =>
    unifyDims(call, dim, key.shape![axis], `value and key must agree in dimension ${axis}`),
  );
  const fresh = key.shape[1];
  if (fresh !== 0) {
    unifyDims(call, fresh, length, "key must have as many tokens as query, or none where the past holds them all");
  } else {
    call.check(
      call.inputs.past_key !== undefined || length === 0,
      "key has no tokens: without a past there is nothing to attend to",
    );
  }
  return { batch, length, fresh, size };
}

/** The type of the present: the past's where there is one. */
function cacheType(call: InferGroupQueryCall): ElementType {
  const { query, past_key, past_value } = call.inputs;
  const { kv_cache_bit_width: bits } = call.attrs;
  call.check(
    (past_key === undefined) === (past_value === undefined),
    "past_key and past_value must be given together, or neither",
    "invalid-graph",
  );
  const wanted: ElementType = bits === 0 ? query.type : bits === 8 ? "int8" : "uint8";
  for (const [name, fact] of Object.entries({ past_key, past_value })) {
    call.check(
      fact === undefined || fact.type === wanted,
      () => `${name} must be ${wanted} with kv_cache_bit_width ${bits}, got ${fact?.type}`,
      "type-mismatch",
    );
  }
  return wanted;
}

/** The value of total_sequence_length, as far as symbols tell. */
function totalOf(call: InferGroupQueryCall): Dim {
  const { total_sequence_length: total } = call.inputs;
  checkOneElement(call, "total_sequence_length", total);
  return integersOf(total)?.[0] ?? unknownDim();
}

/** Rows of the past; undefined without one. */
function checkPast(call: InferGroupQueryCall, { batch, size }: Sizes): Dim | undefined {
  const { seqlens_k, past_key, past_value } = call.inputs;
  if (seqlens_k.shape !== undefined) {
    const { shape } = seqlens_k;
    call.check(
      shape.length > 0 &&
        shape.every((dim) => dim === 1 || !isKnown(dim) || !isKnown(batch) || dim === batch) &&
        (!shape.every(isKnown) ||
          !isKnown(batch) ||
          shape.reduce((count, dim) => count * (dim as number), 1) === batch),
      () => `seqlens_k needs one entry a sample of the batch, ${String(batch)}, got ${factText(seqlens_k)}`,
    );
  }
  let rows: Dim | undefined;
  for (const [name, fact] of Object.entries({ past_key, past_value })) {
    if (fact === undefined) continue;
    checkRank(call, name, fact, 4);
    rows ??= unknownDim();
    if (fact.shape === undefined) continue;
    const width = call.attrs.kv_cache_bit_width === 4 ? halfOf(size) : size;
    unifyDims(call, fact.shape[0], batch, `${name} and query must agree in the batch`);
    unifyDims(call, fact.shape[1], call.attrs.kv_num_heads, `${name} must have kv_num_heads heads`);
    unifyDims(call, fact.shape[3], width, `the last dimension of ${name} must be a head's`);
    rows = unifyDims(call, fact.shape[2], rows, "past_key and past_value must agree in dimension 2");
  }
  return rows;
}

function checkWindowCache(call: InferGroupQueryCall, { fresh }: Sizes, past: Dim | undefined): void {
  if (!call.attrs.sliding_window_cache) return;
  const window = call.attrs.local_window_size;
  call.check(
    window > 0,
    () => `sliding_window_cache needs a local_window_size above 0, got ${window}`,
    "invalid-argument",
  );
  call.check(past !== undefined, "sliding_window_cache needs past_key and past_value", "invalid-graph");
  call.check(fresh !== 0, "sliding_window_cache needs fresh keys");
  call.check(
    !call.wants("output_qk"),
    "sliding_window_cache has no output_qk: positions of dropped keys have no scores",
    "invalid-graph",
  );
  call.check(call.inputs.attention_bias === undefined, "sliding_window_cache takes no attention_bias", "invalid-graph");
  if (past !== undefined && isKnown(past))
    call.check(
      past >= window,
      () => `sliding_window_cache needs a past of at least local_window_size ${window} rows, got ${past}`,
    );
}

function checkRotary(call: InferGroupQueryCall, { batch, length, size }: Sizes, total: Dim): void {
  const { cos_cache, sin_cache, position_ids } = call.inputs;
  call.check(
    (cos_cache === undefined) === (sin_cache === undefined),
    "cos_cache and sin_cache must be given together, or neither",
    "invalid-graph",
  );
  call.check(
    !call.attrs.do_rotary || cos_cache !== undefined,
    "do_rotary needs cos_cache and sin_cache",
    "invalid-graph",
  );
  for (const [name, fact] of Object.entries({ cos_cache, sin_cache })) {
    checkRank(call, name, fact, 2);
    if (fact?.shape === undefined) continue;
    const [rows, pairs] = fact.shape;
    if (isKnown(pairs) && isKnown(size))
      call.check(2 * pairs <= size, () => `${name} must turn at most the ${size} values of a head, got ${pairs} pairs`);
    if (isKnown(rows) && isKnown(total))
      call.check(rows >= total, () => `${name} must have total_sequence_length ${total} rows at least, got ${rows}`);
  }
  if (cos_cache?.shape !== undefined && sin_cache?.shape !== undefined)
    unifyDims(call, cos_cache.shape[1], sin_cache.shape[1], "cos_cache and sin_cache must agree in dimension 1");
  const [turned, pairs] = [call.attrs.rotary_embedding_dim, cos_cache?.shape?.[1]];
  if (turned !== 0 && pairs !== undefined && isKnown(pairs))
    call.check(
      turned === 2 * pairs,
      () => `rotary_embedding_dim must be 0, or the ${2 * pairs} values that cos_cache turns, got ${turned}`,
    );
  checkRank(call, "position_ids", position_ids, 2);
  if (position_ids?.shape === undefined) return;
  unifyDims(call, position_ids.shape[0], batch, "position_ids and query must agree in the batch");
  const given = position_ids.shape[1];
  if (isKnown(given) && isKnown(length))
    call.check(
      given >= length,
      () => `position_ids must have a position for each of the ${length} tokens, got ${given}`,
    );
}

function checkExtras(call: InferGroupQueryCall, { batch, length, size }: Sizes, total: Dim): void {
  const { attention_bias: bias, head_sink, q_norm_weight, k_norm_weight } = call.inputs;
  const { num_heads: heads } = call.attrs;
  checkRank(call, "attention_bias", bias, 4);
  if (bias?.shape !== undefined) {
    const wanted: Shape = [batch, heads, length, total];
    bias.shape.forEach((dim, axis) => {
      if (axis < 2 && dim === 1) return;
      unifyDims(
        call,
        dim,
        wanted[axis],
        `attention_bias must be ${shapeText(wanted)}, or 1 in the first two dimensions`,
      );
    });
  }
  checkVector(call, "head_sink", head_sink, heads);
  checkVector(call, "q_norm_weight", q_norm_weight, size);
  checkVector(call, "k_norm_weight", k_norm_weight, size);
  call.check(
    (q_norm_weight === undefined) === (k_norm_weight === undefined),
    "q_norm_weight and k_norm_weight must be given together, or neither",
    "invalid-graph",
  );
}

function checkVector(call: InferGroupQueryCall, name: string, fact: Fact | undefined, length: Dim): void {
  checkRank(call, name, fact, 1);
  if (fact?.shape !== undefined) unifyDims(call, fact.shape[0], length, `${name} must have ${String(length)} entries`);
}

function checkScales(call: InferGroupQueryCall, size: Dim): void {
  const { k_scale, v_scale } = call.inputs;
  const granularity = call.attrs.k_quant_type;
  if (granularity === "NONE") return;
  for (const [name, fact] of Object.entries({ k_scale, v_scale })) {
    if (fact === undefined) return call.fail(`a quantized cache needs ${name}`, "invalid-graph");
    const count = fact.shape?.reduce<Dim>(multiplyDims, 1);
    const wanted = granularity === "PER_TENSOR" ? 1 : multiplyDims(size, call.attrs.kv_num_heads);
    if (count !== undefined)
      unifyDims(call, count, wanted, `${name} must have ${String(wanted)} entries, ${granularity}`);
  }
}
