/** Hardmax: 1 for the first largest element, 0 for the others. */
import { int } from "../../graph/attribute.js";
import { reuse } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import { writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { forEachLine } from "../shared/loops/along.js";
import { orderOf } from "../shared/loops/order.js";
import { classicFloats } from "../shared/rules/plain-types.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";

/** Marks the first largest element of each line of `shape` along `axis`; the elements are those of `input`, row-major. */
function mark(input: View, output: View, shape: readonly number[], axis: number): void {
  const compare = orderOf(input);
  const marks = new Uint8Array(input.size);
  forEachLine(shape, axis, ({ start, step, length }) => {
    if (length === 0) return;
    let best = start;
    for (let at = 1; at < length; at++) if (compare(start + at * step, best) > 0) best = start + at * step;
    marks[best] = 1;
  });
  writeNumbers(output, marks);
}

const product = (dims: readonly number[]): number => dims.reduce((size, dim) => size * dim, 1);

/** Over all elements from `axis` on together. */
export const Hardmax1 = defineOp({
  name: "Hardmax",
  since: 1,
  types: { T: classicFloats },
  inputs: { input: tensor("T") },
  outputs: { output: tensor("T") },
  attrs: { axis: int(1) },
  effects: { output: reuse("input") },
  infer(call) {
    const { shape } = call.inputs.input;
    if (shape !== undefined) normalizeAxis(call, call.attrs.axis, shape.length, { inclusive: true });
    return { output: { shape } };
  },
  reference({ inputs, outputs, attrs }) {
    const { shape, rank } = inputs.input;
    const axis = attrs.axis < 0 ? attrs.axis + rank : attrs.axis;
    mark(inputs.input, outputs.output, [product(shape.slice(0, axis)), product(shape.slice(axis))], 1);
  },
});

/** Along `axis` only. */
export const Hardmax13 = defineOp({
  name: "Hardmax",
  since: 13,
  types: { T: floats },
  inputs: { input: tensor("T") },
  outputs: { output: tensor("T") },
  attrs: { axis: int(-1) },
  effects: { output: reuse("input") },
  infer(call) {
    const { shape } = call.inputs.input;
    if (shape !== undefined) normalizeAxis(call, call.attrs.axis, shape.length);
    return { output: { shape } };
  },
  reference({ inputs, outputs, attrs }) {
    const { shape, rank } = inputs.input;
    mark(inputs.input, outputs.output, shape, attrs.axis < 0 ? attrs.axis + rank : attrs.axis);
  },
});
