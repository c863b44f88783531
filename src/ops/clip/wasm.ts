/** Clip on WASM: floats in one pass, other types exactly. */
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { kindOf, plainOnly, recordElements } from "../shared/wasm/elements.js";
import { apply, elementwise, type Expression, number, operand } from "../shared/wasm/elementwise.js";
import { Clip, Clip6 } from "./op.js";

function limited(x: Expression, min: Expression | undefined, max: Expression | undefined): Expression {
  const raised = min === undefined ? x : apply("maximum", x, min);
  return max === undefined ? raised : apply("minimum", raised, max);
}

/** The input limited to attributes. */
export const clipByAttributes: WasmKernel = elementwise(
  [Clip6],
  ({ inputs: { input }, outputs: { output }, attrs: { min, max } }) => ({
    output,
    value: limited(operand(input), number(min), number(max)),
  }),
);

/** The input limited to operands: floats at once, all other types one bound after the other. */
export const clip: readonly WasmKernel[] = [
  elementwise([Clip], ({ inputs: { input, min, max }, outputs: { output } }) => ({
    output,
    value: limited(operand(input), min && operand(min), max && operand(max)),
  })),
  wasmKernel([Clip], {
    accepts: ({ inputs: { input, min, max }, outputs: { output } }) => plainOnly([input, min, max, output]),
    record({ inputs: { input, min, max }, outputs: { output } }, recorder) {
      const kind = kindOf(output.type);
      const raised = min === undefined ? [input] : [input, min];
      recordElements(recorder, { operation: min === undefined ? "copy" : "maximum", kind, inputs: raised, output });
      if (max === undefined) return;
      recordElements(recorder, { operation: "minimum", kind, inputs: [output, max], output });
    },
  }),
];
