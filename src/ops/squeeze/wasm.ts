/** Squeeze and Unsqueeze on WASM: nothing to do, unless the operand has gaps. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { mover, shown } from "../shared/wasm/mover.js";
import { Squeeze1, Squeeze13, Unsqueeze1, Unsqueeze13 } from "./op.js";

/** The operand's elements without dimensions of 1. */
export const squeeze: WasmKernel = mover([Squeeze1, Squeeze13], ({ inputs, outputs }) =>
  shown(inputs.data, outputs.squeezed),
);

/** The operand's elements with dimensions of 1 put in. */
export const unsqueeze: WasmKernel = mover([Unsqueeze1, Unsqueeze13], ({ inputs, outputs }) =>
  shown(inputs.data, outputs.expanded),
);
