/** The scattering operators on WASM, where updates replace what is there. Indices are looked at before each run; duplicates come in order. */
import type { CallOf } from "../../graph/kernel.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { fromFront } from "../shared/rules/layout.js";
import { movable, type Move, recordMoves, whole } from "../shared/wasm/move.js";
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
import {
  ScatterElements11,
  ScatterElements16,
  ScatterElements18,
  ScatterND11,
  ScatterND16,
  ScatterND18,
} from "./op.js";

const byTuple = [ScatterND11, ScatterND16, ScatterND18] as const;
const alongAxis = [ScatterElements11, ScatterElements16, ScatterElements18] as const;

type Call = CallOf<(typeof byTuple | typeof alongAxis)[number]>;

const pickingOf = ({ inputs: { indices, updates }, outputs: { output } }: Call): Picking => ({
  data: output,
  indices,
  other: updates,
  scatters: true,
});

/** The data's way into the output, where it is not there already. */
const moveOf = ({ inputs: { data }, outputs: { output } }: Call): readonly Move[] => [
  { from: whole(data), to: whole(output) },
];

function accepts(call: Call, elements: number): true | string {
  const { reduction = "none" } = call.attrs;
  if (reduction !== "none") return `there is no kernel for the reduction ${reduction}`;
  const moves = movable(moveOf(call));
  return moves === true ? pickable(pickingOf(call), elements) : moves;
}

const runsOf = ({ inputs: { indices } }: Call): Runs => ({ batch: 0, depth: indices.shape.at(-1)!, own: true });

/** Writes each run of updates where its row of indices points. */
export const scatterND: WasmKernel = wasmKernel(byTuple, {
  accepts: (call) => accepts(call, runElementsOf(call.outputs.output, runsOf(call))),
  record(call, recorder) {
    testRuns(recorder, pickingOf(call), runsOf(call));
    recordMoves(recorder, moveOf(call));
    recordRuns(recorder, pickingOf(call), runsOf(call));
  },
});

/** Writes each update to the element at its own coordinates, with the index along `axis`. */
export const scatterElements: WasmKernel = wasmKernel(alongAxis, {
  accepts: (call) => accepts(call, 1),
  record(call, recorder) {
    const axis = fromFront(call.attrs.axis, call.outputs.output.shape);
    testAlong(recorder, pickingOf(call), axis);
    recordMoves(recorder, moveOf(call));
    recordAlong(recorder, pickingOf(call), axis);
  },
});
