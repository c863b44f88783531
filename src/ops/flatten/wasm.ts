/** Flatten on WASM: nothing to do, unless the operand has gaps. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { mover, shown } from "../shared/wasm/mover.js";
import { Flatten } from "./op.js";

/** The operand's elements under the output's shape. */
export const flatten: WasmKernel = mover([Flatten], ({ inputs, outputs }) => shown(inputs.input, outputs.output));
