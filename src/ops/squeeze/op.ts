/** Squeeze and Unsqueeze: dimensions of 1 taken out and put in. */
import { ints, required } from "../../graph/attribute.js";
import { isKnown, isKnownShape, type Shape, shapeText, unknownDim } from "../../graph/dim.js";
import { view } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { contentsOf } from "../shared/rules/contents.js";
import { lengthOf, axesOf } from "../shared/rules/operands.js";
import { classicTypes } from "../shared/rules/plain-types.js";
import { normalizeAxes } from "../shared/rules/shapes.js";
import { copyUnlessShared } from "../shared/loops/share.js";
import { anyType } from "../shared/rules/types.js";

/** Dimensions that nothing is known about, as many as `rank` says. */
const unknownShape = (call: CallContext, rank: number): Shape => {
  call.check(rank >= 0, () => `axes must not be more than the dimensions of data`, "invalid-argument");
  return Array.from({ length: rank }, unknownDim);
};

/** The shape without the dimensions at `axes`, or without every 1 where there are no axes. */
function squeezed(call: CallContext, shape: Shape | undefined, axes: readonly number[] | undefined): Shape | undefined {
  if (shape === undefined) return undefined;
  // A symbol may turn out to be 1, so without axes not even the rank can be told.
  if (axes === undefined) return isKnownShape(shape) ? shape.filter((dim) => dim !== 1) : undefined;
  const removed = normalizeAxes(call, axes, shape.length);
  for (const axis of removed) {
    call.check(
      !isKnown(shape[axis]) || shape[axis] === 1,
      () => `dimension ${axis} of data ${shapeText(shape)} must be 1 to be squeezed`,
    );
  }
  return shape.filter((_, axis) => !removed.includes(axis));
}

/** The shape with a dimension of 1 at each of `axes`, counted in the result. */
function unsqueezed(call: CallContext, shape: Shape | undefined, axes: readonly number[]): Shape | undefined {
  if (shape === undefined) return undefined;
  const added = normalizeAxes(call, axes, shape.length + axes.length);
  const old = shape.values();
  return Array.from({ length: shape.length + axes.length }, (_, axis) =>
    added.includes(axis) ? 1 : old.next().value!,
  );
}

/** The rank of `data` changed by the length of `axes`, for axes whose values are unknown. */
function byLength(call: CallContext, data: Fact, axes: Fact, sign: 1 | -1): Shape | undefined {
  const length = lengthOf(axes);
  if (data.shape === undefined || length === undefined) return undefined;
  return unknownShape(call, data.shape.length + sign * length);
}

/** Takes out dimensions of 1: those of the attribute `axes`, or all. */
export const Squeeze1 = defineOp({
  name: "Squeeze",
  since: 1,
  types: { T: classicTypes },
  inputs: { data: tensor("T") },
  outputs: { squeezed: tensor("T") },
  attrs: { axes: ints() },
  effects: { squeezed: view("data") },
  infer(call) {
    const { axes } = call.attrs;
    return { squeezed: { shape: squeezed(call, call.inputs.data.shape, axes?.length === 0 ? undefined : axes) } };
  },
  integers: ({ inputs }) => contentsOf(inputs.data),
  reference: ({ inputs, outputs }) => copyUnlessShared(inputs.data, outputs.squeezed),
});

/** Takes out dimensions of 1: those of the operand `axes`, or all where it is left out. */
export const Squeeze13 = defineOp({
  name: "Squeeze",
  since: 13,
  types: { T: anyType },
  inputs: { data: tensor("T"), axes: optional(tensor("int64")) },
  outputs: { squeezed: tensor("T") },
  effects: { squeezed: view("data") },
  infer(call) {
    const { data, axes } = call.inputs;
    const known = axesOf(call, axes);
    const shape =
      axes !== undefined && known === undefined ? byLength(call, data, axes, -1) : squeezed(call, data.shape, known);
    return { squeezed: { shape } };
  },
  integers: ({ inputs }) => contentsOf(inputs.data),
  reference: ({ inputs, outputs }) => copyUnlessShared(inputs.data, outputs.squeezed),
});

/** Puts in dimensions of 1 at the attribute `axes`. */
export const Unsqueeze1 = defineOp({
  name: "Unsqueeze",
  since: 1,
  types: { T: classicTypes },
  inputs: { data: tensor("T") },
  outputs: { expanded: tensor("T") },
  attrs: { axes: required(ints()) },
  effects: { expanded: view("data") },
  infer: (call) => ({ expanded: { shape: unsqueezed(call, call.inputs.data.shape, call.attrs.axes) } }),
  integers: ({ inputs }) => contentsOf(inputs.data),
  reference: ({ inputs, outputs }) => copyUnlessShared(inputs.data, outputs.expanded),
});

/** Puts in dimensions of 1 at the operand `axes`. */
export const Unsqueeze13 = defineOp({
  name: "Unsqueeze",
  since: 13,
  types: { T: anyType },
  inputs: { data: tensor("T"), axes: tensor("int64") },
  outputs: { expanded: tensor("T") },
  effects: { expanded: view("data") },
  infer(call) {
    const { data, axes } = call.inputs;
    const known = axesOf(call, axes);
    return {
      expanded: { shape: known === undefined ? byLength(call, data, axes, 1) : unsqueezed(call, data.shape, known) },
    };
  },
  integers: ({ inputs }) => contentsOf(inputs.data),
  reference: ({ inputs, outputs }) => copyUnlessShared(inputs.data, outputs.expanded),
});
