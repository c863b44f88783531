/** TensorScatter on WASM: whole rows moved by bulk copies, every type whose rows are whole bytes. */
import { isInPlace } from "../../graph/kernel.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf, traitsOf } from "../../tensor/element-type.js";
import { fromFront, productOf } from "../shared/rules/layout.js";
import { TensorScatter } from "./op.js";

/** Copies rows into the cache in place. */
export const scatterRows: WasmKernel = wasmKernel([TensorScatter], {
  accepts({ inputs: { past_cache: past, update }, outputs: { present_cache: present }, attrs }) {
    const { type, shape } = past;
    const axis = fromFront(attrs.axis, shape);
    if (type === "string") return "strings live outside the memory";
    if (!isInPlace(past, present)) return "the cache is not updated in place";
    if (!past.contiguous || !update.contiguous) return "a cache or its rows have gaps";
    if (traitsOf(type).bits < 8 && (productOf(shape.slice(axis + 1)) * traitsOf(type).bits) % 8 !== 0)
      return "a row is not whole bytes";
    return true;
  },
  record({ inputs: { past_cache: past, update, write_indices: indices }, attrs }, recorder) {
    const { type, shape } = past;
    const axis = fromFront(attrs.axis, shape);
    const rowBytes = byteLengthOf(type, productOf(shape.slice(axis + 1)));
    const outer = productOf(shape.slice(1, axis));
    const [length, capacity] = [update.shape[axis], shape[axis]];
    if (length === 0 || rowBytes === 0) return;
    recorder.run(
      "scatterRows",
      {
        source: recorder.address(update),
        target: recorder.address(past),
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
});
