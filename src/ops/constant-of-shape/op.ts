/** ConstantOfShape: a tensor filled with one value. */
import { tensorValue } from "../../graph/attribute.js";
import { isKnown, isKnownShape, shapeText, unknownDim } from "../../graph/dim.js";
import { defineOp, tensor } from "../../graph/op.js";
import { traitsOf } from "../../tensor/element-type.js";
import { elementCount, type View } from "../../tensor/view.js";
import { contentsOf, longestContents } from "../shared/rules/contents.js";
import { fillView, zeroOf } from "../shared/loops/fill.js";
import { lengthOf, listOf } from "../shared/rules/operands.js";
import { anyType } from "../shared/rules/types.js";

const filler = (value: View | undefined): View => value ?? zeroOf("float32");

/** Every type but complex numbers and strings. */
const fillTypes = anyType.filter((type) => !["complex", "string"].includes(traitsOf(type).kind));

/** A tensor of the shape `input`, filled with `value`, or with float zeros. */
export const ConstantOfShape = defineOp({
  name: "ConstantOfShape",
  since: 9,
  types: { T2: fillTypes },
  inputs: { input: tensor("int64") },
  outputs: { output: tensor("T2") },
  attrs: { value: tensorValue() },
  infer(call) {
    const value = filler(call.attrs.value);
    call.check(value.size === 1, () => `value must hold exactly one element, got ${value}`);
    const { type } = value;
    const dims = listOf(call, "input", call.inputs.input);
    if (dims === undefined) {
      const rank = lengthOf(call.inputs.input);
      return { output: { type, shape: rank === undefined ? undefined : Array.from({ length: rank }, unknownDim) } };
    }
    for (const dim of dims) {
      call.check(!isKnown(dim) || dim >= 0, () => `input ${shapeText(dims)} must not have ${dim}`, "invalid-argument");
    }
    const one = contentsOf({ type, shape: [], constant: value });
    const short = one !== undefined && isKnownShape(dims) && elementCount(dims) <= longestContents;
    return {
      output: {
        type,
        shape: dims,
        integers: short ? Array.from({ length: elementCount(dims) }, () => one[0]) : undefined,
      },
    };
  },
  reference: ({ outputs, attrs }) => fillView(outputs.output, filler(attrs.value)),
});
