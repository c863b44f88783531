/** Tile: a tensor repeated whole along each axis. Moves elements without looking at them. */
import { isKnown, isKnownShape, multiplyDims, type Shape, shapeText, unknownDim } from "../../graph/dim.js";
import { defineOp, type InferCall, tensor } from "../../graph/op.js";
import { View } from "../../tensor/view.js";
import { movedContents } from "../shared/rules/contents.js";
import { lengthOf, listOf } from "../shared/rules/operands.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { copyRepeated } from "../shared/loops/repeat.js";

const inputs = { input: tensor("T"), repeats: tensor("int64") } as const;
const outputs = { output: tensor("T") } as const;

function tiledShape(call: InferCall<typeof inputs, typeof outputs, unknown>): Shape | undefined {
  const { shape } = call.inputs.input;
  const repeats = listOf(call, "repeats", call.inputs.repeats);
  const length = lengthOf(call.inputs.repeats) ?? repeats?.length;
  call.check(
    shape === undefined || length === undefined || length === shape.length,
    () => `repeats needs one entry a dimension of input ${shapeText(shape)}, got ${length}`,
  );
  if (repeats === undefined || shape === undefined) {
    const rank = shape?.length ?? length;
    return rank === undefined ? undefined : Array.from({ length: rank }, unknownDim);
  }
  return shape.map((dim, axis) => {
    const repeat = repeats[axis];
    call.check(
      !isKnown(repeat) || repeat >= 0,
      () => `repeats must not be negative, got ${shapeText(repeats)}`,
      "invalid-argument",
    );
    return multiplyDims(dim, repeat);
  });
}

/** Copies every tile: each axis of the result is seen as (repeat, element). */
function tileView(from: View, to: View): void {
  if (to.size === 0) return;
  const split = from.shape.flatMap((dim, axis) => [to.shape[axis] / dim, dim]);
  const strides = from.strides.flatMap((stride) => [0, stride]);
  copyRepeated(new View(from.type, split, from.data, from.offset, strides), to.reshape(split));
}

/** Repeats `input` along axis i `repeats[i]` times. */
export const Tile = defineOp({
  name: "Tile",
  since: 6,
  types: { T: plainTypes },
  inputs,
  outputs,
  infer: (call) => ({ output: { shape: tiledShape(call) } }),
  integers(call) {
    const shape = tiledShape(call);
    return isKnownShape(shape) ? movedContents(call.inputs.input, shape, tileView) : undefined;
  },
  reference: (call) => tileView(call.inputs.input, call.outputs.output),
});
