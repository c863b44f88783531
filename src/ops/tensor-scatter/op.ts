/** TensorScatter: the write into a cache. Moves rows without looking at them, so that every element type is served alike. */
import { int, oneOf } from "../../graph/attribute.js";
import { type Dim, isKnown, shapeText } from "../../graph/dim.js";
import { update } from "../../graph/effect.js";
import { knownIntegers } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { readIntegers } from "../../tensor/access.js";
import { copyView } from "../../tensor/copy.js";
import type { View } from "../../tensor/view.js";
import { checkRank, normalizeAxis, unifyDims } from "../shared/rules/shapes.js";
import { anyType } from "../shared/rules/types.js";

/** Writes `update` into `past_cache` at `write_indices`, along `axis`. */
export const TensorScatter = defineOp({
  name: "TensorScatter",
  since: 24,
  types: { T: anyType.filter((type) => type !== "int2" && type !== "uint2") },
  inputs: { past_cache: tensor("T"), update: tensor("T"), write_indices: optional(tensor("int64")) },
  outputs: { present_cache: tensor("T") },
  attrs: { axis: int(-2), mode: oneOf(["linear", "circular"], "linear") },
  effects: { present_cache: update("past_cache", { along: "axis" }) },
  lengths: { start: "write_indices", wraps: ({ mode }) => mode === "circular" },

  infer(call) {
    const { past_cache, update: rows, write_indices } = call.inputs;
    const cache = past_cache.shape;
    checkRank(call, "write_indices", write_indices, 1);
    if (cache === undefined || rows.shape === undefined) return { present_cache: { shape: cache } };
    call.check(
      cache.length === rows.shape.length,
      () => `past_cache ${shapeText(cache)} and update ${shapeText(rows.shape)} must have the same rank`,
    );
    const axis = normalizeAxis(call, call.attrs.axis, cache.length);
    call.check(axis !== 0, "axis must not be 0: that is the batch dimension", "invalid-argument");
    cache.forEach((dim, at) => {
      if (at !== axis) unifyDims(call, dim, rows.shape![at], `past_cache and update must agree in dimension ${at}`);
    });
    const capacity = cache[axis];
    const length = rows.shape[axis];
    if (isKnown(capacity) && isKnown(length)) {
      call.check(length <= capacity, () => `update has ${length} rows along axis ${axis}, the cache holds ${capacity}`);
    }
    if (write_indices?.shape !== undefined)
      unifyDims(call, write_indices.shape[0], cache[0], "write_indices needs one entry a sample of the batch");
    return { present_cache: { shape: cache } };
  },

  looksAt: ["write_indices"],
  validate(call) {
    const { past_cache, update: rows, write_indices } = call.inputs;
    const indices = knownIntegers(write_indices);
    if (indices === undefined || past_cache.shape === undefined || rows.shape === undefined) return;
    const axis = normalizeAxis(call, call.attrs.axis, past_cache.shape.length);
    checkIndices(call, indices, rows.shape[axis], past_cache.shape[axis], call.attrs.mode);
  },

  overwrites({ inputs, outputs, attrs }) {
    const present = outputs.present_cache;
    const axis = attrs.axis < 0 ? attrs.axis + present.rank : attrs.axis;
    const length = inputs.update.shape[axis];
    const indices = inputs.write_indices && readIntegers(inputs.write_indices);
    const parts: View[] = [];
    for (let sample = 0; sample < present.shape[0]; sample++)
      for (const { start, count } of stretches(indices?.[sample] ?? 0, length, present.shape[axis]))
        parts.push(present.slice(0, sample, sample + 1).slice(axis, start, start + count));
    return { present_cache: parts };
  },

  // ONNX's own reference takes the modulo of the whole index tuple in circular mode; only the sequence index is meant.
  reference(call) {
    const { past_cache: past, update: rows, write_indices } = call.inputs;
    const present = call.outputs.present_cache; // [batch, …, capacity, …]
    const axis = call.attrs.axis < 0 ? call.attrs.axis + present.rank : call.attrs.axis;
    const capacity = present.shape[axis];
    const length = rows.shape[axis];
    const indices = write_indices && readIntegers(write_indices);
    if (indices !== undefined) checkIndices(call, indices, length, capacity, call.attrs.mode);
    if (present.data !== past.data || present.offset !== past.offset) copyView(past, present);
    if (rows.size === 0) return;
    for (let sample = 0; sample < present.shape[0]; sample++) {
      const source = rows.slice(0, sample, sample + 1);
      const target = present.slice(0, sample, sample + 1);
      let done = 0;
      for (const { start, count } of stretches(indices?.[sample] ?? 0, length, capacity)) {
        copyView(source.slice(axis, done, done + count), target.slice(axis, start, start + count));
        done += count;
      }
    }
  },
});

/** Where rows go that are written from an index on: one stretch, or two where circular mode wraps. */
function stretches(
  index: number,
  length: number,
  capacity: number,
): { readonly start: number; readonly count: number }[] {
  if (length === 0) return [];
  const start = index % capacity;
  const first = Math.min(length, capacity - start);
  const whole = { start, count: first };
  return first === length ? [whole] : [whole, { start: 0, count: length - first }];
}

/** Fails unless every sample's rows fit where they are to be written. Asked before anything is written. */
function checkIndices(
  call: CallContext,
  indices: readonly number[],
  length: Dim,
  capacity: Dim,
  mode: "linear" | "circular",
): void {
  indices.forEach((index, sample) => {
    call.check(index >= 0, () => `write_indices[${sample}] must not be negative, got ${index}`, "invalid-argument");
    // Circular mode takes any index that can be told exactly.
    call.check(
      Number.isSafeInteger(index),
      () => `write_indices[${sample}] must be below 2^53, got ${BigInt(index)}`,
      "invalid-argument",
    );
    if (mode === "circular" || !isKnown(capacity) || !isKnown(length)) return;
    call.check(
      index + length <= capacity,
      () => `linear mode needs write_indices[${sample}] + length <= capacity, got ${index} + ${length} > ${capacity}`,
      "invalid-argument",
    );
  });
}
