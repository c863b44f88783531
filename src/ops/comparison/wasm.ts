/** Comparisons on WASM, of numbers and bools. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { elements, kindOf } from "../shared/wasm/elements.js";
import { Equal, Greater, GreaterOrEqual, Less, LessOrEqual } from "./op.js";

const comparison = (
  op: typeof Equal,
  operation: "equal" | "less" | "lessOrEqual",
  { swapped = false } = {},
): WasmKernel =>
  elements([op], ({ inputs: { A, B }, outputs: { C } }) => ({
    operation,
    kind: kindOf(A.type),
    inputs: swapped ? [B, A] : [A, B],
    // Bools are compared as the bytes they are.
    ...(A.type === "bool" ? { types: ["uint8", "uint8"] as const } : {}),
    output: C,
  }));

/** A = B. */
export const equal: WasmKernel = comparison(Equal, "equal");

/** A > B. */
export const greater: WasmKernel = comparison(Greater, "less", { swapped: true });

/** A ≥ B. */
export const greaterOrEqual: WasmKernel = comparison(GreaterOrEqual, "lessOrEqual", { swapped: true });

/** A < B. */
export const less: WasmKernel = comparison(Less, "less");

/** A ≤ B. */
export const lessOrEqual: WasmKernel = comparison(LessOrEqual, "lessOrEqual");
