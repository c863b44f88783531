/** Where on WASM: elements of up to eight bytes, moved as they are. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { traitsOf } from "../../tensor/element-type.js";
import { elements, type PlainType } from "../shared/wasm/elements.js";
import { Where } from "./op.js";

/** Types of the same widths whose bits pass through registers unchanged. */
const carriers: Readonly<Record<number, PlainType>> = { 8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64" };

/** X where the condition holds, else Y. */
export const where: WasmKernel = elements([Where], ({ inputs: { condition, X, Y }, outputs: { output } }) => {
  const { bits, kind } = traitsOf(output.type);
  const type = carriers[bits];
  if (type === undefined || kind === "string") return `there is no kernel for ${output.type}`;
  return {
    operation: "select",
    kind: bits === 32 && output.contiguous ? "words" : "integer",
    inputs: [condition, X, Y],
    types: ["bool", type, type],
    output,
    outputType: type,
  };
});
