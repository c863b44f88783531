/**
 * BatchNormalization: every channel is normalized by a given mean and variance, or in training mode by the batch's own.
 * Before opset 14 training is told by the number of outputs, and is refused.
 */
import { flag, float } from "../../graph/attribute.js";
import type { Dim } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, optional, tensor } from "../../graph/op.js";
import { type Numbers, readNumbers, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { classicFloats } from "../shared/rules/plain-types.js";
import { axesLast, moments, product } from "../shared/loops/rows.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";

/** The four vectors of a channel's numbers. */
interface Statistics<V> {
  readonly scale: V;
  readonly B: V;
  readonly mean: V;
  readonly variance: V;
}

/** Fails unless each vector has one entry a channel; X [samples] has one channel. */
function checkChannels(call: CallContext, X: Fact, vectors: Readonly<Record<string, Fact>>): void {
  if (X.shape !== undefined) call.check(X.shape.length >= 1, "X must have at least 1 dimension, got a scalar");
  let channels: Dim | undefined = X.shape === undefined ? undefined : X.shape.length === 1 ? 1 : X.shape[1];
  for (const [name, { shape }] of Object.entries(vectors)) {
    checkRank(call, name, vectors[name], 1);
    if (shape === undefined) continue;
    channels =
      channels === undefined ? shape[0] : unifyDims(call, channels, shape[0], `${name} needs one entry a channel`);
  }
}

/** Y = (X − mean) / √(variance + epsilon) · scale + B, where each vector has one entry for every `area` elements in turn. */
function normalize(
  X: View,
  Y: View,
  { scale, B, mean, variance }: Statistics<Numbers>,
  epsilon: number,
  area: number,
): void {
  const values = readNumbers(X);
  const result = float64Scratch(X.size);
  for (let start = 0; start < values.length; start += area) {
    const entry = (start / area) % scale.length;
    const inverse = 1 / Math.sqrt(variance[entry] + epsilon);
    for (let i = start; i < start + area; i++)
      result[i] = (values[i] - mean[entry]) * inverse * scale[entry] + B[entry];
  }
  writeNumbers(Y, result);
}

/** How many elements of X lie next to each other in one channel. */
const areaOf = (X: View): number => (X.rank === 1 ? 1 : product(X.shape.slice(2)));

function refuseTraining(call: CallContext & { readonly outputCount: number }): void {
  call.check(
    call.outputCount === 1,
    `training mode, told by ${call.outputCount} outputs, is not supported before opset 14`,
    "unsupported-operator",
  );
}

const attrs = { epsilon: float(Math.fround(1e-5)), momentum: float(Math.fround(0.9)) };
const inputs = { X: tensor("T"), scale: tensor("T"), B: tensor("T"), mean: tensor("T"), var: tensor("T") };
const outputs = {
  Y: tensor("T"),
  mean: optional(tensor("T")),
  var: optional(tensor("T")),
  saved_mean: optional(tensor("T")),
  saved_var: optional(tensor("T")),
};

/** Batch normalization; without `spatial`, every element of a sample has its own statistics. */
export const BatchNormalization7 = defineOp({
  name: "BatchNormalization",
  since: 7,
  types: { T: classicFloats },
  inputs,
  outputs,
  attrs: { ...attrs, spatial: flag(true) },
  effects: { Y: reuse("X") },

  infer(call) {
    const { X, scale, B, mean, var: variance } = call.inputs;
    refuseTraining(call);
    if (call.attrs.spatial) checkChannels(call, X, { scale, B, mean, var: variance });
    else {
      for (const [name, { shape }] of Object.entries({ scale, B, mean, var: variance })) {
        if (shape === undefined || X.shape === undefined) continue;
        const wanted = X.shape.slice(1);
        call.check(
          shape.length === wanted.length,
          `${name} must have ${wanted.length} dimensions without spatial, got ${shape.length}`,
        );
        shape.forEach((dim, axis) =>
          unifyDims(call, dim, wanted[axis], `${name} must agree with X in dimension ${axis + 1}`),
        );
      }
    }
    return { Y: { shape: X.shape } };
  },

  reference({ inputs: { X, scale, B, mean, var: variance }, outputs: { Y }, attrs: { epsilon, spatial } }) {
    const statistics = {
      scale: readNumbers(scale),
      B: readNumbers(B),
      mean: readNumbers(mean),
      variance: readNumbers(variance),
    };
    normalize(X, Y, statistics, epsilon, spatial ? areaOf(X) : 1);
  },
});

/** Batch normalization by channel. */
export const BatchNormalization9 = defineOp({
  name: "BatchNormalization",
  since: 9,
  types: { T: classicFloats },
  inputs,
  outputs,
  attrs,
  effects: { Y: reuse("X") },

  infer(call) {
    const { X, scale, B, mean, var: variance } = call.inputs;
    refuseTraining(call);
    checkChannels(call, X, { scale, B, mean, var: variance });
    return { Y: { shape: X.shape } };
  },

  reference({ inputs: { X, scale, B, mean, var: variance }, outputs: { Y }, attrs: { epsilon } }) {
    const statistics = {
      scale: readNumbers(scale),
      B: readNumbers(B),
      mean: readNumbers(mean),
      variance: readNumbers(variance),
    };
    normalize(X, Y, statistics, epsilon, areaOf(X));
  },
});

/** Batch normalization by channel, with a training mode that uses and updates running statistics. */
export const BatchNormalization14 = defineOp({
  name: "BatchNormalization",
  since: 14,
  types: { T: floats, T1: floats, T2: floats },
  inputs: { X: tensor("T"), scale: tensor("T1"), B: tensor("T1"), input_mean: tensor("T2"), input_var: tensor("T2") },
  outputs: { Y: tensor("T"), running_mean: optional(tensor("T2")), running_var: optional(tensor("T2")) },
  attrs: { ...attrs, training_mode: flag(false) },
  effects: { Y: reuse("X") },

  infer(call) {
    const { X, scale, B, input_mean, input_var } = call.inputs;
    checkChannels(call, X, { scale, B, input_mean, input_var });
    const { training_mode: training } = call.attrs;
    call.check(
      training || call.outputCount === 1,
      `without training_mode there is one output, got ${call.outputCount}`,
      "invalid-graph",
    );
    return {
      Y: { shape: X.shape },
      running_mean: { shape: input_mean.shape },
      running_var: { shape: input_var.shape },
    };
  },

  reference(call) {
    const { X } = call.inputs;
    const { Y, running_mean, running_var } = call.outputs;
    const { epsilon, momentum, training_mode: training } = call.attrs;
    const [scale, B] = [readNumbers(call.inputs.scale), readNumbers(call.inputs.B)];
    const given = { mean: readNumbers(call.inputs.input_mean), variance: readNumbers(call.inputs.input_var) };
    if (!training) return normalize(X, Y, { scale, B, ...given }, epsilon, areaOf(X));
    const current = channelMoments(X, scale.length);
    normalize(X, Y, { scale, B, ...current }, epsilon, areaOf(X));
    const run = (before: Numbers, now: Float64Array): Float64Array =>
      now.map((value, i) => before[i] * momentum + value * (1 - momentum));
    if (running_mean !== undefined) writeNumbers(running_mean, run(given.mean, current.mean));
    if (running_var !== undefined) writeNumbers(running_var, run(given.variance, current.variance));
  },
});

/** Mean and variance of every channel over the samples and all places. */
function channelMoments(X: View, channels: number): { mean: Float64Array; variance: Float64Array } {
  const axes = X.shape.map((_, axis) => axis).filter((axis) => axis !== 1);
  const values = readNumbers(axesLast(X, axes)); // [channels, samples · places]
  const length = X.size / channels;
  const mean = float64Scratch(channels);
  const variance = float64Scratch(channels);
  for (let channel = 0; channel < channels; channel++) {
    const found = moments(values, channel * length, length);
    mean[channel] = found.mean;
    variance[channel] = found.variance;
  }
  return { mean, variance };
}
