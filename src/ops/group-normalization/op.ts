/** GroupNormalization and InstanceNormalization: statistics over each sample's groups of channels, or over single channels. */
import { elementType, float, int, required } from "../../graph/attribute.js";
import { type Dim, isKnown, shapeText } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { moments, product } from "../shared/loops/rows.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";

/** Normalizes each of `groups` equal parts of every sample; `factors` holds the scale and bias of a channel. */
function normalizeGroups(
  X: View,
  Y: View,
  groups: number,
  epsilon: number,
  factors: (channel: number) => readonly [scale: number, bias: number],
): void {
  if (X.size === 0) return;
  const [samples, channels, ...spatial] = X.shape; // [samples, channels, …]
  const area = product(spatial);
  const length = (channels / groups) * area;
  const values = readNumbers(X);
  const result = float64Scratch(X.size);
  for (let row = 0; row < samples * groups; row++) {
    const { mean, variance } = moments(values, row * length, length);
    const inverse = 1 / Math.sqrt(variance + epsilon);
    for (let start = row * length; start < (row + 1) * length; start += area) {
      const [scale, bias] = factors((start / area) % channels);
      for (let i = start; i < start + area; i++) result[i] = (values[i] - mean) * inverse * scale + bias;
    }
  }
  writeNumbers(Y, result);
}

/** Fails unless X has samples and channels, and scale and bias one entry for each of `count`. */
function checkOperands(
  call: CallContext,
  X: Fact,
  parameters: readonly (readonly [name: string, fact: Fact])[],
  count: Dim | undefined,
  what: string,
): void {
  call.check(
    X.shape === undefined || X.shape.length >= 2,
    () => `the input must have at least 2 dimensions, got ${shapeText(X.shape)}`,
  );
  for (const [name, fact] of parameters) {
    checkRank(call, name, fact, 1);
    if (fact.shape !== undefined && count !== undefined)
      unifyDims(call, fact.shape[0], count, `${name} needs one entry a ${what}`);
  }
}

function groupNormalization(since: number, perChannel: boolean) {
  return defineOp({
    name: "GroupNormalization",
    since,
    types: { T: floats },
    inputs: { X: tensor("T"), scale: tensor("T"), bias: tensor("T") },
    outputs: { Y: tensor("T") },
    attrs: {
      epsilon: float(Math.fround(1e-5)),
      num_groups: required(int()),
      ...(perChannel ? { stash_type: elementType("float32") } : {}),
    },
    effects: { Y: reuse("X") },

    infer(call) {
      const { X, scale, bias } = call.inputs;
      const { num_groups: groups, stash_type: type = "float32" } = call.attrs;
      call.check(groups >= 1, `num_groups must be at least 1, got ${groups}`, "invalid-argument");
      call.check(
        floats.includes(type),
        `stash_type must be one of ${floats.join(", ")}, got ${type}`,
        "invalid-argument",
      );
      const channels = X.shape?.[1];
      const [count, what] = perChannel ? [channels, "channel"] : [groups, "group"];
      checkOperands(call, X, Object.entries({ scale, bias }), count, what);
      if (channels !== undefined && isKnown(channels)) {
        call.check(
          channels % groups === 0,
          `num_groups must divide the ${channels} channels, got ${groups}`,
          "invalid-argument",
        );
      }
      return { Y: { shape: X.shape } };
    },

    reference({ inputs, outputs, attrs }) {
      const { X } = inputs;
      const scales = readNumbers(inputs.scale);
      const biases = readNumbers(inputs.bias);
      const groupSize = X.shape[1] / attrs.num_groups;
      const entry = (channel: number): number => (perChannel ? channel : Math.floor(channel / groupSize));
      normalizeGroups(X, outputs.Y, attrs.num_groups, attrs.epsilon, (channel) => [
        scales[entry(channel)],
        biases[entry(channel)],
      ]);
    },
  });
}

/** Group normalization with a scale and a bias a group. */
export const GroupNormalization18 = groupNormalization(18, false);
/** Group normalization with a scale and a bias a channel. */
export const GroupNormalization21 = groupNormalization(21, true);

/** Normalizes each channel of each sample by its own mean and variance. */
export const InstanceNormalization = defineOp({
  name: "InstanceNormalization",
  since: 6,
  types: { T: floats },
  inputs: { input: tensor("T"), scale: tensor("T"), B: tensor("T") },
  outputs: { output: tensor("T") },
  attrs: { epsilon: float(Math.fround(1e-5)) },
  effects: { output: reuse("input") },

  infer(call) {
    const { input, scale, B } = call.inputs;
    checkOperands(call, input, Object.entries({ scale, B }), input.shape?.[1], "channel");
    return { output: { shape: input.shape } };
  },

  reference({ inputs, outputs, attrs }) {
    const scales = readNumbers(inputs.scale);
    const biases = readNumbers(inputs.B);
    normalizeGroups(inputs.input, outputs.output, inputs.input.shape[1], attrs.epsilon, (channel) => [
      scales[channel],
      biases[channel],
    ]);
  },
});
