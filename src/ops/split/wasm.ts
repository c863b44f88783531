/** Split on WASM, where every part is asked for: the outputs' shapes tell where each begins. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import { whole } from "../shared/wasm/move.js";
import { mover } from "../shared/wasm/mover.js";
import { Split13, Split18, Split2 } from "./op.js";

/** One tensor cut into several along `axis`. */
export const split: WasmKernel = mover(
  [Split2, Split13, Split18],
  ({ inputs: { input }, outputs: { outputs }, attrs }) => {
    const axis = fromFront(attrs.axis, input.shape);
    let start = 0;
    const moves = [];
    for (const output of outputs) {
      if (output === undefined) return "not every part is asked for";
      const end = start + output.shape[axis];
      moves.push({ from: { operand: input, view: input.view.slice(axis, start, end) }, to: whole(output) });
      start = end;
    }
    return moves;
  },
);
