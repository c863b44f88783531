/** GatherBlockQuantized on WASM: rows of a table of unsigned values in whole blocks. Indices are looked at before each run. */
import { tableLayout } from "../../wasm-kernels/jobs.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { liesWithin } from "../shared/wasm/indices.js";
import { codeOf, partsFor } from "../shared/wasm/work.js";
import { GatherBlockQuantized } from "./op.js";

/** dequantized(data) gathered along the first axis, with blocks along the second. */
export const gatherBlockQuantized: WasmKernel = wasmKernel([GatherBlockQuantized], {
  accepts({ inputs, outputs: { output }, attrs }) {
    const { data, zero_points: zeros } = inputs;
    const { block_size: blockSize, gather_axis: gather } = attrs;
    if (data.shape.length !== 2 || (gather !== 0 && gather !== -2)) return "rows are not those of a matrix";
    if (![1, -1].includes(attrs.quantize_axis)) return "blocks are not along rows";
    if (data.type === "int4") return "there is no kernel for int4";
    if (Object.values(inputs).some((input) => input?.contiguous === false)) return "an operand has gaps";
    const width = output.shape.at(-1)!;
    if (width % blockSize !== 0) return "the last block of a row is not whole";
    // Without zero points uint4 has none, where bytes have the middle; with them, they are packed without regard to rows.
    if (data.type === "uint4" && zeros === undefined) return "there is no kernel for uint4 without zero points";
    if (data.type === "uint4" && (width / blockSize) % 2 !== 0) return "zero points of a row are not whole bytes";
    return true;
  },
  record({ inputs: { data, indices, scales, zero_points: zeros }, outputs: { output }, attrs }, recorder) {
    const entries = data.shape[0];
    const count = indices.view.size;
    recorder.when(liesWithin(indices, -entries, entries - 1));
    if (output.view.size === 0) return;
    const width = output.shape.at(-1)!;
    recorder.run(
      "gatherRows",
      {
        table: recorder.address(data),
        indices: recorder.address(indices),
        output: recorder.address(output),
        layout: tableLayout.blocks,
        type: codeOf(scales.type),
        outputType: codeOf(output.type),
        indexBytes: byteLengthOf(indices.type, 1),
        entries,
        width,
        count,
        outputRow: width,
        scales: recorder.address(scales),
        zeros: zeros === undefined ? 0 : recorder.address(zeros),
        blockSize: attrs.block_size,
        bits: data.type === "uint4" ? 4 : attrs.bits,
      },
      partsFor(recorder, count * width),
    );
  },
});
