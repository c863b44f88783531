/** Questions about a float: is it infinite, is it a number. */
import { flag } from "../../graph/attribute.js";
import { defineOp, tensor } from "../../graph/op.js";
import type { ElementType } from "../../tensor/element-type.js";
import { mapElements } from "../shared/loops/elementwise.js";
import { float8s, floats } from "../shared/rules/types.js";

const types: readonly ElementType[] = [...floats, ...float8s];

/** True where the operand is infinite, of the signs asked for. */
export const IsInf = defineOp({
  name: "IsInf",
  since: 10,
  types: { T1: types },
  inputs: { X: tensor("T1") },
  outputs: { Y: tensor("bool") },
  attrs: { detect_negative: flag(true), detect_positive: flag(true) },
  infer: ({ inputs }) => ({ Y: { shape: inputs.X.shape } }),
  reference({ inputs, outputs, attrs }) {
    const { detect_negative: negative, detect_positive: positive } = attrs;
    mapElements(inputs.X, outputs.Y, {
      number: (x) => Number((positive && x === Infinity) || (negative && x === -Infinity)),
    });
  },
});

/** True where the operand is not a number. */
export const IsNaN = defineOp({
  name: "IsNaN",
  since: 9,
  types: { T1: types },
  inputs: { X: tensor("T1") },
  outputs: { Y: tensor("bool") },
  infer: ({ inputs }) => ({ Y: { shape: inputs.X.shape } }),
  reference: ({ inputs, outputs }) => mapElements(inputs.X, outputs.Y, { number: (x) => Number(Number.isNaN(x)) }),
});
