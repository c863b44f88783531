/** TensorScatter on WASM: whole rows moved by bulk copies, every type whose rows are whole bytes. */
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { byteLengthOf, traitsOf } from "../../tensor/element-type.js";

const product = (dims: readonly number[]): number => dims.reduce((total, dim) => total * dim, 1);

/** Copies rows into the cache in place. */
export const scatterRows: WasmKernel = {
  op: "TensorScatter",
  accepts({ inputs: [past, rows], outputs: [present], attrs }) {
    const { type, shape } = past!;
    const axis = (attrs["axis"] as number) < 0 ? (attrs["axis"] as number) + shape.length : (attrs["axis"] as number);
    if (type === "string") return "strings live outside the memory";
    if (past!.view.data !== present!.view.data || past!.view.offset !== present!.view.offset)
      return "the cache is not updated in place";
    if (!past!.contiguous || !rows!.contiguous) return "a cache or its rows have gaps";
    if (traitsOf(type).bits < 8 && (product(shape.slice(axis + 1)) * traitsOf(type).bits) % 8 !== 0)
      return "a row is not whole bytes";
    return true;
  },
  record({ inputs: [past, rows, indices], attrs }, recorder) {
    const { type, shape } = past!;
    const axis = (attrs["axis"] as number) < 0 ? (attrs["axis"] as number) + shape.length : (attrs["axis"] as number);
    const rowBytes = byteLengthOf(type, product(shape.slice(axis + 1)));
    const outer = product(shape.slice(1, axis));
    const [length, capacity] = [rows!.shape[axis], shape[axis]];
    if (length === 0 || rowBytes === 0) return;
    recorder.run(
      "scatterRows",
      {
        source: recorder.address(rows!),
        target: recorder.address(past!),
        indices: indices === undefined ? 0 : recorder.address(indices),
        batch: shape[0],
        outer,
        length,
        capacity,
        rowBytes,
        sourceSample: outer * length * rowBytes,
        sourceOuter: length * rowBytes,
        sourceRow: rowBytes,
        targetSample: outer * capacity * rowBytes,
        targetOuter: capacity * rowBytes,
        targetRow: rowBytes,
      },
      shape[0] * outer * length * rowBytes > 1 << 18 ? recorder.threads : 1,
    );
  },
};
