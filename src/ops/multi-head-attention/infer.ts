/** MultiHeadAttention's shape rule: layouts, sizes, and every check that needs no data. */
import {
  addDims,
  type Dim,
  divideExactly,
  isKnown,
  multiplyDims,
  type Shape,
  shapeText,
  unknownDim,
} from "../../graph/dim.js";
import { type Fact, factText, integersOf, knownIntegers } from "../../graph/fact.js";
import type { OutputFact } from "../../graph/op.js";
import { checkOneElement } from "../shared/rules/operands.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { checkPastLength, type Layout, type MultiHeadCall, type OutputName } from "./call.js";

/** The sizes that operands agree on. */
interface Sizes {
  readonly batch: Dim;
  readonly length: Dim;
  /** Fresh keys. */
  readonly fresh: Dim;
  readonly size: Dim;
  readonly valueSize: Dim;
}

/** Types and shapes of all outputs. */
export function inferMultiHead(call: MultiHeadCall<Fact>): Partial<Record<OutputName, OutputFact>> {
  const { inputs, attrs } = call;
  const heads = attrs.num_heads;
  call.check(heads > 0, () => `num_heads must be positive, got ${heads}`, "invalid-argument");
  call.check(
    inputs.cache_indirection === undefined,
    "cache_indirection, the choice of beams inside the cache, is not supported: reorder the past instead",
    "unsupported-type",
  );
  checkRank(call, "query", inputs.query, 3, 5);
  const layout = layoutOf(call);
  const sizes = sizesOf(call, layout);
  const { batch, length, fresh, size, valueSize } = sizes;
  const { past, capacity } = checkPast(call, layout, sizes);
  const total = addDims(past, fresh);
  checkBias(call, layout, sizes);
  checkMasks(call, sizes, total);
  const rows = capacity ?? total;
  return {
    output: { shape: [batch, length, multiplyDims(valueSize, heads)] },
    present_key: { shape: [batch, heads, rows, size] },
    present_value: { shape: [batch, heads, rows, valueSize] },
    qk: { type: inputs.query.type, shape: [batch, heads, length, total] },
  };
}

/** How the operands of a call lie. */
export function layoutOf(call: MultiHeadCall<{ readonly shape: Shape | undefined }>): Layout {
  const { query, key, value } = call.inputs;
  if (key === undefined) {
    call.check(value === undefined, "value needs a key beside it", "invalid-graph");
    call.check(
      query.shape === undefined || query.shape.length === 5,
      () =>
        `without key and value, query must be packed [batch, length, heads, 3, size], got ${shapeText(query.shape)}`,
    );
    return "packed-qkv";
  }
  call.check(
    query.shape === undefined || query.shape.length === 3,
    () => `beside a key, query must have 3 dimensions, got ${shapeText(query.shape)}`,
  );
  if (value === undefined) {
    call.check(
      key.shape === undefined || key.shape.length === 5,
      () => `without value, key must be packed [batch, length, heads, 2, size], got ${shapeText(key.shape)}`,
    );
    return "packed-kv";
  }
  const rank = key.shape?.length ?? value.shape?.length;
  call.check(
    rank === undefined || rank === 3 || rank === 4,
    () => `key must have 3 or 4 dimensions, got ${shapeText(key.shape)}`,
  );
  call.check(
    key.shape === undefined || value.shape === undefined || key.shape.length === value.shape.length,
    () => `key and value must have the same rank, got ${shapeText(key.shape)} and ${shapeText(value.shape)}`,
  );
  return rank === 4 ? "by-heads" : "apart";
}

function sizesOf(call: MultiHeadCall<Fact>, layout: Layout): Sizes {
  const { query, key, value } = call.inputs;
  const heads = call.attrs.num_heads;
  const headSize = (name: string, width: Dim): Dim => {
    call.check(
      !isKnown(width) || width % heads === 0,
      () => `num_heads must divide the last dimension of ${name}, got ${heads} and ${String(width)}`,
    );
    return divideExactly(width, heads) ?? unknownDim();
  };
  const unknown = {
    batch: unknownDim(),
    length: unknownDim(),
    fresh: unknownDim(),
    size: unknownDim(),
    valueSize: unknownDim(),
  };
  if (query.shape === undefined) return unknown;
  const [batch, length] = query.shape;
  if (layout === "packed-qkv") {
    checkPacked(call, "query", query.shape, 3);
    return { batch, length, fresh: length, size: query.shape[4], valueSize: query.shape[4] };
  }
  const size = headSize("query", query.shape[2]);
  const shape = key?.shape;
  if (shape === undefined) return { ...unknown, batch, length, size };
  unifyDims(call, shape[0], batch, "key and query must agree in the batch");
  if (layout === "packed-kv") {
    checkPacked(call, "key", shape, 2);
    unifyDims(call, shape[4], size, "the heads of key and query must agree in size");
    return { batch, length, fresh: shape[1], size, valueSize: size };
  }
  const values = value?.shape;
  if (layout === "by-heads") {
    unifyDims(call, shape[1], heads, "key must have num_heads heads");
    unifyDims(call, shape[3], size, "the heads of key and query must agree in size");
    for (const axis of [0, 1, 2])
      if (values !== undefined)
        unifyDims(call, values[axis], shape[axis], `value and key must agree in dimension ${axis}`);
    return { batch, length, fresh: shape[2], size, valueSize: values?.[3] ?? unknownDim() };
  }
  unifyDims(call, shape[2], query.shape[2], "key and query must agree in dimension 2");
  for (const axis of [0, 1])
    if (values !== undefined)
      unifyDims(call, values[axis], shape[axis], `value and key must agree in dimension ${axis}`);
  return {
    batch,
    length,
    fresh: shape[1],
    size,
    valueSize: values === undefined ? unknownDim() : headSize("value", values[2]),
  };
}

function checkPacked(call: MultiHeadCall<Fact>, name: string, shape: Shape, parts: number): void {
  unifyDims(call, shape[2], call.attrs.num_heads, `packed ${name} must have num_heads heads`);
  unifyDims(call, shape[3], parts, `packed ${name} must hold ${parts} tensors a head`);
}

/** Rows of the past that count, and the capacity of a past that is a buffer. */
function checkPast(call: MultiHeadCall<Fact>, layout: Layout, sizes: Sizes): { past: Dim; capacity: Dim | undefined } {
  const { past_key, past_value, past_sequence_length } = call.inputs;
  call.check(
    (past_key === undefined) === (past_value === undefined),
    "past_key and past_value must be given together, or neither",
    "invalid-graph",
  );
  if (past_key === undefined || past_value === undefined) return { past: 0, capacity: undefined };
  call.check(layout === "apart" || layout === "by-heads", "a past needs query, key and value apart");
  let rows: Dim = unknownDim();
  for (const [name, fact, size] of [
    ["past_key", past_key, sizes.size],
    ["past_value", past_value, sizes.valueSize],
  ] as const) {
    checkRank(call, name, fact, 4);
    if (fact.shape === undefined) continue;
    unifyDims(call, fact.shape[0], sizes.batch, `${name} and query must agree in the batch`);
    unifyDims(call, fact.shape[1], call.attrs.num_heads, `${name} must have num_heads heads`);
    unifyDims(call, fact.shape[3], size, `the last dimension of ${name} must be a head's`);
    rows = unifyDims(call, fact.shape[2], rows, "past_key and past_value must agree in dimension 2");
  }
  if (past_sequence_length === undefined) return { past: rows, capacity: undefined };
  checkOneElement(call, "past_sequence_length", past_sequence_length);
  return { past: integersOf(past_sequence_length)?.[0] ?? unknownDim(), capacity: rows };
}

/** The checks on data: the rows that a past of fixed capacity already holds leave room for the fresh ones. */
export function validateMultiHead(call: MultiHeadCall<Fact>): void {
  const { key, past_key, past_sequence_length } = call.inputs;
  const past = knownIntegers(past_sequence_length)?.[0];
  const [fresh, rows] = [key?.shape?.[key.shape.length === 4 ? 2 : 1], past_key?.shape?.[2]];
  if (past !== undefined && fresh !== undefined && isKnown(fresh) && rows !== undefined && isKnown(rows))
    checkPastLength(call, past, fresh, rows);
}

function checkBias(call: MultiHeadCall<Fact>, layout: Layout, { size, valueSize }: Sizes): void {
  const { bias } = call.inputs;
  if (bias === undefined) return;
  call.check(layout !== "packed-kv", "bias is not allowed with packed keys and values", "invalid-graph");
  checkRank(call, "bias", bias, 1);
  const wanted = multiplyDims(addDims(multiplyDims(size, 2), valueSize), call.attrs.num_heads);
  if (bias.shape !== undefined)
    unifyDims(call, bias.shape[0], wanted, "bias must hold the biases of query, key and value");
}

function checkMasks(call: MultiHeadCall<Fact>, { batch, length }: Sizes, total: Dim): void {
  const { key_padding_mask: mask, attention_bias: bias } = call.inputs;
  if (mask?.shape !== undefined) {
    const forms: Shape[] = [[batch], [addDims(multiplyDims(batch, 3), 2)], [batch, total], [batch, length, total]];
    const fits = (form: Shape): boolean =>
      form.length === mask.shape!.length &&
      form.every((dim, axis) => !isKnown(dim) || !isKnown(mask.shape![axis]) || dim === mask.shape![axis]);
    call.check(
      forms.some(fits),
      () => `key_padding_mask must be ${forms.map(shapeText).join(", ")}, got ${factText(mask)}`,
    );
  }
  checkRank(call, "attention_bias", bias, 4);
  const wanted: Shape = [batch, call.attrs.num_heads, length, total];
  bias?.shape?.forEach((dim, axis) => {
    if (axis < 2 && dim === 1) return;
    unifyDims(call, dim, wanted[axis], `attention_bias must be ${shapeText(wanted)}, or 1 in the first two dimensions`);
  });
}
