/**
 * ScatterPaKvCache: the write of keys and values into paged caches, as Ascend's operator library defines it. Moves vectors
 * without looking at them, but for the mean that replaces a window of tokens.
 */
import { update } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { contiguous, copyView } from "../../tensor/copy.js";
import type { View } from "../../tensor/view.js";
import { blocksWith, pagedTypes, slotsOf } from "../shared/paged/layouts.js";
import { copyUnlessShared } from "../shared/loops/share.js";
import { indexTypes } from "../shared/rules/types.js";
import { attrs, inputs, isLeftOut, scenarioOf } from "./scenario.js";
import { checkShapes } from "./shapes.js";
import { readWrites, slotsWritten } from "./writes.js";
import { writeVectors } from "./write.js";

/** Writes `key` into `key_cache` and `value` into `value_cache` at the slots of `slot_mapping`. */
export const ScatterPaKvCache = defineOp({
  name: "ScatterPaKvCache",
  domain: "insitu",
  since: 1,
  types: { K: pagedTypes, V: pagedTypes, I: indexTypes },
  inputs,
  outputs: { key_cache: tensor("K"), value_cache: optional(tensor("V")) },
  attrs,
  effects: { key_cache: update("key_cache"), value_cache: update("value_cache") },

  infer(call) {
    const { key, key_cache, value_cache } = call.inputs;
    checkShapes(call, scenarioOf(call));
    call.check(
      value_cache !== undefined || !call.wants("value_cache"),
      "the output value_cache needs the inputs value and value_cache",
      "invalid-graph",
    );
    return {
      key_cache: { shape: key_cache.shape },
      value_cache: { type: value_cache?.type ?? key.type, shape: value_cache?.shape },
    };
  },

  looksAt: ["slot_mapping", "compress_lens", "compress_seq_offset", "seq_lens"],
  validate(call) {
    readWrites(call, scenarioOf(call));
  },

  overwrites(call) {
    const { key_cache, value_cache } = call.outputs;
    const scenario = scenarioOf(call);
    const slots = slotsWritten(readWrites(call, scenario)!);
    const layout = scenario.kind === "tokens" ? scenario.layout : "Norm";
    const parts = (cache: View | undefined): View[] =>
      cache === undefined || isLeftOut(cache) ? [] : blocksWith(cache, slotsOf(layout, cache.shape).blockSize, slots);
    return { key_cache: parts(key_cache), value_cache: parts(value_cache) };
  },

  reference(call) {
    const { key, key_cache, value, value_cache } = call.inputs;
    const scenario = scenarioOf(call);
    const writes = readWrites(call, scenario)!;
    const { strides, offsets } = call.attrs;
    const sides = [
      { rows: key, past: key_cache, present: call.outputs.key_cache },
      { rows: value, past: value_cache, present: call.outputs.value_cache },
    ];
    // Both pasts are copied before either cache is written: one may lie in the bytes that become the other's present.
    for (const { past, present } of sides)
      if (past !== undefined && present !== undefined) copyUnlessShared(past, present);
    sides.forEach(({ rows, present }, at) => {
      if (rows === undefined || present === undefined || isLeftOut(present)) return;
      const source = contiguous(rows);
      const target = contiguous(present);
      writeVectors(source, target, scenario, writes, { stride: strides[at], offset: offsets[at] });
      if (target !== present) copyView(target, present);
    });
  },
});
