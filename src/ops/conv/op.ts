/** Conv: convolution over any number of spatial axes. */
import { int } from "../../graph/attribute.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { addBias, checkBias, convolutionShape, convolve } from "../shared/families/convolution.js";
import { floats } from "../shared/rules/types.js";
import { windowAttributes } from "../shared/families/window.js";
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
