/** Transpose on WASM. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { whole } from "../shared/wasm/move.js";
import { mover } from "../shared/wasm/mover.js";
import { Transpose } from "./op.js";

/** Axis i of the result is axis `perm[i]` of `data`. */
export const transpose: WasmKernel = mover(
  [Transpose],
  ({ inputs: { data }, outputs: { transposed }, attrs: { perm } }) => {
    const order = perm?.length ? perm : data.shape.map((_, axis) => data.shape.length - 1 - axis);
    return [{ from: { operand: data, view: data.view.transpose(order) }, to: whole(transposed) }];
  },
);
