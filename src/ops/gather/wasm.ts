/** The gathering operators on WASM. Indices are looked at before each run. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import {
  pickable,
  type Picking,
  recordAlong,
  recordRuns,
  runElementsOf,
  type Runs,
  testAlong,
  testRuns,
} from "../wasm-pick.js";

const pickingOf = ({ inputs: [data, indices], outputs: [output] }: KernelCall): Picking => ({
  data: data!,
  indices: indices!,
  other: output!,
  scatters: false,
});

const axisOf = ({ inputs: [data], attrs }: KernelCall): number => {
  const given = attrs["axis"] as number;
  return given < 0 ? given + data!.shape.length : given;
};

const gatheringRuns = (op: string, runsOf: (call: KernelCall) => Runs): WasmKernel => ({
  op,
  accepts: (call) => pickable(pickingOf(call), runElementsOf(call.inputs[0]!, runsOf(call))),
  record(call, recorder) {
    const [picking, runs] = [pickingOf(call), runsOf(call)];
    testRuns(recorder, picking, runs);
    recordRuns(recorder, picking, runs);
  },
});

/** Picks whole slices of `data` along `axis`. */
export const gather: WasmKernel = gatheringRuns("Gather", (call) => ({ batch: axisOf(call), depth: 1, own: false }));

/** Picks the element or slice that each row of `indices` points at. */
export const gatherND: WasmKernel = gatheringRuns("GatherND", ({ inputs: [, indices], attrs }) => ({
  batch: attrs["batch_dims"] as number,
  depth: indices!.shape.at(-1)!,
  own: true,
}));

/** Picks one element for each index, which replaces the coordinate along `axis`. */
export const gatherElements: WasmKernel = {
  op: "GatherElements",
  accepts: (call) => pickable(pickingOf(call), 1),
  record(call, recorder) {
    testAlong(recorder, pickingOf(call), axisOf(call));
    recordAlong(recorder, pickingOf(call), axisOf(call));
  },
};
