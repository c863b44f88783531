/** Logic on bools on WASM. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { elements } from "../wasm-elements.js";

const logic = (op: string, operation: "and" | "or" | "exclusiveOr" | "not"): WasmKernel =>
  elements(op, ({ inputs, outputs: [output] }) => ({
    operation,
    kind: "bytes",
    inputs: inputs.map((input) => input!),
    output: output!,
  }));

/** A and B. */
export const and: WasmKernel = logic("And", "and");

/** A or B. */
export const or: WasmKernel = logic("Or", "or");

/** Either A or B. */
export const exclusiveOr: WasmKernel = logic("Xor", "exclusiveOr");

/** Not X. */
export const not: WasmKernel = logic("Not", "not");
