/** The gathering operators on WASM. Indices are looked at before each run. */
import { wasmFamily, type WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import {
  pickable,
  type Picking,
  recordAlong,
  recordRuns,
  runElementsOf,
  type Runs,
  testAlong,
  testRuns,
} from "../shared/wasm/pick.js";
import { Gather, GatherElements, GatherND } from "./op.js";

const gatheringRuns = wasmFamily<{ readonly picking: Picking; readonly runs: Runs }>({
  accepts: ({ picking, runs }) => pickable(picking, runElementsOf(picking.data, runs)),
  record({ picking, runs }, recorder) {
    testRuns(recorder, picking, runs);
    recordRuns(recorder, picking, runs);
  },
});

const gatheringElements = wasmFamily<{ readonly picking: Picking; readonly axis: number }>({
  accepts: ({ picking }) => pickable(picking, 1),
  record({ picking, axis }, recorder) {
    testAlong(recorder, picking, axis);
    recordAlong(recorder, picking, axis);
  },
});

/** Picks whole slices of `data` along `axis`. */
export const gather: WasmKernel = gatheringRuns(
  [Gather],
  ({ inputs: { data, indices }, outputs: { output }, attrs: { axis } }) => ({
    picking: { data, indices, other: output, scatters: false },
    runs: { batch: fromFront(axis, data.shape), depth: 1, own: false },
  }),
);

/** Picks the element or slice that each row of `indices` points at. */
export const gatherND: WasmKernel = gatheringRuns(
  [GatherND],
  ({ inputs: { data, indices }, outputs: { output }, attrs }) => ({
    picking: { data, indices, other: output, scatters: false },
    runs: { batch: attrs.batch_dims, depth: indices.shape.at(-1)!, own: true },
  }),
);

/** Picks one element for each index, which replaces the coordinate along `axis`. */
export const gatherElements: WasmKernel = gatheringElements(
  [GatherElements],
  ({ inputs: { data, indices }, outputs: { output }, attrs: { axis } }) => ({
    picking: { data, indices, other: output, scatters: false },
    axis: fromFront(axis, data.shape),
  }),
);
