/** Logic on bools on WASM. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { elements } from "../shared/wasm/elements.js";
import { And, Not, Or, Xor } from "./op.js";

const logic = (op: typeof And, operation: "and" | "or" | "exclusiveOr"): WasmKernel =>
  elements([op], ({ inputs: { A, B }, outputs: { C } }) => ({ operation, kind: "bytes", inputs: [A, B], output: C }));

/** A and B. */
export const and: WasmKernel = logic(And, "and");

/** A or B. */
export const or: WasmKernel = logic(Or, "or");

/** Either A or B. */
export const exclusiveOr: WasmKernel = logic(Xor, "exclusiveOr");

/** Not X. */
export const not: WasmKernel = elements([Not], ({ inputs: { X }, outputs: { Y } }) => ({
  operation: "not",
  kind: "bytes",
  inputs: [X],
  output: Y,
}));
