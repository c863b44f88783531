/** TopK: the largest or smallest elements along an axis, and where they are. */
import { flag, int, required } from "../../graph/attribute.js";
import { type Dim, isKnown, type Shape, unknownDim } from "../../graph/dim.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { numberWriter } from "../../tensor/access.js";
import { contiguous, elementCopier } from "../../tensor/copy.js";
import type { View } from "../../tensor/view.js";
import { forEachLine } from "../shared/loops/along.js";
import { scalarOf } from "../shared/rules/operands.js";
import { orderOf } from "../shared/loops/order.js";
import { classicFloats } from "../shared/rules/plain-types.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { numeric } from "../shared/rules/types.js";
import { inOrder } from "../shared/rules/work.js";

/** Facts of both outputs; k is undefined where its value is unknown. */
function inferTop(
  call: CallContext,
  shape: Shape | undefined,
  axisGiven: number,
  k: Dim | undefined,
): { Values: { shape: Shape | undefined }; Indices: { shape: Shape | undefined } } {
  if (shape === undefined) return { Values: { shape }, Indices: { shape } };
  const axis = normalizeAxis(call, axisGiven, shape.length);
  const size = shape[axis];
  call.check(k === undefined || !isKnown(k) || k >= 0, () => `K must not be negative, got ${k}`, "invalid-argument");
  call.check(
    k === undefined || !isKnown(k) || !isKnown(size) || k <= size,
    () => `K must not exceed the ${size} elements of axis ${axis}, got ${k}`,
    "invalid-argument",
  );
  const top = shape.with(axis, k ?? unknownDim());
  return { Values: { shape: top }, Indices: { shape: top } };
}

/** Writes the first k elements of each line in order; of equal ones the earlier comes first. NaN counts as the largest. */
function writeTop(X: View, outputs: { Values?: View; Indices?: View }, axisGiven: number, largest: boolean): void {
  const shape = (outputs.Values ?? outputs.Indices)?.shape;
  if (shape === undefined) return;
  const axis = axisGiven < 0 ? axisGiven + X.rank : axisGiven;
  const k = shape[axis];
  const source = contiguous(X);
  const compare = orderOf(source);
  const sign = largest ? -1 : 1;
  const copy = outputs.Values && elementCopier(source, outputs.Values);
  const write = outputs.Indices && numberWriter(outputs.Indices);
  forEachLine(X.shape, axis, ({ start, step, length }) => {
    const order = Uint32Array.from({ length }, (_, at) => at);
    order.sort((a, b) => sign * compare(start + a * step, start + b * step) || a - b);
    const inner = start % step;
    const first = ((start - inner) / length) * k + inner; // where the line begins in the outputs
    for (let position = 0; position < k; position++) {
      const target = first + position * step;
      copy?.(source.offset + start + order[position] * step, outputs.Values!.offset + target, 1);
      write?.(outputs.Indices!.offset + target, order[position]);
    }
  });
}

const outputs = { Values: tensor("T"), Indices: tensor("int64") } as const;

/** The `k` largest elements along `axis`; k is an attribute. */
export const TopK1 = defineOp({
  name: "TopK",
  since: 1,
  types: { T: classicFloats },
  inputs: { X: tensor("T") },
  outputs,
  attrs: { axis: int(-1), k: required(int()) },
  infer: (call) => inferTop(call, call.inputs.X.shape, call.attrs.axis, call.attrs.k),
  work: ({ inputs }) => inOrder(inputs.X),
  reference: ({ inputs, outputs: results, attrs }) => writeTop(inputs.X, results, attrs.axis, true),
});

/** The `K` largest (or smallest) elements along `axis`, always sorted. */
export const TopK10 = defineOp({
  name: "TopK",
  since: 10,
  types: { T: numeric },
  inputs: { X: tensor("T"), K: tensor("int64") },
  outputs,
  attrs: { axis: int(-1), largest: flag(true), sorted: flag(true) },
  infer: (call) => inferTop(call, call.inputs.X.shape, call.attrs.axis, scalarOf(call, "K", call.inputs.K)),
  work: ({ inputs }) => inOrder(inputs.X),
  reference: ({ inputs, outputs: results, attrs }) => writeTop(inputs.X, results, attrs.axis, attrs.largest),
});
