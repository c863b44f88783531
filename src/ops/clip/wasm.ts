/** Clip on WASM, on floats. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { apply, elementwise, type Expression, number, operand } from "../wasm-elementwise.js";

/** The input limited to operands, or to attributes where the opset has those. */
export const clip: WasmKernel = elementwise("Clip", ({ inputs: [input, min, max], attrs, opset }) => {
  const early = opset < 11;
  const bounds: readonly (Expression | undefined)[] = early
    ? [number(attrs["min"] as number), number(attrs["max"] as number)]
    : [min && operand(min), max && operand(max)];
  const x = operand(input!);
  const raised = bounds[0] === undefined ? x : apply("maximum", x, bounds[0]);
  return bounds[1] === undefined ? raised : apply("minimum", raised, bounds[1]);
});
