/** Rotary embedding as a job: what the fast paths of ONNX's operator and of onnxruntime's share. */
import type { Operand } from "../../../graph/kernel.js";
import { type Recorder, wasmFamily } from "../../../wasm-kernels/wasm-kernel.js";
import { headsView } from "../../attention/heads.js";
import { type Heads, headsOf } from "./attention.js";
import { liesWithin } from "./indices.js";
import { codeOf, oneFloatType, partsFor } from "./work.js";

/** One rotation. */
interface Rotation {
  readonly source: Operand;
  readonly output: Operand;
  readonly cos: Operand;
  readonly sin: Operand;
  /** [batch, length], one offset for all, or left out where the angles are given for every token. */
  readonly positions: Operand | undefined;
  readonly heads: number;
  readonly interleaved: boolean;
}

/** Fast paths of operators that turn pairs of values. */
export const rotation = wasmFamily<Rotation>({
  accepts: rotatable,
  record: (work, recorder) => recordRotation(recorder, work),
});

/** True if the kernel can turn this, else why not. */
function rotatable({ source, output, cos, sin, positions, heads }: Rotation): true | string {
  const types = oneFloatType([source, output, cos, sin]);
  if (types !== true) return types;
  if (source.view.size === 0) return "there is nothing to turn";
  if (!cos.contiguous || !sin.contiguous || positions?.contiguous === false) return "angles or positions have gaps";
  const gaps = [source, output].some(({ view }) => {
    const { shape, strides } = headsView(view, heads);
    return shape[3] > 1 && strides[3] !== 1;
  });
  return gaps ? "heads have gaps" : true;
}

/** Queues a rotation that `rotatable` holds of. Positions outside of the tables, or counted from their end, are left to the reference implementation. */
function recordRotation(recorder: Recorder, work: Rotation): void {
  const { source, output, cos, sin, positions, heads, interleaved } = work;
  const from = headsOf(recorder, source, heads);
  const isOffset = positions !== undefined && positions.shape.length < 2;
  if (positions !== undefined)
    recorder.when(liesWithin(positions, 0, isOffset ? cos.shape[0] - from.rows : cos.shape[0] - 1));
  runRotation(recorder, {
    from,
    to: headsOf(recorder, output, heads),
    cos: recorder.address(cos),
    sin: recorder.address(sin),
    pairs: cos.shape.at(-1)!,
    interleaved,
    positions: positions === undefined ? 0 : recorder.address(positions),
    positionSample: isOffset ? 0 : from.rows,
    positionStep: isOffset ? 0 : 1,
  });
}

/** A rotation between places in the memory. */
interface RotationRun {
  readonly from: Heads;
  readonly to: Heads;
  /** Addresses of tables, a row of `pairs` for each position, or for each token without positions. */
  readonly cos: number;
  readonly sin: number;
  readonly pairs: number;
  readonly interleaved: boolean;
  /** Address of int64: a sample's are `positionSample` apart, one for each token (step 1) or the first one's (step 0); 0 for none. */
  readonly positions: number;
  readonly positionSample: number;
  readonly positionStep: number;
}

/** Queues one job. */
export function runRotation(recorder: Recorder, { from, to, interleaved, pairs, ...tables }: RotationRun): void {
  recorder.run(
    "rotate",
    {
      source: from.address,
      output: to.address,
      ...tables,
      type: codeOf(from.type),
      batch: from.batch,
      heads: from.heads,
      length: from.rows,
      size: from.size,
      pairs,
      interleaved: interleaved ? 1 : 0,
      sourceSample: from.sample,
      sourceHead: from.head,
      sourceRow: from.row,
      outputSample: to.sample,
      outputHead: to.head,
      outputRow: to.row,
      angleRow: pairs,
    },
    partsFor(recorder, from.batch * from.heads * from.rows * from.size * 0.6),
  );
}
