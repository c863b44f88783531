/** Reshape: the same elements under another shape. */
import { flag } from "../../graph/attribute.js";
import {
  type Dim,
  divideExactly,
  floorDivideDims,
  isKnown,
  productOf,
  type Shape,
  shapeText,
  unknownDim,
} from "../../graph/dim.js";
import { view } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { contentsOf } from "../shared/rules/contents.js";
import { lengthOf, listOf } from "../shared/rules/operands.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { copyUnlessShared } from "../shared/loops/share.js";
import { anyType } from "../shared/rules/types.js";

/** The output's shape: 0 copies a dimension of `data` (unless it is meant as 0), −1 takes what is left. */
function reshaped(call: CallContext, data: Fact, shape: Fact, allowzero: boolean): Shape | undefined {
  const entries = listOf(call, "shape", shape);
  if (entries === undefined) {
    const rank = lengthOf(shape);
    return rank === undefined ? undefined : Array.from({ length: rank }, unknownDim);
  }
  const asked = (): string => `shape ${shapeText(entries)}`;
  const open = entries.indexOf(-1);
  call.check(open === entries.lastIndexOf(-1), () => `${asked()} may have -1 once only`, "invalid-argument");
  call.check(
    !(allowzero && open >= 0 && entries.includes(0)),
    () => `${asked()} must not have both 0 and -1 when allowzero is set`,
    "invalid-argument",
  );
  const dims = entries.map((entry, axis): Dim => {
    if (entry === -1) return 1; // the open one counts as 1 until the others are known
    if (entry !== 0 || allowzero) {
      call.check(!isKnown(entry) || entry >= 0, () => `${asked()} must not have ${entry}`, "invalid-argument");
      return entry;
    }
    if (data.shape === undefined) return unknownDim();
    call.check(
      axis < data.shape.length,
      () => `${asked()} copies dimension ${axis} of data, which has the shape ${shapeText(data.shape)}`,
      "invalid-argument",
    );
    return data.shape[axis];
  });
  const rest = productOf(dims);
  if (data.shape === undefined) return open < 0 ? dims : dims.with(open, unknownDim());
  const total = productOf(data.shape);
  const misfit = (): string =>
    `data ${shapeText(data.shape)} cannot take the ${asked()}: ${total} elements against ${rest}`;
  if (open < 0) {
    if (isKnown(total) && isKnown(rest)) call.check(total === rest, misfit);
    return dims;
  }
  call.check(rest !== 0, () => `${asked()} leaves -1 undecided beside a dimension of 0`, "invalid-argument");
  const quotient = divideExactly(total, rest);
  if (isKnown(total) && isKnown(rest)) call.check(quotient !== undefined, misfit);
  return dims.with(open, quotient ?? floorDivideDims(total, rest));
}

/** Gives `data` the shape that the operand `shape` names; 0 copies a dimension. */
export const Reshape5 = defineOp({
  name: "Reshape",
  since: 5,
  types: { T: plainTypes },
  inputs: { data: tensor("T"), shape: tensor("int64") },
  outputs: { reshaped: tensor("T") },
  effects: { reshaped: view("data") },
  infer: (call) => ({ reshaped: { shape: reshaped(call, call.inputs.data, call.inputs.shape, false) } }),
  integers: ({ inputs }) => contentsOf(inputs.data),
  reference: ({ inputs, outputs }) => copyUnlessShared(inputs.data, outputs.reshaped),
});

/** Gives `data` the shape that the operand `shape` names; with `allowzero`, 0 means 0. */
export const Reshape14 = defineOp({
  name: "Reshape",
  since: 14,
  types: { T: anyType },
  inputs: { data: tensor("T"), shape: tensor("int64") },
  outputs: { reshaped: tensor("T") },
  attrs: { allowzero: flag(false) },
  effects: { reshaped: view("data") },
  infer: (call) => ({ reshaped: { shape: reshaped(call, call.inputs.data, call.inputs.shape, call.attrs.allowzero) } }),
  integers: ({ inputs }) => contentsOf(inputs.data),
  reference: ({ inputs, outputs }) => copyUnlessShared(inputs.data, outputs.reshaped),
});
