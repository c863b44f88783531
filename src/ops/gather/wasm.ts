/** Gather on WASM: whole rows of bytes, of any type. Indices are looked at before each run. */
import { tableLayout } from "../../kernels/jobs.js";
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { byteLengthOf, traitsOf } from "../../tensor/element-type.js";
import { liesWithin } from "../wasm-indices.js";
import { productOf } from "../wasm-layout.js";
import { codeOf, isFloatType, partsFor } from "../wasm-work.js";

/** Slices before the axis, each a table of its own, are jobs. */
const mostTables = 64;

/** The axis, the tables before it, and the elements of a row behind it. */
function tablesOf({ inputs: [data], attrs }: KernelCall): { axis: number; tables: number; width: number } {
  const { shape } = data!;
  const given = attrs["axis"] as number;
  const axis = given < 0 ? given + shape.length : given;
  return { axis, tables: productOf(shape.slice(0, axis)), width: productOf(shape.slice(axis + 1)) };
}

/** Picks whole slices of `data` along `axis`. */
export const gather: WasmKernel = {
  op: "Gather",
  accepts(call) {
    const [data, indices] = call.inputs;
    const { tables, width } = tablesOf(call);
    const { type } = data!;
    if (type === "string") return "strings live outside the memory";
    if (!data!.contiguous || !indices!.contiguous || !call.outputs[0]!.contiguous) return "data or indices have gaps";
    if (tables > mostTables) return "the axis is too far in";
    if (!isFloatType(type) && (width * traitsOf(type).bits) % 32 !== 0) return `rows of ${type} are not whole words`;
    return true;
  },
  record(call, recorder) {
    const [data, indices] = [call.inputs[0]!, call.inputs[1]!];
    const output = call.outputs[0]!;
    const { axis, tables, width } = tablesOf(call);
    const entries = data.shape[axis];
    const count = indices.view.size;
    recorder.when(liesWithin(indices, -entries, entries - 1));
    if (output.view.size === 0) return;
    // Rows are moved as they are: what is no float goes as words.
    const bytes = byteLengthOf(data.type, width);
    const type = isFloatType(data.type) ? codeOf(data.type) : codeOf("float32");
    for (let table = 0; table < tables; table++) {
      recorder.run(
        "gatherRows",
        {
          table: recorder.address(data) + table * entries * bytes,
          indices: recorder.address(indices),
          output: recorder.address(output) + table * count * bytes,
          layout: tableLayout.rows,
          type,
          outputType: type,
          indexBytes: byteLengthOf(indices.type, 1),
          entries,
          width: isFloatType(data.type) ? width : bytes / 4,
          count,
          outputRow: isFloatType(data.type) ? width : bytes / 4,
          scales: 0,
          zeros: 0,
          blockSize: 0,
          bits: 0,
        },
        partsFor(recorder, count * (20 + bytes * 0.1)),
      );
    }
  },
};
