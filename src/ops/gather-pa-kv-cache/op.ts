/** GatherPaKvCache: reads the keys and values of sequences back out of paged caches. Moves vectors without looking at them. */
import { flag } from "../../graph/attribute.js";
import { unknownDim } from "../../graph/dim.js";
import { factOfView } from "../../graph/fact.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { contiguous } from "../../tensor/copy.js";
import { modeOf, pagedTypes } from "../shared/paged/layouts.js";
import { indexTypes } from "../shared/rules/types.js";
import { gatherVectors } from "./read.js";
import { checkShapes, inputs, readSequences, rowShape } from "./rules.js";

/** Gathers the vectors of each sequence, in its order, from the blocks that `block_tables` names. */
export const GatherPaKvCache = defineOp({
  name: "GatherPaKvCache",
  domain: "insitu",
  since: 1,
  types: { K: pagedTypes, V: pagedTypes, I: indexTypes },
  inputs,
  outputs: { key: tensor("K"), value: optional(tensor("V")) },
  attrs: { cache_mode: modeOf(["Norm", "PA_NZ", "NHSD"], "Norm"), is_seq_lens_cumsum: flag(false) },

  infer(call) {
    const { key_cache, value_cache } = call.inputs;
    checkShapes(call);
    call.check(
      value_cache !== undefined || !call.wants("value"),
      "the output value needs the input value_cache",
      "invalid-graph",
    );
    const tokens = readSequences(call)?.tokens ?? unknownDim();
    const { cache_mode } = call.attrs;
    return {
      key: { shape: rowShape(cache_mode, key_cache, tokens) },
      value: {
        type: value_cache?.type ?? key_cache.type,
        shape: value_cache && rowShape(cache_mode, value_cache, tokens),
      },
    };
  },

  looksAt: ["block_tables", "seq_lens", "seq_offset"],
  validate(call) {
    readSequences(call);
  },

  reference(call) {
    const { inputs: views, outputs, attrs } = call;
    const facts = {
      key_cache: factOfView(views.key_cache),
      value_cache: views.value_cache && factOfView(views.value_cache),
      block_tables: factOfView(views.block_tables),
      seq_lens: factOfView(views.seq_lens),
      seq_offset: views.seq_offset && factOfView(views.seq_offset),
    };
    const sequences = readSequences({ ...call, inputs: facts })!;
    for (const [cache, rows] of [
      [views.key_cache, outputs.key],
      [views.value_cache, outputs.value],
    ]) {
      if (cache !== undefined && rows !== undefined)
        gatherVectors(contiguous(cache), rows, attrs.cache_mode, sequences);
    }
  },
});
