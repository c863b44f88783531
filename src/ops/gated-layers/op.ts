/** onnxruntime's operators around linear attention: its gates, the norm behind it, and a sum with a gate for each row. */
import { float } from "../../graph/attribute.js";
import { isKnown, shapeText } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { rounder } from "../attention/rounding.js";
import { meanSquare } from "../shared/loops/rows.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";

const floats: readonly ElementType[] = ["float32", "float16", "bfloat16"];

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/** Fails unless both have one shape. */
function checkAlike(call: CallContext, names: readonly [string, string], a: Fact, b: Fact | undefined): void {
  if (a.shape === undefined || b?.shape === undefined) return;
  const [of, as] = [b.shape, a.shape];
  const rule = (): string => `${names[1]} must have the shape of ${names[0]}, ${shapeText(as)}, got ${shapeText(of)}`;
  call.check(of.length === as.length, rule);
  of.forEach((dim, axis) => call.check(!isKnown(dim) || !isKnown(as[axis]) || dim === as[axis], rule));
}

/** decay = decay_scale · softplus(a + dt_bias); beta = sigmoid(b): what LinearAttention takes. */
export const LinearAttentionGate = defineOp({
  name: "LinearAttentionGate",
  domain: "com.microsoft",
  since: 1,
  types: { T: floats, TF: ["float32"] },
  inputs: { a: tensor("T"), dt_bias: tensor("TF"), decay_scale: tensor("TF"), b: optional(tensor("T")) },
  outputs: { decay: tensor("T"), beta: optional(tensor("T")) },
  effects: { decay: reuse("a"), beta: reuse("b") },

  infer(call) {
    const { a, b } = call.inputs;
    const heads = a.shape?.at(-1);
    call.check(a.shape === undefined || a.shape.length > 0, "a must have at least 1 dimension, got a scalar");
    for (const name of ["dt_bias", "decay_scale"] as const) {
      checkRank(call, name, call.inputs[name], 1);
      const shape = call.inputs[name].shape;
      if (heads !== undefined && shape !== undefined)
        unifyDims(call, shape[0], heads, `${name} must have one entry for each head, the last dimension of a`);
    }
    call.check(!call.wants("beta") || b !== undefined, "the output beta needs the input b", "invalid-graph");
    checkAlike(call, ["a", "b"], a, b);
    return { decay: { shape: a.shape }, ...(call.wants("beta") && { beta: { shape: a.shape } }) };
  },

  reference(call) {
    const { a, dt_bias, decay_scale, b } = call.inputs;
    const [values, biases, scales] = [readNumbers(a), readNumbers(dt_bias), readNumbers(decay_scale)];
    const rates = call.wants("beta") ? Float64Array.from(readNumbers(b!), sigmoid) : undefined;
    const heads = biases.length;
    const decay = float64Scratch(values.length);
    for (let i = 0; i < values.length; i++) {
      const x = values[i] + biases[i % heads];
      decay[i] = scales[i % heads] * (Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))));
    }
    writeNumbers(call.outputs.decay, decay);
    if (rates !== undefined) writeNumbers(call.outputs.beta!, rates);
  },
});

/** Y = X / √(mean(X²) + epsilon) · scale · gate · sigmoid(gate), over each group of as many values as `scale` has. */
export const GatedRMSNorm = defineOp({
  name: "GatedRMSNorm",
  domain: "com.microsoft",
  since: 1,
  types: { T: floats },
  inputs: { X: tensor("T"), scale: tensor("T"), gate: tensor("T") },
  outputs: { Y: tensor("T") },
  attrs: { epsilon: float(1e-5) },
  effects: { Y: reuse("X", "gate") },

  infer(call) {
    const { X, scale, gate } = call.inputs;
    checkRank(call, "scale", scale, 1);
    call.check(X.shape === undefined || X.shape.length > 0, "X must have at least 1 dimension, got a scalar");
    checkAlike(call, ["X", "gate"], X, gate);
    const [last, size] = [X.shape?.at(-1), scale.shape?.[0]];
    if (last !== undefined && size !== undefined && isKnown(last) && isKnown(size))
      call.check(
        size > 0 && last % size === 0,
        () => `the last dimension of X must be a multiple of the ${size} entries of scale, got ${last}`,
      );
    return { Y: { shape: X.shape } };
  },

  reference(call) {
    const { X, scale, gate } = call.inputs;
    const [values, scales, gates] = [readNumbers(X), readNumbers(scale), readNumbers(gate)];
    const size = scales.length;
    const result = float64Scratch(values.length);
    for (let start = 0; start < values.length; start += size) {
      const factor = 1 / Math.sqrt(meanSquare(values, start, size) + call.attrs.epsilon);
      for (let i = 0; i < size; i++) {
        const z = gates[start + i];
        result[start + i] = values[start + i] * factor * scales[i] * z * sigmoid(z);
      }
    }
    writeNumbers(call.outputs.Y, result);
  },
});

/** output = X + Y · gate, with one gate for each row; the product is rounded first, as that of a Mul. */
export const GatedAdd = defineOp({
  name: "GatedAdd",
  domain: "com.microsoft",
  since: 1,
  types: { T: floats },
  inputs: { X: tensor("T"), Y: tensor("T"), gate: tensor("T") },
  outputs: { output: tensor("T") },
  effects: { output: reuse("X", "Y") },

  infer(call) {
    const { X, Y, gate } = call.inputs;
    call.check(X.shape === undefined || X.shape.length > 0, "X must have at least 1 dimension, got a scalar");
    checkAlike(call, ["X", "Y"], X, Y);
    if (X.shape !== undefined)
      checkAlike(call, ["X's rows", "gate"], { ...X, shape: [...X.shape.slice(0, -1), 1] }, gate);
    return { output: { shape: X.shape ?? Y.shape } };
  },

  reference(call) {
    const { X, Y, gate } = call.inputs;
    const [values, added, gates] = [readNumbers(X), readNumbers(Y), readNumbers(gate)];
    const round = rounder(X.type);
    const size = X.shape.at(-1)!;
    const result = float64Scratch(values.length);
    for (let i = 0; i < values.length; i++) result[i] = values[i] + round(added[i] * gates[Math.floor(i / size)]);
    writeNumbers(call.outputs.output, result);
  },
});
