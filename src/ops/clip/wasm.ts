/** Clip on WASM: floats in one pass, other types exactly. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { kindOf, plainOnly, recordElements } from "../wasm-elements.js";
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

/** The same on all other types: one bound after the other. */
export const clipExactly: WasmKernel = {
  op: "Clip",
  accepts: ({ inputs, outputs, opset }) =>
    opset < 11 ? "the bounds are attributes" : plainOnly([...inputs, outputs[0]]),
  record({ inputs: [input, min, max], outputs: [output] }, recorder) {
    const kind = kindOf(output!.type);
    const raised = min === undefined ? [input!] : [input!, min];
    recordElements(recorder, {
      operation: min === undefined ? "copy" : "maximum",
      kind,
      inputs: raised,
      output: output!,
    });
    if (max === undefined) return;
    recordElements(recorder, { operation: "minimum", kind, inputs: [output!, max], output: output! });
  },
};
