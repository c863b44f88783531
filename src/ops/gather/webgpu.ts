/** The gathering operators on WebGPU. Indices are checked before each run; negative ones count from the end. */
import type { Operand } from "../../graph/kernel.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { variable } from "../../webgpu-kernels/shader-part.js";
import { isIndexType } from "../../webgpu-kernels/wgsl.js";
import { fromFront, productOf } from "../shared/rules/layout.js";
import { type Filling, movingKernel } from "../shared/webgpu/move.js";
import { unitsOf } from "../shared/webgpu/units.js";
import { Gather, GatherElements, GatherND } from "./op.js";

interface Picking {
  readonly name: string;
  readonly data: Operand;
  readonly indices: Operand;
  readonly output: Operand;
  /** Dimensions of the output in groups, with data's strides; where indices say where to go, those are 0. */
  readonly groups: readonly { readonly shape: readonly number[]; readonly strides: readonly (readonly number[])[] }[];
  /** The axes of data that indices go along, one number each. */
  readonly axes: readonly number[];
  /** Which row of indices a part of the output goes by: the parts before it, repeated after so many. */
  readonly repeats?: number;
}

function picked({ name, data, indices, output, groups, axes, repeats }: Picking): readonly Filling[] | string {
  if (!isIndexType(indices.type)) return `${indices.type} is no type of indices`;
  if (!indices.contiguous) return "the indices have gaps";
  const units = unitsOf({
    type: output.type,
    groups,
    offsets: [data.place.offset],
    distances: axes.map((axis) => data.strides[axis]),
  });
  const inner = productOf(units.groups.at(-1)!.map((at) => units.shape[at]));
  const array = variable("indices", indices);
  const terms = axes.map(
    (_, at) => `{ let i = ${array.loadIndex(`p.first + row * ${axes.length}u + ${at}u`)};
    at += u32(select(i, i + i32(p.size${at}), i < 0)) * p.step${at}; }`,
  );
  return [
    {
      name,
      output,
      units,
      sources: { data },
      indices: [array],
      value: `let row = (index / p.inner)${repeats === undefined ? "" : " % p.repeats"};
  var at = at_data;
  ${terms.join("\n  ")}
  return unitOf_data(at);`,
      parameters: {
        inner,
        first: indices.place.offset,
        ...(repeats === undefined ? {} : { repeats }),
        ...Object.fromEntries(axes.map((axis, at) => [`size${at}`, data.shape[axis]])),
        ...Object.fromEntries(axes.map((_, at) => [`step${at}`, units.distances[at]])),
      },
    },
  ];
}

/** Picks whole slices of `data` along `axis`. */
export const gather: WebgpuKernel = movingKernel(
  [Gather],
  ({ inputs: { data, indices }, outputs: { output }, attrs }) => {
    const axis = fromFront(attrs.axis, data.shape);
    const count = productOf(indices.shape);
    return picked({
      name: "gather",
      data,
      indices,
      output,
      groups: [
        { shape: data.shape.slice(0, axis), strides: [data.strides.slice(0, axis)] },
        { shape: [count], strides: [[0]] },
        { shape: data.shape.slice(axis + 1), strides: [data.strides.slice(axis + 1)] },
      ],
      axes: [axis],
      repeats: count,
    });
  },
);

/** Picks the element or slice that each row of `indices` points at. */
export const gatherND: WebgpuKernel = movingKernel(
  [GatherND],
  ({ inputs: { data, indices }, outputs: { output }, attrs: { batch_dims: batch } }) => {
    const depth = indices.shape.at(-1)!;
    return picked({
      name: "gatherND",
      data,
      indices,
      output,
      groups: [
        { shape: data.shape.slice(0, batch), strides: [data.strides.slice(0, batch)] },
        { shape: [productOf(indices.shape.slice(batch, -1))], strides: [[0]] },
        { shape: data.shape.slice(batch + depth), strides: [data.strides.slice(batch + depth)] },
      ],
      axes: Array.from({ length: depth }, (_, at) => batch + at),
    });
  },
);

/** Picks one element for each index, which replaces the coordinate along `axis`. */
export const gatherElements: WebgpuKernel = movingKernel(
  [GatherElements],
  ({ inputs: { data, indices }, outputs: { output }, attrs }) => {
    const axis = fromFront(attrs.axis, data.shape);
    return picked({
      name: "gatherElements",
      data,
      indices,
      output,
      groups: [
        { shape: indices.shape, strides: [data.strides.with(axis, 0)] },
        { shape: [], strides: [[]] },
      ],
      axes: [axis],
    });
  },
);
