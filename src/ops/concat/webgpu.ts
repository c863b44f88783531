/** Concat on WebGPU: each unit of the result finds its operand by its coordinate along the axis. */
import type { Operand } from "../../graph/kernel.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { fromFront, productOf } from "../shared/rules/layout.js";
import { type Filling, movingKernel } from "../shared/webgpu/move.js";
import { unitsOf } from "../shared/webgpu/units.js";
import { Concat } from "./op.js";

/** Tensors one after another along `axis`. */
export const concat: WebgpuKernel = movingKernel(
  [Concat],
  ({ inputs: { inputs }, outputs: { concat_result: output }, attrs }) => {
    const axis = fromFront(attrs.axis, output.shape);
    return [
      joined(
        inputs.filter(({ place }) => place.size > 0),
        output,
        axis,
      ),
    ];
  },
);

function joined(inputs: readonly Operand[], output: Operand, axis: number): Filling {
  const { shape } = output;
  const inner = shape.slice(axis + 1);
  const size = productOf(inner);
  // Where all that follows the axis lies together with it, both are one dimension, which is cut into longer units.
  const together = inputs.every(({ strides, shape: own }) =>
    strides.slice(axis).every((stride, at) => own[axis + at] === 1 || stride === productOf(own.slice(axis + at + 1))),
  );
  let end = 0;
  const ends = inputs.map((input) => (end += input.shape[axis] * (together ? size : 1)));
  const outer = { shape: shape.slice(0, axis), strides: inputs.map(({ strides }) => strides.slice(0, axis)) };
  const along = together
    ? [{ shape: [shape[axis] * size], strides: inputs.map(() => [1]) }]
    : [
        { shape: [shape[axis]], strides: inputs.map(({ strides }) => [strides[axis]]) },
        { shape: inner, strides: inputs.map(({ strides }) => strides.slice(axis + 1)) },
      ];
  const units = unitsOf({
    type: output.type,
    groups: [outer, ...along],
    offsets: inputs.map(({ place }) => place.offset),
    distances: together ? ends : [],
  });
  const [coordinate] = units.groups[1].length === 0 ? ["0u"] : units.groups[1].map((at) => `c${at}`);
  const names = inputs.map((_, at) => `source${at}`);
  const limits = together ? units.distances : ends;
  const steps = names.map((_, side) => (units.groups[1].length === 0 ? 0 : units.strides[side][units.groups[1][0]]));
  const parameters = Object.fromEntries([
    ...limits.map((limit, at) => [`end${at}`, limit] as const),
    ...steps.map((step, at) => [`back${at}`, step * (limits[at - 1] ?? 0)] as const),
  ]);
  const tests = names.map((name, at) => {
    const taken = `return unitOf_${name}(at_${name} - p.back${at});`;
    return at === names.length - 1 ? taken : `if (${coordinate} < p.end${at}) { ${taken} }`;
  });
  return {
    name: "concat",
    output,
    units,
    sources: Object.fromEntries(names.map((name, at) => [name, inputs[at]])),
    value: tests.join("\n  "),
    parameters,
  };
}
