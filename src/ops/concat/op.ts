/** Concat: tensors one after another along an axis. Moves elements without looking at them. */
import { int, required } from "../../graph/attribute.js";
import { addDims, type Dim, isKnown, unknownDim } from "../../graph/dim.js";
import { defineOp, tensor, variadic } from "../../graph/op.js";
import { copyView } from "../../tensor/copy.js";
import { contentsOf, longestContents } from "../shared/rules/contents.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { normalizeAxis, unifyDims } from "../shared/rules/shapes.js";

/** Joins tensors along `axis`. */
export const Concat = defineOp({
  name: "Concat",
  since: 4,
  types: { T: plainTypes },
  inputs: { inputs: variadic(tensor("T")) },
  outputs: { concat_result: tensor("T") },
  attrs: { axis: required(int()) },
  appends: { to: "inputs", along: "axis" },

  infer(call) {
    const shapes = call.inputs.inputs.map((input) => input.shape);
    const known = shapes.find((shape) => shape !== undefined);
    if (known === undefined) return {};
    const axis = normalizeAxis(call, call.attrs.axis, known.length);
    let result: Dim[] | undefined;
    for (const shape of shapes) {
      if (shape === undefined) return {};
      call.check(
        shape.length === known.length,
        () => `inputs must have the same rank, got ${known.length} and ${shape.length}`,
      );
      result =
        result === undefined
          ? [...shape]
          : result.map((dim, at) =>
              at === axis
                ? addDims(dim, shape[at])
                : unifyDims(call, dim, shape[at], `inputs must agree in dimension ${at}`),
            );
    }
    return { concat_result: { shape: result } };
  },

  integers({ inputs }) {
    const parts = inputs.inputs.map((input) => contentsOf(input));
    if (parts.every((part) => part === undefined)) return undefined;
    const joined: Dim[] = [];
    for (const [at, { shape }] of inputs.inputs.entries()) {
      if (shape?.length !== 1 || !isKnown(shape[0]) || joined.length + shape[0] > longestContents) return undefined;
      // A part that is not known still leaves the others in their places.
      joined.push(...(parts[at] ?? Array.from({ length: shape[0] }, unknownDim)));
    }
    return joined;
  },

  reference({ inputs, outputs, attrs }) {
    const result = outputs.concat_result;
    const axis = attrs.axis < 0 ? attrs.axis + result.rank : attrs.axis;
    let start = 0;
    for (const input of inputs.inputs) {
      const end = start + input.shape[axis];
      copyView(input, result.slice(axis, start, end));
      start = end;
    }
  },
});
