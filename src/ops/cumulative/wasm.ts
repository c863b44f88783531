/** CumSum and CumProd on WASM, along an axis that is known beforehand. */
import { elementCode, foldOperation, registerKind } from "../../wasm-kernels/jobs.js";
import type { Operand } from "../../graph/kernel.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { readIntegers } from "../../tensor/access.js";
import { byteLengthOf } from "../../tensor/element-type.js";
import { kindOf, plainOnly, type PlainType } from "../shared/wasm/elements.js";
import { fromFront, productOf } from "../shared/rules/layout.js";
import { partsFor } from "../shared/wasm/work.js";
import { CumProd, CumSum } from "./op.js";

const cumulative = (op: typeof CumSum, operation: "sum" | "product"): WasmKernel =>
  wasmKernel([op], {
    accepts({ inputs: { x, axis }, outputs: { y } }) {
      if (!axis.known) return "the axis is data";
      return plainOnly([x, y]);
    },
    record({ inputs: { x, axis: where }, outputs: { y }, attrs: { reverse, exclusive } }, recorder) {
      if (x.view.size === 0) return;
      const axis = fromFront(readIntegers(where.view)[0], x.shape);
      const length = x.shape[axis];
      const width = byteLengthOf(x.type, 1);
      const others = x.shape.flatMap((_, at) => (at === axis ? [] : [at]));
      const lines = others.map((at) => x.shape[at]);
      const layout = [...lines, ...[y, x].flatMap(({ strides }) => others.map((at) => strides[at] * width))];
      // A line that is folded from its end begins there and walks backwards.
      const firstOf = (operand: Operand): number =>
        recorder.address(operand) + (reverse ? (length - 1) * operand.strides[axis] * width : 0);
      const stepOf = ({ strides }: Operand): number => strides[axis] * width * (reverse ? -1 : 1);
      recorder.run(
        "scan",
        {
          operation: foldOperation[operation],
          kind: registerKind[kindOf(x.type)],
          source: firstOf(x),
          output: firstOf(y),
          type: elementCode[x.type as PlainType],
          lines: productOf(lines),
          rank: lines.length,
          layout: recorder.words(layout.map((word) => ({ word }))),
          length,
          sourceStep: stepOf(x),
          outputStep: stepOf(y),
          exclusive: exclusive ? 1 : 0,
        },
        partsFor(recorder, x.view.size * 3),
      );
    },
  });

/** Running sums along `axis`. */
export const cumSum: WasmKernel = cumulative(CumSum, "sum");

/** Running products along `axis`. */
export const cumProd: WasmKernel = cumulative(CumProd, "product");
