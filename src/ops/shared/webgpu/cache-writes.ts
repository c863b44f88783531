/** Rows written into caches along an axis, at indices that the device reads: into one, or into two at once. */
import { isInPlace, type Operand } from "../../../graph/kernel.js";
import type { WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { acceptsBytes, areBeside, type RowMove, moveRows, placeOf, type Starts } from "./rows.js";

/** The write of one cache. */
export interface CacheWrite {
  readonly past: Operand;
  readonly rows: Operand;
  readonly present: Operand;
}

/** How rows are written, as TensorScatter says it. */
interface WriteSettings {
  readonly axis: number;
  readonly mode: "linear" | "circular";
  readonly indices: Operand | undefined;
}

/** True if the writes can be made, else why not. */
export function acceptsWrites(writes: readonly CacheWrite[]): true | string {
  const presents = new Set(writes.map(({ present }) => present.place.buffer));
  for (const { past, rows } of writes) {
    if (presents.has(rows.place.buffer)) return "the rows lie in the cache itself";
    const isMoved = acceptsBytes(past.type);
    if (isMoved !== true) return isMoved;
  }
  return true;
}

/** Makes writes of one type, mode and indices. Two are one dispatch where their caches and rows are shaped and lie alike. Pasts that must stay are copied before. */
export function recordWrites(writes: readonly CacheWrite[], settings: WriteSettings, recorder: WebgpuRecorder): void {
  for (const { past, present } of writes)
    if (!isInPlace(past, present))
      move(
        { name: "copyCache", type: past.type, shape: past.shape, source: placeOf(past), target: placeOf(present) },
        recorder,
      );
  const moves = writes.map(({ past, rows, present }) => ({
    name: "scatterRows",
    type: past.type,
    shape: rows.shape,
    source: placeOf(rows),
    target: placeOf(present),
    starts: startsOf(past.shape, settings),
  }));
  const [first, second] = moves;
  if (second !== undefined && areBeside(first, second)) return move({ ...first, beside: second }, recorder);
  for (const each of moves) move(each, recorder);
}

const move = (rows: RowMove, recorder: WebgpuRecorder): void => {
  for (const dispatch of moveRows(rows, recorder.device)) recorder.dispatch(dispatch);
};

function startsOf(cache: readonly number[], { axis, mode, indices }: WriteSettings): Starts | undefined {
  const along = axis < 0 ? axis + cache.length : axis;
  return (
    indices && {
      axis: along,
      indices,
      step: 1,
      add: 0,
      ...(mode === "circular" ? { wrapsAt: cache[along] } : {}),
    }
  );
}
