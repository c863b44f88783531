/** Flatten on WASM: nothing to do, unless the operand has gaps. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { shower } from "../wasm-mover.js";

/** The operand's elements under the output's shape. */
export const flatten: WasmKernel = shower("Flatten");
