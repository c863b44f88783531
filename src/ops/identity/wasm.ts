/** Identity on WASM: nothing to do, unless the operand has gaps. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { shower } from "../wasm-mover.js";

/** The operand's elements. */
export const identity: WasmKernel = shower("Identity");
