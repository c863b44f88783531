/** Reductions on WASM, along axes that are known beforehand: floats in float64, the others in 64-bit integers. */
import { elementCode, foldOperation, registerKind } from "../../wasm-kernels/jobs.js";
import type { Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { kindOf, plainOnly, type PlainType } from "../shared/wasm/elements.js";
import { joinDimensions, type Layout, productOf } from "../shared/rules/layout.js";
import { partsFor } from "../shared/wasm/work.js";
import { axesOf, reductions, type Versions } from "./axes.js";

type Fold = keyof typeof foldOperation;

const reducing = (versions: Versions, operation: Fold): WasmKernel =>
  wasmKernel(versions, {
    accepts(call) {
      const { data } = call.inputs;
      if (axesOf(call) === undefined) return "the axes are data";
      if (data.view.size === 0) return "there is nothing to reduce";
      if (!call.outputs.reduced.contiguous) return "the output has gaps";
      const kind = kindOf(data.type);
      if (operation === "norm" && kind !== "double") return `there is no kernel for a norm of ${data.type}`;
      if (operation === "mean" && (data.type === "int64" || data.type === "uint64"))
        return `the sum behind a mean of ${data.type} may need more than 64 bits`;
      return plainOnly([data]);
    },
    record(call, recorder) {
      recordReduction(recorder, call.inputs.data, call.outputs.reduced, axesOf(call)!, operation);
    },
  });

/** Queues a reduction of `data` along axes into `output`, which lies together. */
function recordReduction(
  recorder: Recorder,
  data: Operand,
  output: Operand,
  axes: readonly number[],
  operation: Fold,
): void {
  const width = byteLengthOf(data.type, 1);
  const part = (isReduced: boolean): Layout => {
    const own = data.shape.flatMap((_, axis) => (axes.includes(axis) === isReduced ? [axis] : []));
    return joinDimensions(
      own.map((axis) => data.shape[axis]),
      [own.map((axis) => data.strides[axis])],
    );
  };
  const [kept, reduced] = [part(false), part(true)];
  // The output lists the dimensions that are kept in the same order.
  let size = 1;
  const outputStrides = kept.shape.map(() => 0);
  for (let axis = kept.shape.length - 1; axis >= 0; axis--) {
    outputStrides[axis] = size * width;
    size *= kept.shape[axis];
  }
  const bytes = (strides: readonly number[]): number[] => strides.map((stride) => stride * width);
  const words = (values: readonly number[]): number => recorder.words(values.map((word) => ({ word })));
  recorder.run(
    "reduce",
    {
      operation: foldOperation[operation],
      kind: registerKind[kindOf(data.type)],
      source: recorder.address(data),
      output: recorder.address(output),
      type: elementCode[data.type as PlainType],
      count: productOf(kept.shape),
      keptRank: kept.shape.length,
      kept: words([...kept.shape, ...outputStrides, ...bytes(kept.strides[0])]),
      outerRank: Math.max(0, reduced.shape.length - 1),
      outer: words([...reduced.shape.slice(0, -1), ...bytes(reduced.strides[0].slice(0, -1))]),
      rows: productOf(reduced.shape.slice(0, -1)),
      length: reduced.shape.at(-1) ?? 1,
      step: (reduced.strides[0].at(-1) ?? 0) * width,
    },
    partsFor(recorder, data.view.size * 2 + productOf(kept.shape) * 20),
  );
}

/** The sum of elements. */
export const reduceSum: WasmKernel = reducing(reductions.Sum, "sum");

/** The mean of elements. */
export const reduceMean: WasmKernel = reducing(reductions.Mean, "mean");

/** The product of elements. */
export const reduceProd: WasmKernel = reducing(reductions.Prod, "product");

/** The greatest element. */
export const reduceMax: WasmKernel = reducing(reductions.Max, "maximum");

/** The least element. */
export const reduceMin: WasmKernel = reducing(reductions.Min, "minimum");

/** The sum of absolute values. */
export const reduceL1: WasmKernel = reducing(reductions.L1, "absoluteSum");

/** The sum of squares. */
export const reduceSumSquare: WasmKernel = reducing(reductions.SumSquare, "squareSum");

/** The root of the sum of squares. */
export const reduceL2: WasmKernel = reducing(reductions.L2, "norm");
