/** onnxruntime's Gelu family: the exact function, its fast approximations, and the forms that add a bias first. */
import { float } from "../../graph/attribute.js";
import { reuse } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import type { Shape } from "../../graph/dim.js";
import type { View } from "../../tensor/view.js";
import { mapElements, zipElements } from "../shared/loops/elementwise.js";
import { erfc } from "../shared/loops/error-function.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";

const domain = "com.microsoft";

const gelu = (x: number): number => 0.5 * x * erfc(-x * Math.SQRT1_2);

// The coefficients are the operator's own: √(2/π) and 0.044715 · √(2/π), in float32.
const [linear, cubic] = [Math.fround(0.7978845608028654), Math.fround(0.035677408136300125)];
const fastGelu = (x: number): number => 0.5 * x * (1 + Math.tanh(x * (cubic * x * x + linear)));

/** 1 / (1 + e^(−x)), without overflow on either side. */
function sigmoid(x: number): number {
  const e = Math.exp(-Math.abs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}

/** Fails unless the bias is a vector over the last dimension of the input. */
function checkBias(call: CallContext, x: Fact, bias: Fact | undefined): Shape | undefined {
  if (bias === undefined) return x.shape;
  checkRank(call, "the bias", bias, 1);
  if (x.shape === undefined) return undefined;
  call.check(x.shape.length > 0, "an input with a bias must have at least 1 dimension, got a scalar");
  if (bias.shape !== undefined) {
    unifyDims(call, bias.shape[0], x.shape.at(-1)!, "the bias must have the length of the input's last dimension");
  }
  return x.shape;
}

function apply(x: View, bias: View | undefined, y: View, f: (x: number) => number): void {
  if (bias === undefined) mapElements(x, y, { number: f });
  else zipElements(x, bias, y, { number: (a, b) => f(a + b) });
}

/** ½ · x · (1 + erf(x / √2)). */
export const MicrosoftGelu = defineOp({
  name: "Gelu",
  domain,
  since: 1,
  types: { T: floats },
  inputs: { X: tensor("T") },
  outputs: { Y: tensor("T") },
  effects: { Y: reuse("X") },
  infer: ({ inputs }) => ({ Y: { shape: inputs.X.shape } }),
  reference: ({ inputs, outputs }) => apply(inputs.X, undefined, outputs.Y, gelu),
});

/** Gelu of A + B, where B is a vector over A's last dimension. */
export const BiasGelu = defineOp({
  name: "BiasGelu",
  domain,
  since: 1,
  types: { T: floats },
  inputs: { A: tensor("T"), B: tensor("T") },
  outputs: { C: tensor("T") },
  effects: { C: reuse("A") },
  infer: (call) => ({ C: { shape: checkBias(call, call.inputs.A, call.inputs.B) } }),
  reference: ({ inputs, outputs }) => apply(inputs.A, inputs.B, outputs.C, gelu),
});

/** Gelu's approximation by tanh, of X + bias where a bias is given. */
export const FastGelu = defineOp({
  name: "FastGelu",
  domain,
  since: 1,
  types: { T: floats },
  inputs: { X: tensor("T"), bias: optional(tensor("T")) },
  outputs: { Y: tensor("T") },
  effects: { Y: reuse("X") },
  infer: (call) => ({ Y: { shape: checkBias(call, call.inputs.X, call.inputs.bias) } }),
  reference: ({ inputs, outputs }) => apply(inputs.X, inputs.bias, outputs.Y, fastGelu),
});

/** x · sigmoid(alpha · x). */
export const QuickGelu = defineOp({
  name: "QuickGelu",
  domain,
  since: 1,
  types: { T: floats },
  inputs: { X: tensor("T") },
  outputs: { Y: tensor("T") },
  attrs: { alpha: float(Math.fround(1.702)) },
  effects: { Y: reuse("X") },
  infer: ({ inputs }) => ({ Y: { shape: inputs.X.shape } }),
  reference: ({ inputs, outputs, attrs }) => apply(inputs.X, undefined, outputs.Y, (x) => x * sigmoid(attrs.alpha * x)),
});
