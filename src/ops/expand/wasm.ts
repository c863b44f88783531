/** Expand on WASM: a copy whose source repeats. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { whole } from "../shared/wasm/move.js";
import { mover } from "../shared/wasm/mover.js";
import { Expand } from "./op.js";

/** `input` broadcast to the output's shape. */
export const expand: WasmKernel = mover([Expand], ({ inputs: { input }, outputs: { output } }) => [
  { from: { operand: input, view: input.view.broadcastTo(output.shape) }, to: whole(output) },
]);
