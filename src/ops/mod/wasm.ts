/** Mod on WASM: integers, by floor. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { elements, kindOf } from "../wasm-elements.js";

/** The rest of A / B with the sign of B. */
export const mod: WasmKernel = elements("Mod", ({ inputs: [a, b], outputs: [output], attrs }) => {
  const kind = kindOf(a!.type);
  if (kind === "double") return `there is no kernel for ${a!.type}`;
  if (attrs["fmod"] === true) return "there is no kernel for a rest with the sign of A";
  return { operation: "modulo", kind, inputs: [a!, b!], output: output! };
});
