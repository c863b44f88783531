/**
 * Attention of few queries over few keys in one dispatch: a workgroup goes over all tiles of a key head, and carries the greatest score and the
 * weighed sums from one to the next. Nothing is left in between for another dispatch to put together.
 */
import type { DeviceTraits, Range, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { packing } from "../../../webgpu-kernels/wgsl.js";
import { type AttentionWork, hidden, joined, least, outputPart, type Part, sinkPart } from "./attention-parts.js";
import {
  divisionOf,
  keysOf,
  letterOf,
  paddedQuads,
  scoresPart,
  sizesOf,
  tileCodeOf,
  times,
  type TileShape,
  type TileStart,
} from "./attention-tile.js";

/** Tiles that a workgroup goes over at most: beyond, other workgroups would have done them sooner. */
const mostTiles = 4;

/** The largest workgroup that holds what it keeps: queries, sums, weights, and a little more. */
function shapeFor(work: AttentionWork, { mostInvocations, workgroupBytes }: DeviceTraits): TileShape {
  const asked = divisionOf(work).rows * paddedQuads(work.query.size);
  const wide = { invocations: 512 };
  const bytes = 16 * (asked + wide.invocations + keysOf(wide) + 4 * 64);
  return mostInvocations >= wide.invocations && bytes <= workgroupBytes ? wide : { invocations: 256 };
}

/** Keys up to which attention is done so. */
export const mostAtOnce = (work: AttentionWork, device: DeviceTraits): number =>
  mostTiles * keysOf(shapeFor(work, device));

/** Records it, for runs within a range where one is given. */
export function recordAtOnce(
  work: AttentionWork,
  queries: Part,
  start: TileStart,
  name: string,
  recorder: WebgpuRecorder,
  only?: Range,
): void {
  const { query, key } = work;
  const { rows, chunks } = divisionOf(work);
  const parts = joined(scoresPart(work, queries, start), sinkPart(work), outputPart(work));
  recorder.dispatch({
    name,
    code: `${packing}\n${parts.code}\n${codeOf(work, rows, start, recorder.device)}`,
    bindings: parts.bindings,
    parameters: { ...parts.parameters, ...sizesOf(work), scale: { float: work.scale } },
    fixed: true,
    workgroups: [1, key.heads * chunks, query.batch],
    ...(only === undefined ? {} : { only }),
  });
}

function codeOf(work: AttentionWork, rows: number, start: TileStart, device: DeviceTraits): string {
  const shape = shapeFor(work, device);
  const tile = keysOf(shape);
  const { memory, valueQuads, parts, begin, declare, load, again, sums } = tileCodeOf(work, rows, shape, start, device);
  const { writes } = start;
  const bounds = `low = max(seenFrom, front);
    high = min(seenTo, front + ${tile});`;
  const withSink =
    work.sink === undefined
      ? ""
      : `let above = max(best.LETTER, sinkOf(head));
      sum *= exp(best.LETTER - above);
      weight = weight * exp(best.LETTER - above) + exp(sinkOf(head) - above);`;
  return `${memory}
@compute @workgroup_size(${shape.invocations}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  ${begin}
  ${writes === undefined ? "" : `let writes = ${writes.when("0", work.key.rows)};`}
  var front = 0;
  var low = 0;
  var high = 0;
  ${declare}
  // The rows of the first tile are on their way while the queries are made ready.
  if (seenFrom < seenTo) {
    front = seenFrom / ${tile} * ${tile};
    ${bounds}
    ${load}
  }
  ${start.asked(shape)}
  ${again}
  var best = vec4f(${hidden});
  var weighed = vec4f();
  ${times(rows, (r) => `var whole${r} = vec4f();`)}
  while (front < seenTo) {
    ${sums}
    let above = max(best, top);
    let before = select(exp(best - above), vec4f(), best < vec4f(${least}));
    let now = select(exp(top - above), vec4f(), top < vec4f(${least}));
    ${times(rows, (r) => `whole${r} = whole${r} * before.${letterOf(r)} + sum${r} * now.${letterOf(r)};`)}
    best = above;
    workgroupBarrier();
    weighed = weighed * before + totalWeight() * now;
    front += ${tile};
    if (front < seenTo) {
      ${bounds}
      ${load}
    }
  }
  ${times(
    rows,
    (r) => `workgroupBarrier();
  exchange[local] = whole${r};
  workgroupBarrier();
  if (local < ${valueQuads}u && first + ${r}u < p.groupRows) {
    let head = keyHead * p.group + row${r} % p.group;
    var sum = exchange[local];
    for (var i = 1u; i < ${parts}u; i++) { sum += exchange[local + i * ${valueQuads}u]; }
    var weight = weighed.${letterOf(r)};
    ${withSink.replaceAll("LETTER", letterOf(r))}
    writeQuad(sample, head, row${r} / p.group, local, select(sum / weight, vec4f(), weight == 0.0));
  }`,
  )}
}`;
}
