/** Trilu on WebGPU, where the diagonal is known beforehand. */
import { readBigInts } from "../../tensor/access.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { productOf } from "../shared/rules/layout.js";
import { movingKernel } from "../shared/webgpu/move.js";
import { unitsOf } from "../shared/webgpu/units.js";
import { Trilu } from "./op.js";

/** What lies on and above (or below) a diagonal, zeros elsewhere. */
export const trilu: WebgpuKernel = movingKernel(
  [Trilu],
  ({ inputs: { input, k }, outputs: { output }, attrs: { upper } }) => {
    if (k?.known === false) return "the diagonal is data";
    const [rows, columns] = input.shape.slice(-2);
    const given = k === undefined ? 0 : Number(readBigInts(k.view)[0]);
    const units = unitsOf({
      type: input.type,
      groups: [
        { shape: input.shape, strides: [input.strides] },
        { shape: [], strides: [[]] },
      ],
      offsets: [input.place.offset],
    });
    return [
      {
        name: "trilu",
        output,
        units,
        sources: { input },
        value: `let element = index / p.inner;
  let ahead = i32(element % p.columns) - i32((element / p.columns) % p.rows) - i32(p.diagonal);
  if (${upper ? "ahead < 0" : "ahead > 0"}) { return 0u; }
  return unitOf_input(at_input);`,
        parameters: {
          inner: productOf(units.groups[1].map((at) => units.shape[at])),
          rows,
          columns,
          diagonal: Math.min(Math.max(given, -rows - columns), rows + columns),
        },
      },
    ];
  },
);
