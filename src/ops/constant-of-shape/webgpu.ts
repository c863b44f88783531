/** ConstantOfShape on WebGPU: one value over and over, as words. */
import { View, bytesIn } from "../../tensor/view.js";
import type { WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { movingKernel } from "../shared/webgpu/move.js";
import { movableType, unitsOf } from "../shared/webgpu/units.js";
import { ConstantOfShape } from "./op.js";

/** A tensor filled with one value. */
export const constantOfShape: WebgpuKernel = movingKernel(
  [ConstantOfShape],
  ({ outputs: { output }, attrs: { value = View.allocate("float32", []) } }) => {
    const movable = movableType(output.type);
    if (movable !== true) return movable;
    const units = unitsOf({ type: output.type, groups: [{ shape: output.shape, strides: [] }], offsets: [] });
    // Two words hold every value a whole number of times.
    const bytes = bytesIn(value);
    const words = new DataView(Uint8Array.from({ length: 8 }, (_, at) => bytes[at % bytes.length]).buffer);
    const [even, odd] = [words.getUint32(0, true), words.getUint32(4, true)];
    return [
      {
        name: "constantOfShape",
        output,
        units,
        sources: {},
        value:
          units.unit === "quad"
            ? "return vec4<u32>(p.even, p.odd, p.even, p.odd);"
            : "return select(p.even, p.odd, (index & 1u) == 1u);",
        parameters: { even, odd },
      },
    ];
  },
);
