/** Where: picks from X or Y by a condition. Moves elements without looking at them. */
import { type Dim, isKnown, sameDim } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import { traitsOf } from "../../tensor/element-type.js";
import { forEachTogether } from "../shared/loops/elementwise.js";
import { combineIntegers } from "../shared/rules/integer-facts.js";
import { broadcastShapes } from "../shared/rules/shapes.js";
import { numeric } from "../shared/rules/types.js";

/** Storage of whole-byte elements or strings, seen as what it holds. */
type Cells = Record<number, number | bigint | string>;

/** X where the condition holds, else Y; all three are broadcast. */
export const Where = defineOp({
  name: "Where",
  since: 9,
  types: { T: [...numeric, "string", "bool", "complex64", "complex128"] },
  inputs: { condition: tensor("bool"), X: tensor("T"), Y: tensor("T") },
  outputs: { output: tensor("T") },
  effects: { output: reuse("X", "Y") },

  infer(call) {
    const { condition, X, Y } = call.inputs;
    return { output: { shape: broadcastShapes(call, [condition.shape, X.shape, Y.shape]) } };
  },

  integers({ inputs: { condition, X, Y } }) {
    const pick = ([test, x, y]: readonly Dim[]): Dim | undefined => {
      if (isKnown(test)) return test === 0 ? y : x;
      return sameDim(x, y) ? x : undefined;
    };
    return combineIntegers([condition, X, Y], X.type, pick);
  },

  reference({ inputs: { condition, X, Y }, outputs: { output } }) {
    const width = traitsOf(output.type).kind === "complex" ? 2 : 1;
    const [tests, xs, ys, target]: Cells[] = [condition.data, X.data, Y.data, output.data];
    forEachTogether(output.shape, [condition, X, Y], (position, [test, x, y]) => {
      const [source, index] = tests[test] === 0 ? [ys, y] : [xs, x];
      const at = output.offset + position;
      for (let part = 0; part < width; part++) target[at * width + part] = source[index * width + part];
    });
  },
});
