/** Pad: elements added around a tensor, or taken off. Moves elements without looking at them. */
import { float, ints, oneOf, required } from "../../graph/attribute.js";
import { addDims, type Dim, isKnown, type Shape, shapeText, unknownDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { readIntegers, writeNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { zeroOf } from "../shared/loops/fill.js";
import { checkOneElement, lengthOf, listOf, axesOf } from "../shared/rules/operands.js";
import { classicFloats, plainTypes } from "../shared/rules/plain-types.js";
import { normalizeAxes } from "../shared/rules/shapes.js";
import { anyType, indexTypes } from "../shared/rules/types.js";
import { type AxisPads, type PadMode, padView } from "./move.js";

const early = ["constant", "reflect", "edge"] as const;
const all = ["constant", "reflect", "edge", "wrap"] as const;

/** The output's shape. `axes` is undefined where its values are unknown. */
function paddedShape(
  call: CallContext,
  shape: Shape | undefined,
  pads: readonly Dim[] | undefined,
  axes: readonly number[] | undefined,
  mode: PadMode,
): Shape | undefined {
  if (shape === undefined) return undefined;
  if (axes === undefined) return shape.map(unknownDim);
  const result = [...shape];
  normalizeAxes(call, axes, shape.length).forEach((axis, at) => {
    if (pads === undefined) {
      result[axis] = unknownDim();
      return;
    }
    const [size, begin, end] = [shape[axis], pads[at], pads[at + axes.length]];
    const padded = addDims(size, addDims(begin, end));
    result[axis] = padded;
    if (!isKnown(size) || !isKnown(begin) || !isKnown(end) || !isKnown(padded)) return;
    call.check(
      padded >= 0,
      () => `pads ${begin} and ${end} take more off axis ${axis} of data ${shapeText(shape)} than there is`,
      "invalid-argument",
    );
    if (mode === "constant") return;
    const kept = size + Math.min(begin, 0) + Math.min(end, 0);
    call.check(
      kept > 0 || padded === 0 || (kept === 0 && begin <= 0 && end <= 0),
      () => `mode "${mode}" has nothing to repeat along axis ${axis} of data ${shapeText(shape)}`,
      "invalid-argument",
    );
  });
  return result;
}

/** Fails unless `pads` holds a beginning and an end for each of `count` axes. */
function checkPads(call: CallContext, length: number | undefined, count: number | undefined): void {
  call.check(
    length === undefined || count === undefined || length === 2 * count,
    () => `pads needs a beginning and an end for each of ${count} axes, got ${length} entries`,
  );
}

/** Where the pads of all axes stand in the list. */
function axisPads(rank: number, pads: readonly number[], axes: readonly number[] | undefined): AxisPads[] {
  const count = axes?.length ?? rank;
  return Array.from({ length: count }, (_, at) => {
    const axis = axes?.[at] ?? at;
    return { axis: axis < 0 ? axis + rank : axis, begin: pads[at], end: pads[at + count] };
  });
}

const everyAxis = (shape: Shape | undefined): readonly number[] | undefined => shape?.map((_, axis) => axis);

/** Pads by attributes. */
export const Pad2 = defineOp({
  name: "Pad",
  since: 2,
  types: { T: classicFloats },
  inputs: { data: tensor("T") },
  outputs: { output: tensor("T") },
  attrs: { mode: oneOf(early, "constant"), pads: required(ints()), value: float(0) },
  infer(call) {
    const { shape } = call.inputs.data;
    const { pads, mode } = call.attrs;
    checkPads(call, pads.length, shape?.length);
    return { output: { shape: paddedShape(call, shape, pads, everyAxis(shape), mode) } };
  },
  reference({ inputs, outputs, attrs }) {
    const { data } = inputs;
    const value = View.allocate(data.type, []);
    writeNumbers(value, [attrs.value]);
    padView(data, outputs.output, axisPads(data.rank, attrs.pads, undefined), attrs.mode, value);
  },
});

function inferOperands(
  call: CallContext,
  data: Fact,
  pads: Fact,
  value: Fact | undefined,
  axes: Fact | undefined,
  mode: PadMode,
): { output: { shape: Shape | undefined } } {
  const entries = listOf(call, "pads", pads);
  const given = axesOf(call, axes);
  checkOneElement(call, "constant_value", value);
  const known = axes === undefined ? everyAxis(data.shape) : given;
  const count = known?.length ?? (axes === undefined ? undefined : lengthOf(axes));
  checkPads(call, entries?.length ?? lengthOf(pads), count);
  return { output: { shape: paddedShape(call, data.shape, entries, known, mode) } };
}

/** Pads by operands. */
export const Pad11 = defineOp({
  name: "Pad",
  since: 11,
  types: { T: plainTypes },
  inputs: { data: tensor("T"), pads: tensor("int64"), constant_value: optional(tensor("T")) },
  outputs: { output: tensor("T") },
  attrs: { mode: oneOf(early, "constant") },
  infer(call) {
    const { data, pads, constant_value: value } = call.inputs;
    return inferOperands(call, data, pads, value, undefined, call.attrs.mode);
  },
  reference({ inputs, outputs, attrs }) {
    const { data, pads, constant_value: value = zeroOf(data.type) } = inputs;
    padView(data, outputs.output, axisPads(data.rank, readIntegers(pads), undefined), attrs.mode, value);
  },
});

/** Pad with the operand `axes`, of one opset. */
function padAxesOp(since: number, types: typeof anyType, modes: readonly PadMode[]) {
  return defineOp({
    name: "Pad",
    since,
    types: { T: types, Tind: indexTypes },
    inputs: {
      data: tensor("T"),
      pads: tensor("int64"),
      constant_value: optional(tensor("T")),
      axes: optional(tensor("Tind")),
    },
    outputs: { output: tensor("T") },
    attrs: { mode: oneOf(modes, "constant") },
    infer(call) {
      const { data, pads, constant_value: value, axes } = call.inputs;
      return inferOperands(call, data, pads, value, axes, call.attrs.mode);
    },
    reference({ inputs, outputs, attrs }) {
      const { data, pads, constant_value: value = zeroOf(data.type), axes } = inputs;
      const given = axes === undefined ? undefined : readIntegers(axes);
      padView(data, outputs.output, axisPads(data.rank, readIntegers(pads), given), attrs.mode, value);
    },
  });
}

/** Pads some axes by operands. */
export const Pad18 = padAxesOp(18, plainTypes, early);

/** Pads some axes by operands, and may wrap around. */
export const Pad19 = padAxesOp(19, anyType, all);
