/** EyeLike: ones on a diagonal, zeros elsewhere. Reads its operand's shape only. */
import { elementType, int } from "../../graph/attribute.js";
import { defineOp, tensor } from "../../graph/op.js";
import { numberWriter } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { fillView, zeroOf } from "../shared/loops/fill.js";
import { checkRank } from "../shared/rules/shapes.js";
import { numeric } from "../shared/rules/types.js";

const types: readonly ElementType[] = [...numeric, "bool"];

/** A matrix shaped as `input` with ones on the diagonal `k` above the main one. */
export const EyeLike = defineOp({
  name: "EyeLike",
  since: 9,
  types: { T1: types, T2: types },
  inputs: { input: tensor("T1") },
  readsOnlyShape: ["input"],
  outputs: { output: tensor("T2") },
  attrs: { dtype: elementType(), k: int(0) },
  infer(call) {
    const { input } = call.inputs;
    checkRank(call, "input", input, 2);
    return { output: { type: call.attrs.dtype ?? input.type, shape: input.shape } };
  },
  reference({ outputs: { output }, attrs: { k } }) {
    const [rows, columns] = output.shape;
    fillView(output, zeroOf(output.type));
    const write = numberWriter(output);
    for (let row = Math.max(0, -k); row < rows && row + k < columns; row++) {
      write(output.offset + row * columns + row + k, 1);
    }
  },
});
