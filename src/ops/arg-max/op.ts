/** ArgMax and ArgMin: where the largest or smallest element along an axis is. */
import { flag, int } from "../../graph/attribute.js";
import { productOf } from "../../graph/dim.js";
import { defineOp, tensor } from "../../graph/op.js";
import { writeNumbers } from "../../tensor/access.js";
import { forEachLine } from "../shared/loops/along.js";
import { orderOf } from "../shared/loops/order.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { numeric } from "../shared/rules/types.js";

/** ArgMax or ArgMin. `sign` is 1 for the largest. A NaN is found as the extreme by both. */
function argOp(name: "ArgMax" | "ArgMin", sign: 1 | -1) {
  return defineOp({
    name,
    since: 1,
    types: { T: numeric },
    inputs: { data: tensor("T") },
    outputs: { reduced: tensor("int64") },
    attrs: { axis: int(0), keepdims: flag(true), select_last_index: flag(false) },
    infer(call) {
      const { shape } = call.inputs.data;
      if (shape === undefined) return {};
      const axis = normalizeAxis(call, call.attrs.axis, shape.length);
      const reduced = call.attrs.keepdims ? shape.with(axis, 1) : shape.toSpliced(axis, 1);
      call.check(
        shape[axis] !== 0 || productOf(reduced) === 0,
        () => `axis ${axis} has no elements to choose from`,
        "invalid-argument",
      );
      return { reduced: { shape: reduced } };
    },
    reference({ inputs, outputs, attrs }) {
      const { data } = inputs;
      const axis = attrs.axis < 0 ? attrs.axis + data.rank : attrs.axis;
      const compare = orderOf(data, sign === 1 ? "last" : "first");
      const result = new Float64Array(outputs.reduced.size);
      forEachLine(data.shape, axis, ({ start, step, length }, line) => {
        let best = 0;
        for (let at = 1; at < length; at++) {
          const order = sign * compare(start + at * step, start + best * step);
          if (order > 0 || (order === 0 && attrs.select_last_index)) best = at;
        }
        result[line] = best;
      });
      writeNumbers(outputs.reduced, result);
    },
  });
}

/** The index of the largest element along `axis`: the first of equals, or the last. */
export const ArgMax = argOp("ArgMax", 1);

/** The index of the smallest element along `axis`: the first of equals, or the last. */
export const ArgMin = argOp("ArgMin", -1);
