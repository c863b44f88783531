/**
 * QuantizedScatterPaKvCache: the write of keys and values into pages of bytes, with a scale for each token and head. A negative
 * slot is skipped, a later vector in the same slot stays.
 */
import { factOfView } from "../../graph/fact.js";
import { update } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import { numberWriter, readNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import {
  blocksWith,
  headPlacesOf,
  modeOf,
  type PagedLayout,
  quantizedTypes,
  slotsOf,
} from "../shared/paged/layouts.js";
import { copyUnlessShared } from "../shared/loops/share.js";
import { indexTypes } from "../shared/rules/types.js";
import { quantizeVector } from "./quantize.js";
import { checkShapes, readSlots } from "./rules.js";

const floats: readonly ElementType[] = ["float32", "float16", "bfloat16"];

/** Quantises `key` and `value` and writes them, with their scales, at the slots of `slot_mapping`. */
export const QuantizedScatterPaKvCache = defineOp({
  name: "QuantizedScatterPaKvCache",
  domain: "insitu",
  since: 1,
  types: { T: floats, K: quantizedTypes, V: quantizedTypes, I: indexTypes },
  inputs: {
    key: tensor("T"),
    key_cache: tensor("K"),
    key_scale: tensor("float32"),
    slot_mapping: tensor("I"),
    value: tensor("T"),
    value_cache: tensor("V"),
    value_scale: tensor("float32"),
  },
  outputs: {
    key_cache: tensor("K"),
    key_scale: tensor("float32"),
    value_cache: tensor("V"),
    value_scale: tensor("float32"),
  },
  attrs: { cache_mode: modeOf(["Norm", "PA_NZ", "NHSD"], "Norm") },
  effects: {
    key_cache: update("key_cache"),
    key_scale: update("key_scale"),
    value_cache: update("value_cache"),
    value_scale: update("value_scale"),
  },

  infer(call) {
    const { key_cache, key_scale, value_cache, value_scale } = call.inputs;
    checkShapes(call);
    return {
      key_cache: { shape: key_cache.shape },
      key_scale: { shape: key_scale.shape },
      value_cache: { shape: value_cache.shape },
      value_scale: { shape: value_scale.shape },
    };
  },

  looksAt: ["slot_mapping"],
  validate(call) {
    readSlots(call, checkShapes(call));
  },

  overwrites({ inputs, outputs, attrs }) {
    const { blockSize } = slotsOf(attrs.cache_mode, inputs.key_cache.shape);
    const slots = Array.from(readNumbers(inputs.slot_mapping));
    const parts = (cache: View | undefined): View[] => (cache === undefined ? [] : blocksWith(cache, blockSize, slots));
    return {
      key_cache: parts(outputs.key_cache),
      key_scale: parts(outputs.key_scale),
      value_cache: parts(outputs.value_cache),
      value_scale: parts(outputs.value_scale),
    };
  },

  reference(call) {
    const { inputs, outputs, attrs } = call;
    const facts = {
      key: factOfView(inputs.key),
      key_cache: factOfView(inputs.key_cache),
      key_scale: factOfView(inputs.key_scale),
      slot_mapping: factOfView(inputs.slot_mapping),
      value: factOfView(inputs.value),
      value_cache: factOfView(inputs.value_cache),
      value_scale: factOfView(inputs.value_scale),
    };
    const known = { ...call, inputs: facts };
    const slots = Array.from(readSlots(known, checkShapes(known))!);
    const sides = [
      { rows: readNumbers(inputs.key), shape: inputs.key.shape, past: inputs.key_cache, pastScale: inputs.key_scale },
      {
        rows: readNumbers(inputs.value),
        shape: inputs.value.shape,
        past: inputs.value_cache,
        pastScale: inputs.value_scale,
      },
    ];
    const presents = [
      { cache: outputs.key_cache, scale: outputs.key_scale },
      { cache: outputs.value_cache, scale: outputs.value_scale },
    ];
    // Pasts are copied before any cache is written: one may lie in the bytes that become another's present.
    sides.forEach(({ past, pastScale }, at) => {
      if (presents[at].cache !== undefined) copyUnlessShared(past, presents[at].cache);
      if (presents[at].scale !== undefined) copyUnlessShared(pastScale, presents[at].scale);
    });
    sides.forEach(({ rows, shape }, at) =>
      writeSide(rows, shape, presents[at].cache, presents[at].scale, slots, attrs.cache_mode),
    );
  },
});

/** Writes the vectors [tokens, heads, size] of one side, and their scales; an output that is not asked for is left out. */
function writeSide(
  rows: ArrayLike<number>,
  [tokens, heads, size]: readonly number[],
  cache: View | undefined,
  scale: View | undefined,
  slots: readonly number[],
  layout: PagedLayout,
): void {
  if (cache === undefined) return;
  const { blockSize, addressOf } = headPlacesOf(layout, cache, heads);
  const target = cache.data as Int8Array | Uint8Array;
  const writeScale = scale && numberWriter(scale);
  for (let token = 0; token < tokens; token++) {
    const slot = slots[token];
    if (slot < 0) continue;
    const block = Math.floor(slot / blockSize);
    for (let head = 0; head < heads; head++) {
      const factor = quantizeVector(rows, (token * heads + head) * size, size, cache.type, (i, bits) => {
        target[addressOf(slot, head, i)] = bits;
      });
      if (scale === undefined) continue;
      const [blockStep, rowStep, step] = scale.strides;
      writeScale!(scale.offset + block * blockStep + (slot - block * blockSize) * rowStep + head * step, factor);
    }
  }
}
