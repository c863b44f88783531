/** Reshape on WASM: nothing to do, unless the operand has gaps. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { mover, shown } from "../shared/wasm/mover.js";
import { Reshape14, Reshape5 } from "./op.js";

/** The operand's elements under the output's shape. */
export const reshape: WasmKernel = mover([Reshape5, Reshape14], ({ inputs, outputs }) =>
  shown(inputs.data, outputs.reshaped),
);
