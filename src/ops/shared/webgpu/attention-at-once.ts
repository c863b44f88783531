/**
 * Attention of few queries over few keys in one dispatch: a workgroup goes over all tiles of a key head, first for their scores, which it keeps, then for
 * the values that these weigh. Nothing is left in between for another dispatch to put together.
 */
import type { DeviceTraits, Dispatch, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { dispatchOf, type ShaderPart } from "../../../webgpu-kernels/shader-part.js";
import { packing } from "../../../webgpu-kernels/wgsl.js";
import { type AttentionWork, outputPart, sinkPart } from "./attention-parts.js";
import {
  divisionOf,
  fitsWorkgroup,
  keysOf,
  scoresPart,
  sizesOf,
  tileCodeOf,
  type TileShape,
  type TileStart,
} from "./attention-tile.js";
import { isLasting } from "./packed-batch.js";
import { hidden } from "./score-marks.js";

/** A workgroup goes over four tiles at most: beyond, other workgroups would have done them sooner. */
const shape: TileShape = { invocations: 256, tiles: 4 };
const tile = keysOf(shape);

/** Keys up to which attention is done so: none where a workgroup cannot hold what it keeps. */
export const mostAtOnce = (work: AttentionWork, { own = 0 }: TileStart, device: DeviceTraits): number =>
  fitsWorkgroup(work, shape, own, device) ? shape.tiles * tile : 0;

/** Records it, for runs within a range where one is given. */
export function recordAtOnce(
  work: AttentionWork,
  queries: ShaderPart,
  start: TileStart,
  name: string,
  recorder: WebgpuRecorder,
  only: Pick<Dispatch, "only"> = {},
): void {
  const { query, key } = work;
  const { rows, chunks } = divisionOf(work);
  recorder.dispatch(
    dispatchOf({
      name,
      parts: [packing, scoresPart(work, queries, start, recorder.device), sinkPart(work), outputPart(work)],
      code: codeOf(work, rows, start, recorder.device),
      parameters: { ...sizesOf(work), scale: { float: work.scale } },
      fixed: isLasting(work),
      workgroups: [1, key.heads * chunks, query.batch],
      ...only,
    }),
  );
}

function codeOf(work: AttentionWork, rows: number, start: TileStart, device: DeviceTraits): string {
  const code = tileCodeOf(work, rows, shape, start, device);
  const { memory, valueQuads, vector, gathered, begin } = code;
  const { writes } = start;
  const bounds = `low = max(seenFrom, front);
    high = min(seenTo, front + ${tile});`;
  /** Does something for each tile, from `front` on, whose rows were loaded; those of the next are loaded behind it. */
  const forTiles = (done: string, load: string): string => `while (front < seenTo) {
    ${done}
    front += ${tile};
    kept += ${tile}u;
    if (front < seenTo) {
      ${bounds}
      ${load}
    }
  }`;
  const withSink =
    work.sink === undefined
      ? ""
      : `above = max(above, sinkOf(head));
    sum *= exp(top[own] - above);
    weight = weight * exp(top[own] - above) + exp(sinkOf(head) - above);`;
  return `${memory}
@compute @workgroup_size(${shape.invocations}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  ${begin}
  ${writes === undefined ? "" : `let writes = ${writes.when("0", work.key.rows)};`}
  var front = 0;
  var low = 0;
  var high = 0;
  ${code.declare}
  // The rows of the first tile are on their way while the queries are made ready.
  if (seenFrom < seenTo) {
    front = seenFrom / ${tile} * ${tile};
    ${bounds}
    ${code.loadKeys}
    ${code.loadValues}
  }
  let base = front;
  ${start.asked(shape)}
  var best = ${vector}(${hidden});
  ${forTiles(`${code.keysAgain}\n    ${code.dots}`, code.loadKeys)}
  let count = kept;
  ${code.weigh}
  ${code.sums}
  front = base;
  kept = 0u;
  ${bounds}
  ${forTiles(`${code.valuesAgain}\n    ${code.addValues}`, code.loadValues)}
  ${gathered(
    "sum",
    `let head = keyHead * p.group + row % p.group;
    var weight = totalWeight()[own];
    var above = top[own];
    ${withSink}
    writeQuad(sample, head, row / p.group, local % ${valueQuads}u, weighedMean(sum, weight, above));`,
  )}
}`;
}
