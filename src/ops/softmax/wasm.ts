/** Softmax on WASM, where rows lie together: along the last axis, or over all axes from one on before opset 13. */
import type { CallOf } from "../../graph/kernel.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { type Rows } from "../shared/wasm/layout.js";
import { fromFront, productOf } from "../shared/rules/layout.js";
import { rowLayout } from "../shared/wasm/normalize.js";
import { codeOf, oneFloatType, partsFor } from "../shared/wasm/work.js";
import { Softmax1, Softmax13 } from "./op.js";

/** Longer rows of 16-bit floats do not fit into the kernel's scratch. */
const longestRow = 1 << 16;

const versions = [Softmax1, Softmax13] as const;

function rowsOfCall({
  inputs,
  outputs,
  attrs,
  opset,
}: CallOf<(typeof versions)[number]>): (Rows & { size: number }) | string {
  const { shape, strides } = inputs.input;
  const axis = fromFront(attrs.axis, shape);
  if (opset >= 13 && productOf(shape.slice(axis + 1)) !== 1) return "the axis is not the last";
  const layout = rowLayout(shape, [strides, outputs.output.strides], axis);
  return typeof layout === "string" ? layout : { ...layout, size: productOf(shape.slice(axis)) };
}

/** exp(x) / Σ exp(x). */
export const softmax: WasmKernel = wasmKernel(versions, {
  accepts(call) {
    const { input } = call.inputs;
    const types = oneFloatType([input]);
    if (types !== true) return types;
    const rows = rowsOfCall(call);
    if (typeof rows === "string") return rows;
    return input.type === "float32" || rows.size <= longestRow ? true : `rows of ${rows.size} are too long`;
  },
  record(call, recorder) {
    const { input } = call.inputs;
    const { output } = call.outputs;
    const layout = rowsOfCall(call);
    if (typeof layout === "string" || input.view.size === 0) return;
    const { rows, size, rowStrides } = layout;
    for (const [source, target] of layout.starts) {
      recorder.run(
        "softmaxRows",
        {
          source: recorder.address(input) + byteLengthOf(input.type, source),
          output: recorder.address(output) + byteLengthOf(output.type, target),
          type: codeOf(input.type),
          rows,
          size,
          sourceRow: rowStrides[0],
          outputRow: rowStrides[1],
        },
        partsFor(recorder, rows * (20 + size * 2)),
      );
    }
  },
});
