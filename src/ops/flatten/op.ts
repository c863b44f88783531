/** Flatten: any tensor as a matrix. */
import { int } from "../../graph/attribute.js";
import { productOf } from "../../graph/dim.js";
import { view } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import { contentsOf } from "../shared/rules/contents.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { copyUnlessShared } from "../shared/loops/share.js";
import { anyType } from "../shared/rules/types.js";

/** Joins the dimensions before `axis` into one and the rest into another. */
export const Flatten = defineOp({
  name: "Flatten",
  since: 1,
  types: { T: anyType },
  inputs: { input: tensor("T") },
  outputs: { output: tensor("T") },
  attrs: { axis: int(1) },
  effects: { output: view("input") },
  infer(call) {
    const { shape } = call.inputs.input;
    if (shape === undefined) return {};
    const axis = normalizeAxis(call, call.attrs.axis, shape.length, { inclusive: true });
    return { output: { shape: [productOf(shape.slice(0, axis)), productOf(shape.slice(axis))] } };
  },
  integers: ({ inputs }) => contentsOf(inputs.input),
  reference: ({ inputs, outputs }) => copyUnlessShared(inputs.input, outputs.output),
});
