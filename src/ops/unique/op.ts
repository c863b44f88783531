/** Unique: the different elements, or slices, of a tensor. */
import { flag, int } from "../../graph/attribute.js";
import { productOf, unknownDim } from "../../graph/dim.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { writeNumbers } from "../../tensor/access.js";
import { contiguous, copyView } from "../../tensor/copy.js";
import type { View } from "../../tensor/view.js";
import { orderOf } from "../shared/loops/order.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { inOrder } from "../shared/rules/work.js";

/** Slices grouped by what they hold. */
interface Groups {
  /** The first member of each group. */
  readonly first: Uint32Array;
  readonly counts: Uint32Array;
  /** The group of each slice. */
  readonly inverse: Uint32Array;
}

/** Groups the slices along the first axis; groups are sorted, or in the order their first members come. */
function groupSlices(slices: View, sorted: boolean): Groups {
  const count = slices.shape[0];
  const width = count === 0 ? 0 : slices.size / count;
  const compare = orderOf(slices);
  const compareSlices = (a: number, b: number): number => {
    for (let i = 0; i < width; i++) {
      const order = compare(a * width + i, b * width + i);
      if (order !== 0) return order;
    }
    return 0;
  };
  const positions = Uint32Array.from({ length: count }, (_, at) => at);
  const ordered = positions.toSorted((a, b) => compareSlices(a, b) || a - b);
  const opens = (at: number): boolean => at === 0 || compareSlices(ordered[at - 1], ordered[at]) !== 0;
  const first = ordered.filter((_, at) => opens(at));
  if (!sorted) first.sort();
  // Slice → group: known for the first members, handed on to those that equal them.
  const inverse = new Uint32Array(count);
  first.forEach((slice, group) => (inverse[slice] = group));
  const counts = new Uint32Array(first.length);
  for (let at = 0, group = 0; at < count; at++) {
    if (opens(at)) group = inverse[ordered[at]];
    inverse[ordered[at]] = group;
    counts[group]++;
  }
  return { first, counts, inverse };
}

/** The different elements of `X` (or slices along `axis`), where each comes first, which one each is, and how often it comes. */
export const Unique = defineOp({
  name: "Unique",
  since: 11,
  types: { T: plainTypes },
  inputs: { X: tensor("T") },
  outputs: {
    Y: tensor("T"),
    indices: optional(tensor("int64")),
    inverse_indices: optional(tensor("int64")),
    counts: optional(tensor("int64")),
  },
  attrs: { axis: int(), sorted: flag(true) },
  infer(call) {
    const { shape } = call.inputs.X;
    const found = unknownDim();
    const axis =
      call.attrs.axis === undefined || shape === undefined
        ? undefined
        : normalizeAxis(call, call.attrs.axis, shape.length);
    const slices = shape === undefined ? unknownDim() : axis === undefined ? productOf(shape) : shape[axis];
    const whole = call.attrs.axis === undefined ? [found] : axis === undefined ? undefined : shape?.with(axis, found);
    return {
      Y: { shape: whole },
      indices: { shape: [found] },
      inverse_indices: { shape: [slices] },
      counts: { shape: [found] },
    };
  },
  work: ({ inputs }) => inOrder(inputs.X),

  reference(call) {
    const { X } = call.inputs;
    const axis = call.attrs.axis === undefined ? 0 : call.attrs.axis < 0 ? call.attrs.axis + X.rank : call.attrs.axis;
    const source = call.attrs.axis === undefined ? contiguous(X).reshape([X.size]) : X;
    const order = source.shape.map((_, at) => at);
    const slices = contiguous(source.transpose([axis, ...order.filter((at) => at !== axis)]));
    const { first, counts, inverse } = groupSlices(slices, call.attrs.sorted);
    const output = call.allocate("Y", source.shape.with(axis, first.length));
    first.forEach((from, to) => copyView(source.slice(axis, from, from + 1), output.slice(axis, to, to + 1)));
    const list = (name: "indices" | "inverse_indices" | "counts", values: Uint32Array): void => {
      if (call.wants(name)) writeNumbers(call.outputs[name] ?? call.allocate(name, [values.length]), values);
    };
    list("indices", first);
    list("inverse_indices", inverse);
    list("counts", counts);
  },
});
