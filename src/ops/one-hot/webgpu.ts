/** OneHot on WebGPU: of whole indices. One outside switches nothing on. */
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { variable } from "../../webgpu-kernels/shader-part.js";
import { isIndexType } from "../../webgpu-kernels/wgsl.js";
import { fromFront, productOf } from "../shared/rules/layout.js";
import { movingKernel } from "../shared/webgpu/move.js";
import { unitsOf } from "../shared/webgpu/units.js";
import { OneHot } from "./op.js";

/** The on value where an index points, the off value elsewhere. */
export const oneHot: WebgpuKernel = movingKernel(
  [OneHot],
  ({ inputs: { indices, values }, outputs: { output }, attrs }) => {
    if (!isIndexType(indices.type)) return `${indices.type} is no type of indices`;
    if (!indices.contiguous) return "the indices have gaps";
    const axis = fromFront(attrs.axis, output.shape);
    const units = unitsOf({
      type: output.type,
      groups: [
        { shape: output.shape, strides: [output.shape.map(() => 0)] },
        { shape: [], strides: [[]] },
      ],
      offsets: [values.place.offset],
      distances: values.strides,
    });
    const array = variable("indices", indices);
    const wide = indices.type === "int64" ? ` && bitcast<i32>(${array.at("2u * place + 1u")}) == i >> 31u` : "";
    return [
      {
        name: "oneHot",
        output,
        units,
        sources: { values },
        indices: [array],
        value: `let element = index / p.inner;
  let place = p.first + element % p.after + element / (p.after * p.depth) * p.after;
  let i = ${array.loadIndex("place")};
  let on = u32(select(i, i + i32(p.depth), i < 0)) == (element / p.after) % p.depth${wide};
  return unitOf_values(at_values + select(0u, p.step, on));`,
        parameters: {
          inner: productOf(units.groups[1].map((at) => units.shape[at])),
          first: indices.place.offset,
          after: productOf(output.shape.slice(axis + 1)),
          depth: output.shape[axis],
          step: units.distances[0],
        },
      },
    ];
  },
);
