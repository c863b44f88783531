/** OneHot: each index as a row with one place switched on. Moves the two values without looking at them. */
import { int } from "../../graph/attribute.js";
import { type Dim, isKnown, shapeText, unknownDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { readNumbers } from "../../tensor/access.js";
import { elementCopier } from "../../tensor/copy.js";
import type { ElementType } from "../../tensor/element-type.js";
import { fillView } from "../shared/loops/fill.js";
import { checkOneElement, scalarOf } from "../shared/rules/operands.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { checkRank, normalizeAxis } from "../shared/rules/shapes.js";
import { integers } from "../shared/rules/types.js";

const countTypes: readonly ElementType[] = [...integers, "float16", "float32", "float64"];

/** The number of places; floats lose their fraction. */
function depthOf(call: CallContext, depth: Fact): Dim | undefined {
  checkOneElement(call, "depth", depth);
  const value =
    depth.constant === undefined ? scalarOf(call, "depth", depth) : Math.trunc(readNumbers(depth.constant)[0]);
  call.check(
    value === undefined || !isKnown(value) || (value >= 0 && Number.isSafeInteger(value)),
    () => `depth must be a number of classes, got ${value}`,
    "invalid-argument",
  );
  return value;
}

/** The on value where an index points, the off value elsewhere; an index outside [−depth, depth) switches nothing on. */
export const OneHot = defineOp({
  name: "OneHot",
  since: 9,
  types: { T1: countTypes, T2: countTypes, T3: plainTypes },
  inputs: { indices: tensor("T1"), depth: tensor("T2"), values: tensor("T3") },
  outputs: { output: tensor("T3") },
  attrs: { axis: int(-1) },
  infer(call) {
    const { indices, depth, values } = call.inputs;
    checkRank(call, "values", values, 1);
    const pair = values.shape?.[0];
    call.check(
      pair === undefined || !isKnown(pair) || pair === 2,
      () => `values must hold the off value and the on value, got ${values.type}${shapeText(values.shape)}`,
    );
    const places = depthOf(call, depth) ?? unknownDim();
    if (indices.shape === undefined) return {};
    const axis = normalizeAxis(call, call.attrs.axis, indices.shape.length + 1);
    return { output: { shape: indices.shape.toSpliced(axis, 0, places) } };
  },
  reference({ inputs, outputs, attrs }) {
    const { output } = outputs;
    const { values } = inputs;
    const axis = attrs.axis < 0 ? attrs.axis + output.rank : attrs.axis;
    fillView(output, values.slice(0, 0, 1));
    const depth = output.shape[axis];
    const inner = output.shape.slice(axis + 1).reduce((size, dim) => size * dim, 1);
    const copy = elementCopier(values, output);
    const on = values.offset + values.strides[0];
    readNumbers(inputs.indices).forEach((given: number, position: number) => {
      const index = Math.trunc(given) < 0 ? Math.trunc(given) + depth : Math.trunc(given);
      if (!(index >= 0 && index < depth)) return;
      const outer = Math.floor(position / inner);
      copy(on, output.offset + (outer * depth + index) * inner + (position % inner), 1);
    });
  },
});
