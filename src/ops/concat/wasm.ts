/** Concat on WASM. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import { whole } from "../shared/wasm/move.js";
import { mover } from "../shared/wasm/mover.js";
import { Concat } from "./op.js";

/** Tensors one after another along `axis`; the first may lie in its place already. */
export const concat: WasmKernel = mover(
  [Concat],
  ({ inputs: { inputs }, outputs: { concat_result: result }, attrs }) => {
    const axis = fromFront(attrs.axis, result.shape);
    let start = 0;
    return inputs.map((input) => {
      const view = result.view.slice(axis, start, start + input.shape[axis]);
      start += input.shape[axis];
      return { from: whole(input), to: { operand: result, view } };
    });
  },
);
