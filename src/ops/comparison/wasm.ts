/** Comparisons on WASM, of numbers and bools. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { elements, kindOf } from "../wasm-elements.js";

const comparison = (op: string, operation: "equal" | "less" | "lessOrEqual", swapped = false): WasmKernel =>
  elements(op, ({ inputs: [a, b], outputs: [output] }) => ({
    operation,
    kind: kindOf(a!.type),
    inputs: swapped ? [b!, a!] : [a!, b!],
    // Bools are compared as the bytes they are.
    ...(a!.type === "bool" ? { types: ["uint8", "uint8"] as const } : {}),
    output: output!,
  }));

/** A = B. */
export const equal: WasmKernel = comparison("Equal", "equal");

/** A > B. */
export const greater: WasmKernel = comparison("Greater", "less", true);

/** A ≥ B. */
export const greaterOrEqual: WasmKernel = comparison("GreaterOrEqual", "lessOrEqual", true);

/** A < B. */
export const less: WasmKernel = comparison("Less", "less");

/** A ≤ B. */
export const lessOrEqual: WasmKernel = comparison("LessOrEqual", "lessOrEqual");
