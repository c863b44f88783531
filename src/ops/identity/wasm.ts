/** Identity on WASM: nothing to do, unless the operand has gaps. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { mover, shown } from "../wasm-mover.js";
import { Identity } from "./op.js";

/** The operand's elements. */
export const identity: WasmKernel = mover([Identity], ({ inputs, outputs }) => shown(inputs.input, outputs.output));
