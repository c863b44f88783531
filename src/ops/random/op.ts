/** Tensors made by chance: RandomNormal, RandomUniform, their forms that take a shape from an operand, Multinomial and Bernoulli. */
import { elementType, float, int, ints, required } from "../../graph/attribute.js";
import { isKnown } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { type ElementType, elementTypes } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import { checkRank } from "../shared/rules/shapes.js";
import * as rules from "../shared/rules/types.js";

/** Types that may lend a shape. */
const shaped: readonly ElementType[] = elementTypes.filter((type) => type !== "string");

const normal = { mean: float(0), scale: float(1), seed: float() };
const uniform = { high: float(1), low: float(0), seed: float() };

/** A function that gives normal numbers from uniform ones (Box and Muller's). */
const normals =
  (next: () => number, mean: number, scale: number): (() => number) =>
  () =>
    mean + scale * Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());

const fill = (output: View, next: () => number): void =>
  writeNumbers(
    output,
    Float64Array.from({ length: output.size }, () => next()),
  );

/** Fails unless the shape has no negative dimension, and the type is one of floats. */
function shapeOf(
  call: CallContext,
  shape: readonly number[],
  type: ElementType,
): { type: ElementType; shape: number[] } {
  call.check(
    shape.every((dim) => dim >= 0),
    () => `shape must have no negative dimension, got [${shape.join(",")}]`,
    "invalid-argument",
  );
  return { type: floatType(call, type), shape: [...shape] };
}

function floatType(call: CallContext, type: ElementType): ElementType {
  call.check(rules.floats.includes(type), () => `dtype must be a type of floats, got ${type}`, "invalid-argument");
  return type;
}

/** The type that an operand gives where dtype does not; float32 for operands that are no floats. */
const typeLike = ({ type }: Fact, given: ElementType | undefined): ElementType =>
  given ?? (rules.floats.includes(type) ? type : "float32");

export const RandomNormal = defineOp({
  name: "RandomNormal",
  since: 1,
  types: { T: rules.floats },
  inputs: {},
  outputs: { output: tensor("T") },
  attrs: { ...normal, dtype: elementType("float32"), shape: required(ints()) },
  random: true,
  infer: (call) => ({ output: shapeOf(call, call.attrs.shape, call.attrs.dtype) }),
  reference(call) {
    const { mean, scale, seed } = call.attrs;
    fill(call.outputs.output, normals(call.random(seed), mean, scale));
  },
});

export const RandomUniform = defineOp({
  name: "RandomUniform",
  since: 1,
  types: { T: rules.floats },
  inputs: {},
  outputs: { output: tensor("T") },
  attrs: { ...uniform, dtype: elementType("float32"), shape: required(ints()) },
  random: true,
  infer: (call) => ({ output: shapeOf(call, call.attrs.shape, call.attrs.dtype) }),
  reference(call) {
    const { high, low, seed } = call.attrs;
    const next = call.random(seed);
    fill(call.outputs.output, () => low + (high - low) * next());
  },
});

export const RandomNormalLike = defineOp({
  name: "RandomNormalLike",
  since: 1,
  types: { T1: shaped, T2: rules.floats },
  inputs: { input: tensor("T1") },
  outputs: { output: tensor("T2") },
  attrs: { ...normal, dtype: elementType() },
  random: true,
  readsOnlyShape: ["input"],
  infer: (call) => ({
    output: { type: floatType(call, typeLike(call.inputs.input, call.attrs.dtype)), shape: call.inputs.input.shape },
  }),
  reference(call) {
    const { mean, scale, seed } = call.attrs;
    fill(call.outputs.output, normals(call.random(seed), mean, scale));
  },
});

export const RandomUniformLike = defineOp({
  name: "RandomUniformLike",
  since: 1,
  types: { T1: shaped, T2: rules.floats },
  inputs: { input: tensor("T1") },
  outputs: { output: tensor("T2") },
  attrs: { ...uniform, dtype: elementType() },
  random: true,
  readsOnlyShape: ["input"],
  infer: (call) => ({
    output: { type: floatType(call, typeLike(call.inputs.input, call.attrs.dtype)), shape: call.inputs.input.shape },
  }),
  reference(call) {
    const { high, low, seed } = call.attrs;
    const next = call.random(seed);
    fill(call.outputs.output, () => low + (high - low) * next());
  },
});

/** For each row of logarithms of weights, classes drawn by them. */
export const Multinomial = defineOp({
  name: "Multinomial",
  since: 7,
  types: { T1: rules.floats, T2: ["int32", "int64"] },
  inputs: { input: tensor("T1") },
  outputs: { output: tensor("T2") },
  attrs: { dtype: elementType("int32"), sample_size: int(1), seed: float() },
  random: true,
  infer(call) {
    const { dtype, sample_size: count } = call.attrs;
    const { shape } = call.inputs.input;
    checkRank(call, "input", call.inputs.input, 2);
    call.check(count > 0, () => `sample_size must be positive, got ${count}`, "invalid-argument");
    call.check(
      dtype === "int32" || dtype === "int64",
      () => `dtype must be int32 or int64, got ${dtype}`,
      "invalid-argument",
    );
    const classes = shape?.[1];
    call.check(
      classes === undefined || !isKnown(classes) || classes > 0,
      "input must have at least one class to draw from",
    );
    return { output: { type: dtype, shape: shape && [shape[0], count] } };
  },
  reference(call) {
    const [batch, classes] = call.inputs.input.shape;
    const { sample_size: count, seed } = call.attrs;
    const values = readNumbers(call.inputs.input);
    const next = call.random(seed);
    const drawn: number[] = [];
    for (let row = 0; row < batch; row++) {
      const own = Float64Array.from(values.subarray(row * classes, (row + 1) * classes));
      const most = own.reduce((a, b) => Math.max(a, b), -Infinity);
      const weights = own.map((value) => Math.exp(value - most));
      const total = weights.reduce((a, b) => a + b, 0);
      for (let i = 0; i < count; i++) {
        let left = next() * total;
        let at = 0;
        while (at < classes - 1 && left >= weights[at]) left -= weights[at++];
        drawn.push(at);
      }
    }
    writeNumbers(call.outputs.output, drawn);
  },
});

/** 1 with each element's own probability, else 0. */
export const Bernoulli = defineOp({
  name: "Bernoulli",
  since: 15,
  types: { T1: rules.floats, T2: [...rules.numeric, "bool"] },
  inputs: { input: tensor("T1") },
  outputs: { output: tensor("T2") },
  attrs: { dtype: elementType(), seed: float() },
  random: true,
  infer(call) {
    const type = call.attrs.dtype ?? call.inputs.input.type;
    call.check(
      type === "bool" || rules.numeric.includes(type),
      () => `dtype must be a type of numbers or bool, got ${type}`,
      "invalid-argument",
    );
    return { output: { type, shape: call.inputs.input.shape } };
  },
  reference(call) {
    const next = call.random(call.attrs.seed);
    const drawn = Array.from(readNumbers(call.inputs.input), (probability) => (next() < probability ? 1 : 0));
    writeNumbers(call.outputs.output, drawn);
  },
});
