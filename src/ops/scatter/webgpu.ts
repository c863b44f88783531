/**
 * The scattering operators on WebGPU, which write without a reduction: into data itself where the plan has it so, else into a copy. Indices
 * are checked before each run. Of updates to one place ONNX leaves open which stays.
 */
import { isInPlace, type Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel, type WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { invocationsOf, variable } from "../../webgpu-kernels/shader-part.js";
import { isIndexType, listed } from "../../webgpu-kernels/wgsl.js";
import { fromFront, type Layout, productOf } from "../shared/rules/layout.js";
import { copied, fill } from "../shared/webgpu/move.js";
import { movableType, type Units, unitsOf } from "../shared/webgpu/units.js";
import {
  Scatter,
  ScatterElements11,
  ScatterElements16,
  ScatterElements18,
  ScatterND11,
  ScatterND16,
  ScatterND18,
} from "./op.js";

interface Scattering {
  readonly name: string;
  readonly data: Operand;
  readonly indices: Operand;
  readonly updates: Operand;
  readonly output: Operand;
  /** Dimensions of the updates in groups, with strides of updates and output; where indices say where to go, the output's are 0. */
  readonly groups: readonly Layout[];
  /** The axes of the output that indices go along, one number each. */
  readonly axes: readonly number[];
  readonly reduction: string;
}

/** Updates and output are the sides. */
const unitsFor = ({ updates, output, groups, axes }: Scattering): Units =>
  unitsOf({
    type: output.type,
    groups,
    offsets: [updates.place.offset, output.place.offset],
    distances: axes.map((axis) => output.strides[axis]),
  });

function accepts(work: Scattering): true | string {
  const { data, indices, updates, output, reduction } = work;
  const type = movableType(output.type);
  if (type !== true) return type;
  if (reduction !== "none") return `the reduction "${reduction}" needs an order`;
  if (!isIndexType(indices.type)) return `${indices.type} is no type of indices`;
  if (!indices.contiguous) return "the indices have gaps";
  if (unitsFor(work).unit === "element") return `several elements of ${output.type} share a word`;
  if (updates.place.buffer === output.place.buffer) return "the updates lie where they are written";
  if (isInPlace(data, output)) return true;
  return output.contiguous && output.place.offset === 0 ? true : "the output has gaps";
}

function record(work: Scattering, recorder: WebgpuRecorder): void {
  const { name, data, indices, updates, output, axes } = work;
  if (output.place.size === 0) return;
  if (!isInPlace(data, output)) {
    const { shape, strides, place } = data;
    recorder.dispatch(
      fill(copied(name, data, { shape, strides: [strides], offset: place.offset }, output), recorder.device),
    );
  }
  if (updates.place.size === 0) return;
  const units = unitsFor(work);
  const { shape, count } = units;
  const element = units.unit === "quad" ? "vec4<u32>" : "u32";
  const [places, source] = [variable("indices", indices), variable("updates_", updates, { element })];
  const coordinates = shape.map((_, back) => {
    const axis = shape.length - 1 - back;
    const moves = `here += c * p.updates${axis}; there += c * p.output${axis};`;
    return axis === 0
      ? `{ let c = rest; ${moves} }`
      : `{ let c = rest % p.shape${axis}; rest /= p.shape${axis}; ${moves} }`;
  });
  const steps = axes.map(
    (_, at) => `{ let i = ${places.loadIndex(`p.first + row * ${axes.length}u + ${at}u`)};
    there += u32(select(i, i + i32(p.size${at}), i < 0)) * p.step${at}; }`,
  );
  const body = `if (index >= p.count) { return; }
  var rest = index;
  var here = p.updatesOffset;
  var there = p.outputOffset;
  ${coordinates.join("\n  ")}
  let row = index / p.inner;
  ${steps.join("\n  ")}
  result[there] = ${source.at("here")};`;
  const parts = [places, source, variable("result", output, { writes: true, element })];
  const parameters = {
    count,
    inner: productOf(units.groups.at(-1)!.map((at) => shape[at])),
    first: indices.place.offset,
    ...listed("shape", shape),
    ...listed("updates", units.strides[0]),
    ...listed("output", units.strides[1]),
    updatesOffset: units.offsets[0],
    outputOffset: units.offsets[1],
    ...Object.fromEntries(axes.map((axis, at) => [`size${at}`, output.shape[axis]])),
    ...Object.fromEntries(units.distances.map((distance, at) => [`step${at}`, distance])),
  };
  recorder.dispatch(invocationsOf(recorder.device, { name, parts, parameters, count, body }));
}

interface Call {
  readonly inputs: { readonly data: Operand; readonly indices: Operand; readonly updates: Operand };
  readonly outputs: { readonly output: Operand };
}

const elementsOf = ({ inputs, outputs: { output } }: Call, axisGiven: number, reduction = "none"): Scattering => {
  const axis = fromFront(axisGiven, output.shape);
  const { updates } = inputs;
  return {
    name: "scatterElements",
    ...inputs,
    output,
    reduction,
    groups: [
      { shape: updates.shape, strides: [updates.strides, output.strides.with(axis, 0)] },
      { shape: [], strides: [[], []] },
    ],
    axes: [axis],
  };
};

const runsOf = ({ inputs, outputs: { output } }: Call, reduction = "none"): Scattering => {
  const { indices, updates } = inputs;
  const depth = indices.shape.at(-1)!;
  const rows = indices.shape.length - 1;
  return {
    name: "scatterND",
    ...inputs,
    output,
    reduction,
    groups: [
      {
        shape: updates.shape.slice(0, rows),
        strides: [updates.strides.slice(0, rows), updates.shape.slice(0, rows).map(() => 0)],
      },
      { shape: updates.shape.slice(rows), strides: [updates.strides.slice(rows), output.strides.slice(depth)] },
    ],
    axes: Array.from({ length: depth }, (_, axis) => axis),
  };
};

/** Writes each update where its index replaces the coordinate along `axis`. */
export const scatterElements: WebgpuKernel = webgpuKernel(
  [Scatter, ScatterElements11, ScatterElements16, ScatterElements18],
  {
    accepts: (call) => accepts(elementsOf(call, call.attrs.axis, call.attrs.reduction)),
    record: (call, recorder) => record(elementsOf(call, call.attrs.axis, call.attrs.reduction), recorder),
  },
);

/** Writes each slice of `updates` where a row of `indices` points. */
export const scatterND: WebgpuKernel = webgpuKernel([ScatterND11, ScatterND16, ScatterND18], {
  accepts: (call) => accepts(runsOf(call, call.attrs.reduction)),
  record: (call, recorder) => record(runsOf(call, call.attrs.reduction), recorder),
});
