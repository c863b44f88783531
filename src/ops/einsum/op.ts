/** Einsum: sums of products over named indices. */
import { required, string } from "../../graph/attribute.js";
import { type Dim, isKnown, maxDim, sameDim, type Shape } from "../../graph/dim.js";
import { type CallContext, defineOp, tensor, variadic } from "../../graph/op.js";
import { numeric } from "../shared/rules/types.js";
import { contract } from "./contract.js";
import { type Indices, nameAxes, parseEquation } from "./equation.js";

/** The contraction that `equation` describes. */
export const Einsum = defineOp({
  name: "Einsum",
  since: 12,
  types: { T: numeric },
  inputs: { Inputs: variadic(tensor("T")) },
  outputs: { Output: tensor("T") },
  attrs: { equation: required(string()) },

  infer(call) {
    const shapes = call.inputs.Inputs.map((input) => input.shape);
    const equation = parseEquation(call, call.attrs.equation, shapes.length);
    if (!shapes.every((shape) => shape !== undefined)) return {};
    const indices = nameAxes(
      call,
      equation,
      shapes.map((shape) => shape.length),
    );
    const sizes = indexSizes(call, indices, shapes);
    return { Output: { shape: indices.output.map((name) => sizes.get(name)!) } };
  },

  work(call) {
    const shapes = call.inputs.Inputs.map(({ shape }) => shape ?? []);
    const ranks = shapes.map((shape) => shape.length);
    const indices = nameAxes(call, parseEquation(call, call.attrs.equation, shapes.length), ranks);
    // Never more than all indices at once, for each operand that joins the others.
    return [...indexSizes(call, indices, shapes).values()].reduce<number>(
      (steps, size) => steps * Number(size),
      shapes.length,
    );
  },

  reference(call) {
    const operands = call.inputs.Inputs;
    const equation = parseEquation(call, call.attrs.equation, operands.length);
    const indices = nameAxes(
      call,
      equation,
      operands.map((view) => view.rank),
    );
    const sizes = indexSizes(
      call,
      indices,
      operands.map((view) => view.shape),
    );
    contract(operands, indices, sizes as Map<string, number>, call.outputs.Output);
  },
});

/** The size of every index; a 1 stretches to what the other operands have. */
function indexSizes(call: CallContext, { terms }: Indices, shapes: readonly Shape[]): Map<string, Dim> {
  const sizes = new Map<string, Dim>();
  terms.forEach((term, position) => {
    term.forEach((name, axis) => {
      const dim = shapes[position][axis];
      const before = sizes.get(name) ?? 1;
      sizes.set(
        name,
        stretched(before, dim) ?? call.fail(`index "${name}" must have one size, got ${before} and ${dim}`),
      );
    });
  });
  return sizes;
}

function stretched(a: Dim, b: Dim): Dim | undefined {
  if (a === 1) return b;
  if (b === 1 || sameDim(a, b)) return a;
  if (isKnown(a)) return isKnown(b) ? undefined : a;
  return isKnown(b) ? b : maxDim(a, b);
}
