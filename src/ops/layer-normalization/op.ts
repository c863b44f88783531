/**
 * LayerNormalization and RMSNormalization: rows from `axis` on are brought to unit size, then scaled and shifted.
 * Everything is computed in float64 and rounded once, which is never less precise than the `stash_type` that is asked for;
 * that attribute decides the type of the statistics alone.
 */
import { elementType, float, int } from "../../graph/attribute.js";
import { isKnown, type Shape, shapeText } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import { meanSquare, moments, product } from "../shared/loops/rows.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";

/** Fails unless `operand` broadcasts to the shape of X without changing it. */
function checkBroadcasts(call: CallContext, name: string, operand: Fact | undefined, shape: Shape): void {
  const own = operand?.shape;
  if (own === undefined) return;
  const lead = shape.length - own.length;
  const fits =
    lead >= 0 &&
    own.every((dim, axis) => !isKnown(dim) || dim === 1 || !isKnown(shape[axis + lead]) || dim === shape[axis + lead]);
  call.check(fits, () => `${name} must broadcast to X ${shapeText(shape)}, got ${shapeText(own)}`);
}

function checkStashType(call: CallContext, type: ElementType, allowed: readonly ElementType[]): void {
  call.check(
    allowed.includes(type),
    () => `stash_type must be ${allowed.join(" or ")}, got ${type}`,
    "invalid-argument",
  );
}

/** Multiplies and shifts normalized values by operands that broadcast to X, and stores them. */
function scaleAndStore(out: View, values: Float64Array, scale: View, bias?: View): void {
  const scales = readNumbers(scale.broadcastTo(out.shape));
  const biases = bias && readNumbers(bias.broadcastTo(out.shape));
  for (let i = 0; i < values.length; i++)
    values[i] = biases === undefined ? values[i] * scales[i] : values[i] * scales[i] + biases[i];
  writeNumbers(out, values);
}

/** (X − mean) / √(variance + epsilon) · Scale + B, over the axes from `axis` on. */
export const LayerNormalization = defineOp({
  name: "LayerNormalization",
  since: 17,
  types: { T: floats, U: ["float32", "bfloat16"] },
  inputs: { X: tensor("T"), Scale: tensor("T"), B: optional(tensor("T")) },
  outputs: { Y: tensor("T"), Mean: optional(tensor("U")), InvStdDev: optional(tensor("U")) },
  attrs: { axis: int(-1), epsilon: float(Math.fround(1e-5)), stash_type: elementType("float32") },
  effects: { Y: reuse("X") },

  infer(call) {
    const { X, Scale, B } = call.inputs;
    const type = call.attrs.stash_type;
    checkStashType(call, type, ["float32", "bfloat16"]);
    if (X.shape === undefined) return { Mean: { type }, InvStdDev: { type } };
    const axis = normalizeAxis(call, call.attrs.axis, X.shape.length);
    checkBroadcasts(call, "Scale", Scale, X.shape);
    checkBroadcasts(call, "B", B, X.shape);
    const shape = X.shape.map((dim, at) => (at < axis ? dim : 1));
    return { Y: { shape: X.shape }, Mean: { type, shape }, InvStdDev: { type, shape } };
  },

  reference(call) {
    const { X, Scale, B } = call.inputs;
    const { Y, Mean, InvStdDev } = call.outputs;
    if (X.size === 0 && Mean === undefined && InvStdDev === undefined) return;
    const axis = normalizeAxis(call, call.attrs.axis, X.rank);
    const rows = product(X.shape.slice(0, axis));
    const length = product(X.shape.slice(axis));
    const values = readNumbers(X);
    const result = float64Scratch(X.size);
    const means = float64Scratch(rows);
    const inverses = float64Scratch(rows);
    for (let row = 0; row < rows; row++) {
      const { mean, variance } = moments(values, row * length, length);
      const inverse = 1 / Math.sqrt(variance + call.attrs.epsilon);
      for (let i = row * length; i < (row + 1) * length; i++) result[i] = (values[i] - mean) * inverse;
      means[row] = mean;
      inverses[row] = inverse;
    }
    scaleAndStore(Y, result, Scale, B);
    if (Mean !== undefined) writeNumbers(Mean, means);
    if (InvStdDev !== undefined) writeNumbers(InvStdDev, inverses);
  },
});

/** X / √(mean of squares + epsilon) · scale, over the axes from `axis` on. */
export const RMSNormalization = defineOp({
  name: "RMSNormalization",
  since: 23,
  types: { T: floats, V: floats },
  inputs: { X: tensor("T"), scale: tensor("V") },
  outputs: { Y: tensor("V") },
  attrs: { axis: int(-1), epsilon: float(Math.fround(1e-5)), stash_type: elementType("float32") },
  effects: { Y: reuse("X") },

  infer(call) {
    const { X, scale } = call.inputs;
    checkStashType(call, call.attrs.stash_type, floats);
    if (X.shape === undefined) return {};
    normalizeAxis(call, call.attrs.axis, X.shape.length);
    checkBroadcasts(call, "scale", scale, X.shape);
    return { Y: { shape: X.shape } };
  },

  reference(call) {
    const { X, scale } = call.inputs;
    const axis = normalizeAxis(call, call.attrs.axis, X.rank);
    const length = product(X.shape.slice(axis));
    const values = readNumbers(X);
    const result = float64Scratch(X.size);
    for (let start = 0; start < values.length; start += length) {
      const root = Math.sqrt(meanSquare(values, start, length) + call.attrs.epsilon);
      for (let i = start; i < start + length; i++) result[i] = values[i] / root;
    }
    scaleAndStore(call.outputs.Y, result, scale);
  },
});
