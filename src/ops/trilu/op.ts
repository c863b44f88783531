/** Trilu: the upper or lower triangle of matrices, zeros elsewhere. Moves elements without looking at them. */
import { flag } from "../../graph/attribute.js";
import { reuse } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { readBigInts } from "../../tensor/access.js";
import { elementFiller, zeroOf } from "../shared/loops/fill.js";
import { checkOneElement } from "../shared/rules/operands.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { copyUnlessShared } from "../shared/loops/share.js";
import { shapeText } from "../../graph/dim.js";

/** Keeps what lies on and above (or below) the diagonal `k` above the main one. */
export const Trilu = defineOp({
  name: "Trilu",
  since: 14,
  types: { T: plainTypes },
  inputs: { input: tensor("T"), k: optional(tensor("int64")) },
  outputs: { output: tensor("T") },
  attrs: { upper: flag(true) },
  effects: { output: reuse("input") },
  infer(call) {
    const { shape } = call.inputs.input;
    call.check(
      shape === undefined || shape.length >= 2,
      () => `input must have at least 2 dimensions, got ${shapeText(shape)}`,
    );
    checkOneElement(call, "k", call.inputs.k);
    return { output: { shape } };
  },
  reference({ inputs, outputs, attrs }) {
    const { output } = outputs;
    const diagonal = inputs.k === undefined ? 0 : Number(readBigInts(inputs.k)[0]);
    copyUnlessShared(inputs.input, output);
    if (output.size === 0) return;
    const clear = elementFiller(zeroOf(output.type), output);
    const [rows, columns] = output.shape.slice(-2);
    for (let line = 0; line < output.size / columns; line++) {
      // Columns from here on lie above the diagonal, those before it below.
      const first = Math.min(Math.max((line % rows) + diagonal + (attrs.upper ? 0 : 1), 0), columns);
      const start = output.offset + line * columns;
      if (attrs.upper) clear(start, first);
      else clear(start + first, columns - first);
    }
  },
});
