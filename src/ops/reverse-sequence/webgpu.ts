/** ReverseSequence on WebGPU. Lengths are checked before each run. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { variable } from "../../webgpu-kernels/shader-part.js";
import { movingKernel } from "../shared/webgpu/move.js";
import { unitsOf } from "../shared/webgpu/units.js";
import { ReverseSequence } from "./op.js";

/** The beginning of each sequence turned round. */
export const reverseSequence: WebgpuKernel = movingKernel(
  [ReverseSequence],
  ({
    inputs: { input, sequence_lens: lengths },
    outputs: { Y: output },
    attrs: { batch_axis: batch, time_axis: time },
  }) => {
    if (!lengths.contiguous) return "the lengths have gaps";
    const units = unitsOf({
      type: input.type,
      groups: [
        { shape: [input.shape[0]], strides: [[input.strides[0]]] },
        { shape: [input.shape[1]], strides: [[input.strides[1]]] },
        { shape: input.shape.slice(2), strides: [input.strides.slice(2)] },
      ],
      offsets: [input.place.offset],
      distances: [input.strides[time]],
    });
    const array = variable("lengths", lengths);
    const coordinate = (axis: number): string => units.groups[axis].map((at) => `c${at}`)[0] ?? "0u";
    return [
      {
        name: "reverseSequence",
        output,
        units,
        sources: { input },
        indices: [array],
        value: `let step = ${coordinate(time)};
  let length = u32(${array.loadIndex(`p.first + ${coordinate(batch)}`)});
  let other = select(step, length - 1u - step, step < length);
  return unitOf_input(at_input + (other - step) * p.step);`,
        parameters: { first: lengths.place.offset, step: units.distances[0] },
      },
    ];
  },
);
