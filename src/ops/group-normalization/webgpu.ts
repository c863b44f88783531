/** GroupNormalization and InstanceNormalization on WebGPU: the channels of a group lie together, so that a group is a row. */
import type { Operand } from "../../graph/kernel.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { normalization } from "../shared/webgpu/normalize.js";
import { GroupNormalization18, GroupNormalization21, InstanceNormalization } from "./op.js";

/** Elements of a group, where each sample has so many. */
const groupSize = ({ shape }: Operand, groups: number): number =>
  shape.slice(1).reduce((product, dim) => product * dim, 1) / groups;

const common = { name: "groupNormalization", centered: true } as const;

/** Normalizes groups of channels, with a scale and a bias a group. */
export const groupNormalization18: WebgpuKernel = normalization(
  [GroupNormalization18],
  ({ inputs: { X, scale, bias }, outputs: { Y: output }, attrs: { epsilon, num_groups: groups } }) => {
    const size = groupSize(X, groups);
    const channels = { rows: groups, perRow: 1, area: size };
    return { ...common, source: X, size, scale, bias, channels, output, epsilon };
  },
);

/** Normalizes groups of channels, with a scale and a bias a channel. */
export const groupNormalization21: WebgpuKernel = normalization(
  [GroupNormalization21],
  ({ inputs: { X, scale, bias }, outputs: { Y: output }, attrs }) => {
    if (attrs.stash_type === "float64") return "it is to be computed in float64";
    const { epsilon, num_groups: groups } = attrs;
    const size = groupSize(X, groups);
    const perRow = X.shape[1] / groups;
    return {
      ...common,
      source: X,
      size,
      scale,
      bias,
      channels: { rows: groups, perRow, area: size / perRow },
      output,
      epsilon,
    };
  },
);

/** Normalizes each channel of each sample. */
export const instanceNormalization: WebgpuKernel = normalization(
  [InstanceNormalization],
  ({ inputs: { input, scale, B: bias }, outputs: { output }, attrs: { epsilon } }) => {
    const size = groupSize(input, input.shape[1]);
    const channels = { rows: input.shape[1], perRow: 1, area: size };
    return { ...common, name: "instanceNormalization", source: input, size, scale, bias, channels, output, epsilon };
  },
);
