/** Expand: a tensor repeated by broadcasting. Moves elements without looking at them. */
import { isKnown, isKnownShape, shapeText, unknownDim } from "../../graph/dim.js";
import { defineOp, type InferCall, tensor } from "../../graph/op.js";
import { movedContents } from "../shared/rules/contents.js";
import { lengthOf, listOf } from "../shared/rules/operands.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { copyRepeated } from "../shared/loops/repeat.js";
import { broadcastShapes } from "../shared/rules/shapes.js";
import type { Shape } from "../../graph/dim.js";

const inputs = { input: tensor("T"), shape: tensor("int64") } as const;
const outputs = { output: tensor("T") } as const;

function expandedShape(call: InferCall<typeof inputs, typeof outputs, unknown>): Shape | undefined {
  const { input, shape } = call.inputs;
  const asked = listOf(call, "shape", shape);
  if (asked === undefined) {
    const length = lengthOf(shape);
    if (length === undefined || input.shape === undefined) return undefined;
    return Array.from({ length: Math.max(length, input.shape.length) }, unknownDim);
  }
  for (const dim of asked) {
    call.check(!isKnown(dim) || dim >= 0, () => `shape ${shapeText(asked)} must not have ${dim}`, "invalid-argument");
  }
  return broadcastShapes(call, [input.shape, asked]);
}

/** Broadcasts `input` against `shape`, both ways. */
export const Expand = defineOp({
  name: "Expand",
  since: 8,
  types: { T: plainTypes },
  inputs,
  outputs,
  infer: (call) => ({ output: { shape: expandedShape(call) } }),
  integers(call) {
    const shape = expandedShape(call);
    if (!isKnownShape(shape)) return undefined;
    return movedContents(call.inputs.input, shape, (from, to) => copyRepeated(from.broadcastTo(shape), to));
  },
  reference: (call) => copyRepeated(call.inputs.input.broadcastTo(call.outputs.output.shape), call.outputs.output),
});
