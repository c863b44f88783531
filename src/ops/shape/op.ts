/** Shape and Size: what a tensor's dimensions are. They read no elements. */
import { int } from "../../graph/attribute.js";
import { type Dim, productOf, type Shape, unknownDim } from "../../graph/dim.js";
import { defineOp, tensor } from "../../graph/op.js";
import { writeNumbers } from "../../tensor/access.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { anyType } from "../shared/rules/types.js";

const clamp = (value: number, rank: number): number => Math.min(Math.max(value < 0 ? value + rank : value, 0), rank);

/** The dimensions from `start` to `end`, both counted from the back when negative and clamped to the rank. */
function cut<D extends Dim>(shape: readonly D[], start: number, end: number | undefined): readonly D[] {
  const { length } = shape;
  return shape.slice(clamp(start, length), clamp(end ?? length, length));
}

const list = (dims: Shape | undefined): { shape: { shape: Shape; integers: Shape | undefined } } => ({
  shape: { shape: [dims === undefined ? unknownDim() : dims.length], integers: dims },
});

/** The dimensions of `data`. */
export const Shape1 = defineOp({
  name: "Shape",
  since: 1,
  types: { T: plainTypes },
  inputs: { data: tensor("T") },
  readsOnlyShape: ["data"],
  outputs: { shape: tensor("int64") },
  infer: ({ inputs }) => list(inputs.data.shape),
  reference: ({ inputs, outputs }) => writeNumbers(outputs.shape, inputs.data.shape),
});

/** The dimensions of `data` from `start` to `end`. */
export const Shape15 = defineOp({
  name: "Shape",
  since: 15,
  types: { T: anyType },
  inputs: { data: tensor("T") },
  readsOnlyShape: ["data"],
  outputs: { shape: tensor("int64") },
  attrs: { end: int(), start: int(0) },
  infer({ inputs, attrs }) {
    const { shape } = inputs.data;
    return list(shape && cut(shape, attrs.start, attrs.end));
  },
  reference({ inputs, outputs, attrs }) {
    writeNumbers(outputs.shape, cut(inputs.data.shape, attrs.start, attrs.end));
  },
});

/** The number of elements of `data`. */
export const Size = defineOp({
  name: "Size",
  since: 1,
  types: { T: anyType },
  inputs: { data: tensor("T") },
  readsOnlyShape: ["data"],
  outputs: { size: tensor("int64") },
  infer({ inputs }) {
    const { shape } = inputs.data;
    return { size: { shape: [], integers: shape && [productOf(shape)] } };
  },
  reference: ({ inputs, outputs }) => writeNumbers(outputs.size, [inputs.data.size]),
});
