/** Identity on WASM: nothing to do, unless the operand has gaps. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { mover, shown } from "../shared/wasm/mover.js";
import { Identity } from "./op.js";

/** The operand's elements. */
export const identity: WasmKernel = mover([Identity], ({ inputs, outputs }) => shown(inputs.input, outputs.output));
