/** Conv: convolution over any number of spatial axes. FusedConv: the same with a sum and an activation behind it. */
import { floats as floatList, int, string } from "../../graph/attribute.js";
import { shapeText } from "../../graph/dim.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { addBias, checkBias, convolutionShape, convolve } from "../shared/families/convolution.js";
import { classicFloats } from "../shared/rules/plain-types.js";
import { activationOf } from "./activation.js";
import { floats } from "../shared/rules/types.js";
import { windowAttributes } from "../shared/families/window.js";
import { unifyDims } from "../shared/rules/shapes.js";
import { eachWithEach } from "../shared/rules/work.js";

/** The convolution of X [batch, channels, …] with W [maps, channels / group, …], plus B. */
export const Conv = defineOp({
  name: "Conv",
  since: 1,
  types: { T: floats },
  inputs: { X: tensor("T"), W: tensor("T"), B: optional(tensor("T")) },
  outputs: { Y: tensor("T") },
  attrs: { ...windowAttributes, group: int(1) },

  infer(call) {
    const { X, W, B } = call.inputs;
    const shape = convolutionShape(call, call.attrs, X.shape, W.shape);
    if (W.shape !== undefined && W.shape.length > 0) checkBias(call, B, W.shape[0]);
    return { Y: { shape } };
  },

  work: ({ inputs }) => eachWithEach(inputs.X, inputs.W),

  reference(call) {
    const { X, W, B } = call.inputs;
    const { Y } = call.outputs;
    // Nothing is wanted: the weights need not be read.
    if (Y.size === 0) return;
    const result = convolve(call, call.attrs, readNumbers(X), X.shape, readNumbers(W), W.shape, Y.shape);
    addBias(result, Y.shape, B && readNumbers(B));
    writeNumbers(Y, result);
  },
});

/** activation(Conv(X, W, B) + Z), as onnxruntime's optimizer writes it. */
export const FusedConv = defineOp({
  name: "FusedConv",
  domain: "com.microsoft",
  since: 1,
  types: { T: classicFloats },
  inputs: { X: tensor("T"), W: tensor("T"), B: optional(tensor("T")), Z: optional(tensor("T")) },
  outputs: { Y: tensor("T") },
  attrs: { ...windowAttributes, group: int(1), activation: string(""), activation_params: floatList() },

  infer(call) {
    const { X, W, B, Z } = call.inputs;
    activationOf(call, call.attrs);
    const shape = convolutionShape(call, call.attrs, X.shape, W.shape);
    if (W.shape !== undefined && W.shape.length > 0) checkBias(call, B, W.shape[0]);
    if (shape !== undefined && Z?.shape !== undefined) {
      call.check(
        Z.shape.length === shape.length,
        () => `Z must have the shape of the result ${shapeText(shape)}, got ${shapeText(Z.shape)}`,
      );
      Z.shape.forEach((dim, axis) => unifyDims(call, dim, shape[axis], "Z must have the shape of the result"));
    }
    return { Y: { shape } };
  },

  work: ({ inputs }) => eachWithEach(inputs.X, inputs.W),

  reference(call) {
    const { X, W, B, Z } = call.inputs;
    const { Y } = call.outputs;
    if (Y.size === 0) return;
    const result = convolve(call, call.attrs, readNumbers(X), X.shape, readNumbers(W), W.shape, Y.shape);
    addBias(result, Y.shape, B && readNumbers(B));
    const added = Z && readNumbers(Z);
    const activate = activationOf(call, call.attrs);
    for (let at = 0; at < result.length; at++) result[at] = activate(result[at] + (added?.[at] ?? 0));
    writeNumbers(Y, result);
  },
});
