/** Mod on WASM: integers, by floor. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { elements, kindOf } from "../shared/wasm/elements.js";
import { Mod, Mod10 } from "./op.js";

/** The rest of A / B with the sign of B. */
export const mod: WasmKernel = elements([Mod10, Mod], ({ inputs: { A, B }, outputs: { C }, attrs: { fmod } }) => {
  const kind = kindOf(A.type);
  if (kind === "double") return `there is no kernel for ${A.type}`;
  if (fmod) return "there is no kernel for a rest with the sign of A";
  return { operation: "modulo", kind, inputs: [A, B], output: C };
});
