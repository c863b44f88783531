/** Trilu on WASM. */
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf, traitsOf } from "../../tensor/element-type.js";
import { partsFor } from "../shared/wasm/work.js";
import { Trilu } from "./op.js";

/** Keeps what lies on and above (or below) a diagonal. */
export const trilu: WasmKernel = wasmKernel([Trilu], {
  accepts({ inputs: { input, k }, outputs: { output } }) {
    if (input.type === "string") return "strings live outside the memory";
    if (traitsOf(input.type).bits % 8 !== 0) return `elements of ${input.type} are not whole bytes`;
    return input.contiguous && output.contiguous && k?.contiguous !== false ? true : "the matrices have gaps";
  },
  record({ inputs: { input, k }, outputs: { output }, attrs: { upper } }, recorder) {
    const [rows, columns] = output.shape.slice(-2);
    if (output.view.size === 0) return;
    recorder.run(
      "triangle",
      {
        source: recorder.address(input),
        target: recorder.address(output),
        diagonal: k === undefined ? 0 : recorder.address(k),
        width: byteLengthOf(output.type, 1),
        lines: output.view.size / columns,
        rows,
        columns,
        upper: upper ? 1 : 0,
      },
      partsFor(recorder, output.view.size * 0.2),
    );
  },
});
