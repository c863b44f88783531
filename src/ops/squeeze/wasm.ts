/** Squeeze and Unsqueeze on WASM: nothing to do, unless the operand has gaps. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { shower } from "../wasm-mover.js";

/** The operand's elements without dimensions of 1. */
export const squeeze: WasmKernel = shower("Squeeze");

/** The operand's elements with dimensions of 1 put in. */
export const unsqueeze: WasmKernel = shower("Unsqueeze");
