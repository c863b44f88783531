/** Activation functions. Computed in float64 in forms that neither overflow nor cancel, and rounded once. */
import { float, oneOf } from "../../graph/attribute.js";
import { shapeText } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import type { ElementType } from "../../tensor/element-type.js";
import { zipElements } from "../shared/loops/elementwise.js";
import { erfc } from "../shared/loops/error-function.js";
import { broadcastShapes, unifyDims } from "../shared/rules/shapes.js";
import { floats, integers, signedIntegers } from "../shared/rules/types.js";
import { unaryOp } from "../shared/families/unary.js";
import { shrink } from "./shrink.js";

/** 1 / (1 + e^(−x)), without overflow on either side. */
const sigmoid = (x: number): number => {
  const e = Math.exp(-Math.abs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
};

/** ln(1 + e^x), without overflow. */
const softplus = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

const swish = (x: number, alpha: number): number => x * sigmoid(alpha * x);

const hardSigmoid = (x: number, alpha: number, beta: number): number => Math.max(0, Math.min(1, alpha * x + beta));

const gelu = (x: number): number => 0.5 * x * erfc(-x * Math.SQRT1_2);

const geluTanh = (x: number): number => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)));

/** max(0, x). */
export const Relu = unaryOp({
  name: "Relu",
  since: 6,
  types: [...floats, ...signedIntegers],
  apply: () => ({ number: (x) => Math.max(x, 0), bigint: (x) => (x > 0n ? x : 0n) }),
});

/** x, or alpha·x where x is negative. */
export const LeakyRelu = unaryOp({
  name: "LeakyRelu",
  since: 6,
  types: floats,
  attrs: { alpha: float(Math.fround(0.01)) },
  apply: ({ alpha }) => ({ number: (x) => (x >= 0 ? x : alpha * x) }),
});

/** x where it is above alpha, else 0. */
export const ThresholdedRelu = unaryOp({
  name: "ThresholdedRelu",
  since: 10,
  types: floats,
  attrs: { alpha: float(1) },
  apply: ({ alpha }) => ({ number: (x) => (x > alpha ? x : 0) }),
});

/** x, or alpha·(e^x − 1) where x is not positive. */
export const Elu = unaryOp({
  name: "Elu",
  since: 6,
  types: floats,
  attrs: { alpha: float(1) },
  apply: ({ alpha }) => ({ number: (x) => (x > 0 ? x : alpha * Math.expm1(x)) }),
});

/** max(0, x) + min(0, alpha·(e^(x/alpha) − 1)). */
export const Celu = unaryOp({
  name: "Celu",
  since: 12,
  types: floats,
  attrs: { alpha: float(1) },
  apply: ({ alpha }) => ({ number: (x) => Math.max(0, x) + Math.min(0, alpha * Math.expm1(x / alpha)) }),
});

/** gamma·x, or gamma·alpha·(e^x − 1) where x is not positive. */
export const Selu = unaryOp({
  name: "Selu",
  since: 6,
  types: floats,
  attrs: { alpha: float(Math.fround(1.6732632423543772)), gamma: float(Math.fround(1.0507009873554805)) },
  apply: ({ alpha, gamma }) => ({ number: (x) => gamma * (x > 0 ? x : alpha * Math.expm1(x)) }),
});

/** x·Φ(x) with the normal distribution Φ, or its approximation by tanh. */
export const Gelu = unaryOp({
  name: "Gelu",
  since: 20,
  types: floats,
  attrs: { approximate: oneOf(["none", "tanh"], "none") },
  apply: ({ approximate }) => ({ number: approximate === "tanh" ? geluTanh : gelu }),
});

/** max(0, min(1, alpha·x + beta)). */
export const HardSigmoid = unaryOp({
  name: "HardSigmoid",
  since: 6,
  types: floats,
  attrs: { alpha: float(Math.fround(0.2)), beta: float(0.5) },
  apply: ({ alpha, beta }) => ({ number: (x) => hardSigmoid(x, alpha, beta) }),
});

/** x·max(0, min(1, x/6 + ½)). */
export const HardSwish = unaryOp({
  name: "HardSwish",
  since: 14,
  types: floats,
  apply: () => ({ number: (x) => x * hardSigmoid(x, 1 / 6, 0.5) }),
});

/** x·tanh(softplus(x)). */
export const Mish = unaryOp({
  name: "Mish",
  since: 18,
  types: floats,
  apply: () => ({ number: (x) => x * Math.tanh(softplus(x)) }),
});

/** 1 / (1 + e^(−x)). */
export const Sigmoid = unaryOp({ name: "Sigmoid", since: 6, types: floats, apply: () => ({ number: sigmoid }) });

/** ln(1 + e^x). */
export const Softplus = unaryOp({ name: "Softplus", since: 1, types: floats, apply: () => ({ number: softplus }) });

/** x / (1 + |x|). */
export const Softsign = unaryOp({
  name: "Softsign",
  since: 1,
  types: floats,
  names: ["input", "output"],
  apply: () => ({ number: (x) => x / (1 + Math.abs(x)) }),
});

/** x·sigmoid(alpha·x). */
export const Swish = unaryOp({
  name: "Swish",
  since: 24,
  types: floats,
  attrs: { alpha: float(1) },
  apply: ({ alpha }) => ({ number: (x) => swish(x, alpha) }),
});

/** x + bias below −lambd, x − bias above lambd, 0 between. Integers truncate. */
export const Shrink = unaryOp({
  name: "Shrink",
  since: 9,
  types: ["float16", "float32", "float64", ...integers] satisfies ElementType[],
  names: ["input", "output"],
  attrs: { bias: float(0), lambd: float(0.5) },
  apply: ({ bias, lambd }) => shrink(bias, lambd),
});

/** A·sigmoid(alpha·A)·B: the gate of a decoder's feed-forward block. The shapes are the same; nothing is broadcast. */
export const SwiGLU = defineOp({
  name: "SwiGLU",
  since: 28,
  types: { T: floats },
  inputs: { A: tensor("T"), B: tensor("T") },
  outputs: { Y: tensor("T") },
  attrs: { alpha: float(1) },
  effects: { Y: reuse("A", "B") },

  infer(call) {
    const [a, b] = [call.inputs.A.shape, call.inputs.B.shape];
    if (a === undefined || b === undefined) return { Y: { shape: a ?? b } };
    const rule = `A ${shapeText(a)} and B ${shapeText(b)} must have the same shape`;
    call.check(a.length === b.length, rule);
    return { Y: { shape: a.map((dim, axis) => unifyDims(call, dim, b[axis], rule)) } };
  },

  reference({ inputs, outputs, attrs }) {
    zipElements(inputs.A, inputs.B, outputs.Y, { number: (a, b) => swish(a, attrs.alpha) * b });
  },
});

/** x, or slope·x where x is negative; slope is broadcast to X. */
export const PRelu = defineOp({
  name: "PRelu",
  since: 7,
  types: { T: [...floats, "uint32", "uint64", "int32", "int64"] },
  inputs: { X: tensor("T"), slope: tensor("T") },
  outputs: { Y: tensor("T") },
  effects: { Y: reuse("X") },

  infer(call) {
    const [x, slope] = [call.inputs.X.shape, call.inputs.slope.shape];
    const shape = broadcastShapes(call, [x, slope]);
    if (x === undefined || slope === undefined || shape === undefined) return { Y: { shape: x } };
    const rule = `slope ${shapeText(slope)} must broadcast to X ${shapeText(x)}`;
    call.check(slope.length <= x.length, rule);
    shape.forEach((dim, axis) => unifyDims(call, dim, x[axis], rule));
    return { Y: { shape: x } };
  },

  reference({ inputs, outputs }) {
    const multiply = inputs.X.type.includes("int") ? Math.imul : (x: number, y: number): number => x * y;
    zipElements(inputs.X, inputs.slope, outputs.Y, {
      number: (x, slope) => (x >= 0 ? x : multiply(x, slope)),
      bigint: (x, slope) => (x >= 0n ? x : x * slope),
    });
  },
});
