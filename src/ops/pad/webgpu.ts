/** Pad on WebGPU, where the pads are known beforehand. */
import { readIntegers } from "../../tensor/access.js";
import type { Parameter } from "../../webgpu-kernels/webgpu-kernel.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import { movingKernel } from "../shared/webgpu/move.js";
import { unitsOf } from "../shared/webgpu/units.js";
import type { PadMode } from "./move.js";
import { Pad11, Pad18, Pad19 } from "./op.js";

/** WGSL that brings the coordinate `x`, which may lie outside of `n`, into the data; of "constant" there is none. */
const inside: Readonly<Record<Exclude<PadMode, "constant">, string>> = {
  edge: "x = clamp(x, 0, n - 1);",
  wrap: "x = ((x % n) + n) % n;",
  // The ends are not doubled, so the pattern repeats after twice the distance between them.
  reflect: "let period = max(2 * (n - 1), 1); x = ((x % period) + period) % period; x = select(x, period - x, x >= n);",
};

/** Elements added around a tensor, or taken off. */
export const pad: WebgpuKernel = movingKernel(
  [Pad11, Pad18, Pad19],
  ({ inputs, outputs: { output }, attrs: { mode } }) => {
    const { data, pads, constant_value: value } = inputs;
    const axes = "axes" in inputs ? inputs.axes : undefined;
    if (!pads.known || axes?.known === false) return "the pads are data";
    const given = readIntegers(pads.view);
    const rank = data.shape.length;
    const listedAxes = axes === undefined ? data.shape.map((_, axis) => axis) : readIntegers(axes.view);
    const begins = data.shape.map(() => 0);
    listedAxes.forEach((axis, at) => (begins[fromFront(axis, data.shape)] = given[at]));
    if (mode !== "constant" && given.some((count) => count < 0)) return `mode "${mode}" takes elements off`;
    if (mode !== "constant" && data.place.size === 0) return `mode "${mode}" has nothing to repeat`;
    const units = unitsOf({
      type: output.type,
      groups: [...output.shape.map((dim) => ({ shape: [dim], strides: [[0], [0]] })), { shape: [], strides: [[], []] }],
      offsets: [data.place.offset, value?.place.offset ?? 0],
      distances: data.strides,
    });
    const within = units.groups[rank].map((at) => `c${at}`)[0] ?? "0u";
    const parameters: Record<string, Parameter> = {};
    const lines = data.shape.map((dim, axis) => {
      parameters[`begin${axis}`] = begins[axis];
      parameters[`size${axis}`] = dim;
      parameters[`step${axis}`] = units.distances[axis];
      const coordinate = units.groups[axis].map((at) => `i32(c${at})`)[0] ?? "0";
      const filler = value === undefined ? "0u" : `unitOf_value(p.valueOffset + ${within})`;
      const moved = mode === "constant" ? `if (x < 0 || x >= n) { return ${filler}; }` : inside[mode];
      return `{ let n = i32(p.size${axis}); var x = ${coordinate} - i32(p.begin${axis}); ${moved} at += u32(x) * p.step${axis}; }`;
    });
    return [
      {
        name: "pad",
        output,
        units,
        sources: { data, ...(value && { value }) },
        value: `var at = p.dataOffset + ${within};\n  ${lines.join("\n  ")}\n  return unitOf_data(at);`,
        parameters,
      },
    ];
  },
);
