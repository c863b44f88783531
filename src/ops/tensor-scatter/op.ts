/** TensorScatter: the write into a cache. Moves rows without looking at them, so that every element type is served alike. */
import { int, oneOf } from "../../graph/attribute.js";
import { isKnown, shapeText } from "../../graph/dim.js";
import { update } from "../../graph/effect.js";
import { knownIntegers } from "../../graph/fact.js";
import { defineOp, type Op, optional, tensor } from "../../graph/op.js";
import { readIntegers } from "../../tensor/access.js";
import { copyView } from "../../tensor/copy.js";
import { checkRank, normalizeAxis, unifyDims } from "../shapes.js";
import { anyType } from "../types.js";

/** Writes `update` into `past_cache` at `write_indices`, along `axis`. */
export const TensorScatter: Op = defineOp({
  name: "TensorScatter",
  since: 24,
  types: { T: anyType },
  inputs: { past_cache: tensor("T"), update: tensor("T"), write_indices: optional(tensor("int64")) },
  outputs: { present_cache: tensor("T") },
  attrs: { axis: int(-2), mode: oneOf(["linear", "circular"], "linear") },
  effects: { present_cache: update("past_cache") },

  infer(call) {
    const { past_cache, update: rows, write_indices } = call.inputs;
    const cache = past_cache.shape;
    checkRank(call, "write_indices", write_indices, 1);
    if (cache === undefined || rows.shape === undefined) return { present_cache: { shape: cache } };
    call.check(cache.length === rows.shape.length, () => `past_cache ${shapeText(cache)} and update ${shapeText(rows.shape)} must have the same rank`);
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
    if (write_indices?.shape !== undefined) unifyDims(call, write_indices.shape[0], cache[0], "write_indices needs one entry a sample of the batch");
    // Indices are checked here, before anything is written, wherever their values are known.
    const indices = write_indices === undefined ? [0] : knownIntegers(write_indices);
    if (indices !== undefined && isKnown(capacity) && isKnown(length)) {
      indices.forEach((index, sample) => {
        call.check(index >= 0, () => `write_indices[${sample}] must not be negative, got ${index}`, "invalid-argument");
        call.check(
          call.attrs.mode === "circular" || index + length <= capacity,
          () => `linear mode needs write_indices[${sample}] + length <= capacity, got ${index} + ${length} > ${capacity}`,
          "invalid-argument",
        );
      });
    }
    return { present_cache: { shape: cache } };
  },

  // ONNX's own reference takes the modulo of the whole index tuple in circular mode; only the sequence index is meant.
  reference({ inputs, outputs, attrs }) {
    const { past_cache: past, update: rows, write_indices } = inputs;
    const present = outputs.present_cache; // [batch, …, capacity, …]
    if (present.data !== past.data || present.offset !== past.offset) copyView(past, present);
    if (rows.size === 0) return;
    const axis = attrs.axis < 0 ? attrs.axis + present.rank : attrs.axis;
    const capacity = present.shape[axis];
    const indices = write_indices === undefined ? undefined : readIntegers(write_indices);
    for (let sample = 0; sample < present.shape[0]; sample++) {
      const source = rows.slice(0, sample, sample + 1);
      const target = present.slice(0, sample, sample + 1);
      const length = rows.shape[axis];
      const start = (indices?.[sample] ?? 0) % capacity;
      const first = Math.min(length, capacity - start); // rows before the wrap
      copyView(source.slice(axis, 0, first), target.slice(axis, start, start + first));
      if (first < length) copyView(source.slice(axis, first, length), target.slice(axis, 0, length - first));
    }
  },
});
