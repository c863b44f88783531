/** Slice: every step-th element between a start and an end, along some axes. Moves elements without looking at them. */
import { bigints, ints, required } from "../../graph/attribute.js";
import { type Dim, isKnown, isKnownShape, type Shape, unknownDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { copyView } from "../../tensor/copy.js";
import type { View } from "../../tensor/view.js";
import { movedContents } from "../shared/rules/contents.js";
import { listOf, axesOf } from "../shared/rules/operands.js";
import { classicTypes, plainTypes } from "../shared/rules/plain-types.js";
import { normalizeAxes } from "../shared/rules/shapes.js";
import { indexTypes } from "../shared/rules/types.js";
import { clampedNumbers, lengthAlong, type Range, rangeOf, sliceView } from "./range.js";

/** What a slice asks for, one entry an axis; undefined where the values are unknown. */
interface Bounds {
  readonly starts: readonly Dim[] | undefined;
  readonly ends: readonly Dim[] | undefined;
  readonly axes: readonly number[] | undefined;
  readonly steps: readonly Dim[] | undefined;
}

/** The first axes of a tensor, one for each entry of `starts`. */
const firstAxes = (entries: readonly unknown[] | undefined): readonly number[] | undefined =>
  entries?.map((_, axis) => axis);

function checkBounds(call: CallContext, { starts, ends, axes, steps }: Bounds): void {
  const count = (starts ?? ends ?? axes ?? steps)?.length;
  for (const [name, list] of Object.entries({ starts, ends, axes, steps })) {
    call.check(
      list === undefined || list.length === count,
      () => `starts, ends, axes and steps must have one length, got ${count} and ${list?.length} entries of ${name}`,
    );
  }
  call.check(steps === undefined || !steps.includes(0), "steps must not be 0", "invalid-argument");
}

/** The shape that a slice of `shape` has. */
function slicedShape(call: CallContext, shape: Shape | undefined, bounds: Bounds): Shape | undefined {
  checkBounds(call, bounds);
  if (shape === undefined) return undefined;
  if (bounds.axes === undefined) return shape.map(unknownDim);
  const { starts, ends, steps } = bounds;
  const result = [...shape];
  normalizeAxes(call, bounds.axes, shape.length).forEach((axis, at) => {
    result[axis] =
      starts === undefined || ends === undefined || steps === undefined
        ? unknownDim()
        : lengthAlong(shape[axis], starts[at], ends[at], steps[at]);
  });
  return result;
}

/** The ranges of a slice whose numbers are all known. */
function rangesOf(shape: readonly number[], bounds: { [N in keyof Bounds]: readonly number[] }): Range[] {
  return bounds.axes.map((given, at) => {
    const axis = given < 0 ? given + shape.length : given;
    return rangeOf(axis, shape[axis], bounds.starts[at], bounds.ends[at], bounds.steps[at]);
  });
}

/** Contents of a sliced integer tensor, where contents and bounds are known. */
function slicedContents(data: Fact, { starts, ends, axes, steps }: Bounds): readonly Dim[] | undefined {
  if (!isKnownShape(data.shape) || axes === undefined) return undefined;
  if (!starts?.every(isKnown) || !ends?.every(isKnown) || !steps?.every(isKnown)) return undefined;
  const ranges = rangesOf(data.shape, { starts, ends, axes, steps });
  const shape = [...data.shape];
  for (const { axis, count } of ranges) shape[axis] = count;
  return movedContents(data, shape, (from, to) => copyView(sliceView(from, ranges), to));
}

/** Bounds given by attributes; every step is 1. */
function boundsOfAttributes(attrs: {
  readonly starts: readonly bigint[];
  readonly ends: readonly bigint[];
  readonly axes: readonly number[] | undefined;
}): { [N in keyof Bounds]: readonly number[] } {
  const starts = attrs.starts.map(Number);
  return { starts, ends: attrs.ends.map(Number), axes: attrs.axes ?? firstAxes(starts)!, steps: starts.map(() => 1) };
}

/** Takes the elements between `starts` and `ends`, which are attributes. */
export const Slice1 = defineOp({
  name: "Slice",
  since: 1,
  types: { T: classicTypes },
  inputs: { data: tensor("T") },
  outputs: { output: tensor("T") },
  attrs: { axes: ints(), ends: required(bigints()), starts: required(bigints()) },
  infer: (call) => ({ output: { shape: slicedShape(call, call.inputs.data.shape, boundsOfAttributes(call.attrs)) } }),
  integers: ({ inputs, attrs }) => slicedContents(inputs.data, boundsOfAttributes(attrs)),
  reference({ inputs, outputs, attrs }) {
    copyView(sliceView(inputs.data, rangesOf(inputs.data.shape, boundsOfAttributes(attrs))), outputs.output);
  },
});

interface Operands<V> {
  readonly starts: V;
  readonly ends: V;
  readonly axes: V | undefined;
  readonly steps: V | undefined;
}

function boundsOfFacts(call: CallContext, inputs: Operands<Fact>): Bounds {
  const starts = listOf(call, "starts", inputs.starts, { clamped: true });
  const ends = listOf(call, "ends", inputs.ends, { clamped: true });
  const known = axesOf(call, inputs.axes);
  const steps = listOf(call, "steps", inputs.steps, { clamped: true });
  return {
    starts,
    ends,
    axes: inputs.axes === undefined ? firstAxes(starts ?? ends) : known,
    steps: inputs.steps === undefined ? starts?.map(() => 1) : steps,
  };
}

function boundsOfViews(inputs: Operands<View>): { [N in keyof Bounds]: readonly number[] } {
  const starts = clampedNumbers(inputs.starts);
  return {
    starts,
    ends: clampedNumbers(inputs.ends),
    axes: inputs.axes === undefined ? firstAxes(starts)! : clampedNumbers(inputs.axes),
    steps: inputs.steps === undefined ? starts.map(() => 1) : clampedNumbers(inputs.steps),
  };
}

/** Takes every `steps`-th element between `starts` and `ends`, which are operands. */
export const Slice10 = defineOp({
  name: "Slice",
  since: 10,
  types: { T: plainTypes, Tind: indexTypes },
  inputs: {
    data: tensor("T"),
    starts: tensor("Tind"),
    ends: tensor("Tind"),
    axes: optional(tensor("Tind")),
    steps: optional(tensor("Tind")),
  },
  outputs: { output: tensor("T") },
  infer: (call) => ({ output: { shape: slicedShape(call, call.inputs.data.shape, boundsOfFacts(call, call.inputs)) } }),
  integers: (call) => slicedContents(call.inputs.data, boundsOfFacts(call, call.inputs)),
  reference({ inputs, outputs }) {
    copyView(sliceView(inputs.data, rangesOf(inputs.data.shape, boundsOfViews(inputs))), outputs.output);
  },
});
