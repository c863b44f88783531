/** The scattering operators on WASM, where updates replace what is there. Indices are looked at before each run; duplicates come in order. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { movable, type Move, recordMoves, whole } from "../wasm-move.js";
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

const pickingOf = ({ inputs: [, indices, updates], outputs: [output] }: KernelCall): Picking => ({
  data: output!,
  indices: indices!,
  other: updates!,
  scatters: true,
});

/** The data's way into the output, where it is not there already. */
const moveOf = ({ inputs: [data], outputs: [output] }: KernelCall): readonly Move[] => [
  { from: whole(data!), to: whole(output!) },
];

function accepts(call: KernelCall, elements: number): true | string {
  const reduction = call.attrs["reduction"] as string | undefined;
  if (reduction !== undefined && reduction !== "none") return `there is no kernel for the reduction ${reduction}`;
  const moves = movable(moveOf(call));
  return moves === true ? pickable(pickingOf(call), elements) : moves;
}

const runsOf = ({ inputs: [, indices] }: KernelCall): Runs => ({ batch: 0, depth: indices!.shape.at(-1)!, own: true });

/** Writes each run of updates where its row of indices points. */
export const scatterND: WasmKernel = {
  op: "ScatterND",
  accepts: (call) => accepts(call, runElementsOf(call.outputs[0]!, runsOf(call))),
  record(call, recorder) {
    testRuns(recorder, pickingOf(call), runsOf(call));
    recordMoves(recorder, moveOf(call));
    recordRuns(recorder, pickingOf(call), runsOf(call));
  },
};

/** Writes each update to the element at its own coordinates, with the index along `axis`. */
export const scatterElements: WasmKernel = {
  op: "ScatterElements",
  accepts: (call) => accepts(call, 1),
  record(call, recorder) {
    const given = call.attrs["axis"] as number;
    const axis = given < 0 ? given + call.outputs[0]!.shape.length : given;
    testAlong(recorder, pickingOf(call), axis);
    recordMoves(recorder, moveOf(call));
    recordAlong(recorder, pickingOf(call), axis);
  },
};
