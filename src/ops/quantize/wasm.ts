/** Quantization on WASM: float32 to bytes by one scale, and whole bytes back to floats by one scale or many. */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { rowMajorStrides } from "../../tensor/view.js";
import { type ElementsPlace, isPlainType, kindOf, type PlainType, runElements } from "../shared/wasm/elements.js";
import { fromFront, productOf } from "../shared/rules/layout.js";
import { isFloatType, partsFor } from "../shared/wasm/work.js";
import {
  DequantizeLinear,
  DequantizeLinear10,
  DequantizeLinear13,
  DequantizeLinear19,
  DequantizeLinear21,
  DynamicQuantizeLinear,
  QuantizeLinear,
  QuantizeLinear10,
  QuantizeLinear13,
  QuantizeLinear19,
  QuantizeLinear21,
} from "./op.js";

/** Queues the levels of elements that lie together. */
function recordLevels(recorder: Recorder, x: Operand, y: Operand, scale: number, zero: number): void {
  if (y.view.size === 0) return;
  recorder.run(
    "writeLevels",
    {
      source: recorder.address(x),
      output: recorder.address(y),
      scale,
      zero,
      isSigned: y.type === "int8" ? 1 : 0,
      count: y.view.size,
    },
    partsFor(recorder, y.view.size * 0.5),
  );
}

/** Quantizes to uint8 by the range of the data themselves. */
export const dynamicQuantizeLinear: WasmKernel = wasmKernel([DynamicQuantizeLinear], {
  accepts: ({ inputs: { x }, outputs }) =>
    x.contiguous && Object.values(outputs).every((output) => output?.contiguous !== false)
      ? true
      : "the data have gaps",
  record({ inputs: { x }, outputs: { y, y_scale, y_zero_point } }, recorder) {
    const place = (output: Operand | undefined): number =>
      output === undefined ? recorder.temporary(4) : recorder.address(output);
    const levels = { scale: place(y_scale), zero: place(y_zero_point) };
    recorder.run("findLevels", { source: recorder.address(x), count: x.view.size, ...levels }, 1);
    if (y !== undefined) recordLevels(recorder, x, y, levels.scale, levels.zero);
  },
});

/** x / scale + zero point, rounded and held within a byte. */
export const quantizeLinear: WasmKernel = wasmKernel(
  [QuantizeLinear10, QuantizeLinear13, QuantizeLinear19, QuantizeLinear21, QuantizeLinear],
  {
    accepts({ inputs: { x, y_scale: scale }, outputs: { y }, attrs }) {
      if (x.type !== "float32" || scale.type !== "float32") return `there is no kernel for ${x.type} by ${scale.type}`;
      if (y.type !== "uint8" && y.type !== "int8") return `there is no kernel for ${y.type}`;
      if (scale.view.size !== 1) return "there is no kernel for several scales";
      const precision = "precision" in attrs ? attrs.precision : 0;
      if (precision !== 0 && precision !== 1) return "the division has a precision of its own";
      return x.contiguous && y.contiguous ? true : "the data have gaps";
    },
    record({ inputs: { x, y_scale: scale, y_zero_point: zero }, outputs: { y } }, recorder) {
      recordLevels(recorder, x, y, recorder.address(scale), zero === undefined ? 0 : recorder.address(zero));
    },
  },
);

const dequantizing = [
  DequantizeLinear10,
  DequantizeLinear13,
  DequantizeLinear19,
  DequantizeLinear21,
  DequantizeLinear,
] as const;

/** The data with the axis cut into blocks where there are some, and the strides of their scales. */
function scaling({
  inputs: { x, x_scale: scale },
  attrs,
}: CallOf<(typeof dequantizing)[number]>): { shape: number[]; strides: number[] } | string {
  const { shape } = x;
  if (scale.view.size === 1) return { shape: [...shape], strides: shape.map(() => 0) };
  const given = "axis" in attrs ? attrs.axis : 1;
  const axis = shape.length === 1 ? 0 : fromFront(given, shape);
  const block = "block_size" in attrs ? attrs.block_size : 0;
  if (block === 0) return { shape: [...shape], strides: shape.map((_, at) => (at === axis ? 1 : 0)) };
  if (shape[axis] % block !== 0) return "the last block is not whole";
  const strides = rowMajorStrides(scale.shape);
  return {
    shape: shape.flatMap((dim, at) => (at === axis ? [dim / block, block] : [dim])),
    strides: strides.flatMap((stride, at) => (at === axis ? [stride, 0] : [stride])),
  };
}

/** (x − zero point) · scale. */
export const dequantizeLinear: WasmKernel = wasmKernel(dequantizing, {
  accepts(call) {
    const { x, x_scale: scale, x_zero_point: zero } = call.inputs;
    if (!isPlainType(x.type)) return `there is no kernel for ${x.type}`;
    if (!isFloatType(scale.type)) return `there is no kernel for scales of ${scale.type}`;
    if (![x, scale, zero, call.outputs.y].every((operand) => operand?.contiguous !== false))
      return "the data have gaps";
    const layout = scaling(call);
    return typeof layout === "string" ? layout : true;
  },
  record(call, recorder) {
    const { x, x_scale: scale, x_zero_point: zero } = call.inputs;
    const { y } = call.outputs;
    const layout = scaling(call);
    if (typeof layout === "string" || y.view.size === 0) return;
    const { shape, strides } = layout;
    const dense = rowMajorStrides(shape);
    const place = (operand: Operand, steps: readonly number[]): ElementsPlace => ({
      address: recorder.address(operand),
      type: operand.type as PlainType,
      strides: steps,
    });
    // As numbers first, without their zero point.
    const numbers: ElementsPlace = {
      address: recorder.temporary(8 * productOf(shape)),
      type: "float64",
      strides: dense,
    };
    runElements(recorder, {
      operation: zero === undefined ? "copy" : "subtract",
      kind: kindOf(x.type),
      shape,
      output: numbers,
      inputs: [place(x, dense), ...(zero === undefined ? [] : [place(zero, strides)])],
    });
    runElements(recorder, {
      operation: "multiply",
      kind: "double",
      shape,
      output: place(y, dense),
      inputs: [numbers, place(scale, strides)],
    });
  },
});
