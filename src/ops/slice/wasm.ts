/** Slice on WASM, where the bounds are known beforehand. */
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { whole } from "../shared/wasm/move.js";
import { mover } from "../shared/wasm/mover.js";
import { Slice1, Slice10 } from "./op.js";
import { knownRanges, sliceView } from "./range.js";

/** Every `steps`-th element between `starts` and `ends`. */
export const slice: WasmKernel = mover([Slice1, Slice10], (call) => {
  const ranges = knownRanges(call);
  if (typeof ranges === "string") return ranges;
  const { data } = call.inputs;
  return [{ from: { operand: data, view: sliceView(data.view, ranges) }, to: whole(call.outputs.output) }];
});
