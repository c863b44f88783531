/** Transpose: axes in another order. Moves elements without looking at them. */
import { ints } from "../../graph/attribute.js";
import { isKnownShape, unknownDim } from "../../graph/dim.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { copyView } from "../../tensor/copy.js";
import { movedContents } from "../shared/rules/contents.js";
import { anyType } from "../shared/rules/types.js";

/** The order of the axes: `perm`, or the reverse where it is left out or empty. */
const orderOf = (perm: readonly number[] | undefined, rank: number): readonly number[] =>
  perm !== undefined && perm.length > 0 ? perm : Array.from({ length: rank }, (_, axis) => rank - 1 - axis);

function checkOrder(call: CallContext, perm: readonly number[], rank: number): void {
  const whole = perm.length === rank && new Set(perm).size === rank && perm.every((axis) => axis >= 0 && axis < rank);
  call.check(
    whole,
    () => `perm must hold each of the ${rank} axes from 0 on once, got [${perm.join(",")}]`,
    "invalid-argument",
  );
}

/** Axis i of the result is axis `perm[i]` of `data`. */
export const Transpose = defineOp({
  name: "Transpose",
  since: 1,
  types: { T: anyType },
  inputs: { data: tensor("T") },
  outputs: { transposed: tensor("T") },
  attrs: { perm: ints() },
  permutes: { input: "data", order: ({ perm }, rank) => orderOf(perm, rank) },
  infer(call) {
    const { perm } = call.attrs;
    const { shape } = call.inputs.data;
    if (shape === undefined) return perm?.length ? { transposed: { shape: perm.map(unknownDim) } } : {};
    const order = orderOf(perm, shape.length);
    checkOrder(call, order, shape.length);
    return { transposed: { shape: order.map((axis) => shape[axis]) } };
  },
  integers({ inputs, attrs }) {
    const { shape } = inputs.data;
    if (!isKnownShape(shape)) return undefined;
    const order = orderOf(attrs.perm, shape.length);
    return movedContents(
      inputs.data,
      order.map((axis) => shape[axis]),
      (from, to) => copyView(from.transpose(order), to),
    );
  },
  reference({ inputs, outputs, attrs }) {
    copyView(inputs.data.transpose(orderOf(attrs.perm, inputs.data.rank)), outputs.transposed);
  },
});
