/** Quantization on WASM: float32 to bytes by one scale, and whole bytes back to floats by one scale or many. */
import type { KernelCall, Operand, Recorder, WasmKernel } from "../../kernels/wasm-kernel.js";
import { rowMajorStrides } from "../../tensor/view.js";
import { type ElementsPlace, isPlainType, kindOf, type PlainType, runElements } from "../wasm-elements.js";
import { productOf } from "../wasm-layout.js";
import { isFloatType, partsFor } from "../wasm-work.js";

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
export const dynamicQuantizeLinear: WasmKernel = {
  op: "DynamicQuantizeLinear",
  accepts: ({ inputs: [x], outputs }) =>
    x!.contiguous && outputs.every((output) => output?.contiguous !== false) ? true : "the data have gaps",
  record({ inputs: [x], outputs: [y, scale, zero] }, recorder) {
    const place = (output: Operand | undefined): number =>
      output === undefined ? recorder.temporary(4) : recorder.address(output);
    const levels = { scale: place(scale), zero: place(zero) };
    recorder.run("findLevels", { source: recorder.address(x!), count: x!.view.size, ...levels }, 1);
    if (y !== undefined) recordLevels(recorder, x!, y, levels.scale, levels.zero);
  },
};

/** x / scale + zero point, rounded and held within a byte. */
export const quantizeLinear: WasmKernel = {
  op: "QuantizeLinear",
  accepts({ inputs: [x, scale], outputs: [y], attrs }) {
    if (x!.type !== "float32" || scale!.type !== "float32")
      return `there is no kernel for ${x!.type} by ${scale!.type}`;
    if (y!.type !== "uint8" && y!.type !== "int8") return `there is no kernel for ${y!.type}`;
    if (scale!.view.size !== 1) return "there is no kernel for several scales";
    if ((attrs["precision"] ?? 0) !== 0 && attrs["precision"] !== 1) return "the division has a precision of its own";
    return x!.contiguous && y!.contiguous ? true : "the data have gaps";
  },
  record({ inputs: [x, scale, zero], outputs: [y] }, recorder) {
    recordLevels(recorder, x!, y!, recorder.address(scale!), zero === undefined ? 0 : recorder.address(zero));
  },
};

/** The data with the axis cut into blocks where there are some, and the strides of their scales. */
function scaling({ inputs: [x, scale], attrs }: KernelCall): { shape: number[]; strides: number[] } | string {
  const { shape } = x!;
  if (scale!.view.size === 1) return { shape: [...shape], strides: shape.map(() => 0) };
  const given = (attrs["axis"] as number | undefined) ?? 1;
  const axis = shape.length === 1 ? 0 : given < 0 ? given + shape.length : given;
  const block = (attrs["block_size"] as number | undefined) ?? 0;
  if (block === 0) return { shape: [...shape], strides: shape.map((_, at) => (at === axis ? 1 : 0)) };
  if (shape[axis] % block !== 0) return "the last block is not whole";
  const strides = rowMajorStrides(scale!.shape);
  return {
    shape: shape.flatMap((dim, at) => (at === axis ? [dim / block, block] : [dim])),
    strides: strides.flatMap((stride, at) => (at === axis ? [stride, 0] : [stride])),
  };
}

/** (x − zero point) · scale. */
export const dequantizeLinear: WasmKernel = {
  op: "DequantizeLinear",
  accepts(call) {
    const [x, scale, zero] = call.inputs;
    const [y] = call.outputs;
    if (!isPlainType(x!.type)) return `there is no kernel for ${x!.type}`;
    if (!isFloatType(scale!.type)) return `there is no kernel for scales of ${scale!.type}`;
    if (![x, scale, zero, y].every((operand) => operand?.contiguous !== false)) return "the data have gaps";
    const layout = scaling(call);
    return typeof layout === "string" ? layout : true;
  },
  record(call, recorder) {
    const [x, scale, zero] = call.inputs;
    const [y] = call.outputs;
    const layout = scaling(call);
    if (typeof layout === "string" || y!.view.size === 0) return;
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
      kind: kindOf(x!.type),
      shape,
      output: numbers,
      inputs: [place(x!, dense), ...(zero === undefined ? [] : [place(zero, strides)])],
    });
    runElements(recorder, {
      operation: "multiply",
      kind: "double",
      shape,
      output: place(y!, dense),
      inputs: [numbers, place(scale!, strides)],
    });
  },
};
