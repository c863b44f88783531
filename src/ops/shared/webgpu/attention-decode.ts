/**
 * Attention of few queries (decode, split over keys as in flash decoding): keys are cut into tiles of a fixed number of rows, a workgroup for each tile and for up to four rows of queries
 * that share a key head; a second dispatch puts the tiles together in order, so that results do not depend on the capacity.
 */
import { largest } from "../../../webgpu-kernels/measures.js";
import type { DeviceTraits, Dispatch, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { dispatchOf, type ShaderPart } from "../../../webgpu-kernels/shader-part.js";
import type { Tuning } from "../../../webgpu-kernels/tuning.js";
import { packing, unrolled } from "../../../webgpu-kernels/wgsl.js";
import {
  type AttentionWork,
  outputPart,
  quadCount,
  queryPart,
  scratch,
  sinkPart,
  visiblePart,
} from "./attention-parts.js";
import { mostAtOnce, recordAtOnce } from "./attention-at-once.js";
import {
  divisionOf,
  fitsWorkgroup,
  keysOf,
  paddedQuads,
  scoresPart,
  sizesOf,
  tileCodeOf,
  type TileShape,
  type TileStart,
} from "./attention-tile.js";
import { isLasting } from "./packed-batch.js";
import { hidden } from "./score-marks.js";

const shape: TileShape = { invocations: 256, tiles: 1 };
const { invocations } = shape;
const tile = keysOf(shape);

/** Tiles that one workgroup goes over, one after the other. */
const tilesAGroup = (tiles: number, { enoughWorkgroups, mostTilesAGroup }: Tuning["decode"]): number =>
  Math.max(1, Math.min(mostTilesAGroup, Math.floor(tiles / enoughWorkgroups)));

/** Bytes that the tiles of a call take in between. */
function tileBytes({ query, key, value }: AttentionWork): number {
  const rows = query.batch * query.heads * query.rows;
  return 16 * rows * Math.ceil(key.rows / tile) * (quadCount(value.size) + 1);
}

/** True if the tiles of a call are not too much to keep in between. */
export const holdsTiles = (work: AttentionWork, { mostBindingBytes, tuning }: DeviceTraits): boolean =>
  tileBytes(work) <= Math.min(tuning.decode.mostTileBytes, mostBindingBytes);

/** True if a workgroup can hold a tile beside so many bytes. */
export const holdsBeside = (work: AttentionWork, own: number, device: DeviceTraits): boolean =>
  fitsWorkgroup(work, shape, own, device);

/** Records both dispatches. */
export function recordDecode(work: AttentionWork, recorder: WebgpuRecorder): void {
  const { rows } = divisionOf(work);
  recordTiles(
    work,
    queryPart(work),
    { asked: (shape) => askedCode(work, rows, shape) },
    { apart: "attentionTiles", atOnce: "attentionAtOnce" },
    recorder,
  );
}

/** What the dispatch is called, where tiles are put together by another one and where not. */
interface Names {
  readonly apart: string;
  readonly atOnce: string;
}

/**
 * Records the dispatch over tiles, begun in one way or another, and the one that puts them together; or one that does both, for as many keys as
 * that pays for.
 */
export function recordTiles(
  work: AttentionWork,
  queries: ShaderPart,
  start: TileStart,
  names: Names,
  recorder: WebgpuRecorder,
): void {
  const { query, key, lengths } = work;
  const atOnce = mostAtOnce(work, start, recorder.device);
  if (key.rows <= atOnce) return recordAtOnce(work, queries, start, names.atOnce, recorder);
  // Where the host knows how long the texts are, those that one workgroup can go over need nothing in between.
  const most = atOnce > 0 && lengths !== undefined && recorder.isOnHost(lengths.of) ? atOnce - lengths.add : -1;
  const rowsOf = (least: number, most: number): Pick<Dispatch, "only"> =>
    lengths === undefined ? {} : { only: [{ of: [lengths.of], measure: largest, least, most }] };
  if (most >= 0) recordAtOnce(work, queries, start, names.atOnce, recorder, rowsOf(-Infinity, most));
  const only = most < 0 ? {} : rowsOf(most + 1, Infinity);
  const tiles = Math.ceil(key.rows / tile);
  const { rows, chunks } = divisionOf(work);
  const each = tilesAGroup(tiles * key.heads * chunks * query.batch, recorder.device.tuning.decode);
  const partials = recorder.temporary(tileBytes(work));
  const sizes = { ...sizesOf(work), tiles };
  recorder.dispatch(
    dispatchOf({
      name: names.apart,
      parts: [packing, scoresPart(work, queries, start, recorder.device), scratch("partials", partials, true)],
      code: tilesCode(work, rows, each, start, recorder.device),
      parameters: { ...sizes, scale: { float: work.scale } },
      fixed: isLasting(work),
      workgroups: [Math.ceil(tiles / each), key.heads * chunks, query.batch],
      ...only,
    }),
  );
  recorder.dispatch(
    dispatchOf({
      name: "attentionCombine",
      parts: [packing, visiblePart(work), sinkPart(work), outputPart(work), scratch("partials", partials, false)],
      code: combineCode(work, recorder.device.tuning.decode),
      parameters: sizes,
      fixed: isLasting(work),
      workgroups: [query.rows, query.heads, query.batch],
      ...only,
    }),
  );
}

function askedCode({ query }: AttentionWork, rows: number, { invocations }: TileShape): string {
  const [quads, padded] = [quadCount(query.size), paddedQuads(query.size)];
  return `for (var at = local; at < ${rows * padded}u; at += ${invocations}u) {
    let row = min(first + at / ${padded}u, p.groupRows - 1u);
    let quad = at % ${padded}u;
    let start = queryStart(sample, keyHead * p.group + row % p.group, row / p.group);
    asked[at] = select(vec4f(), queryQuad(start, min(quad, ${quads - 1}u)) * p.scale, quad < ${quads}u);
  }
  workgroupBarrier();`;
}

/** Where the tile of a row lies in between: quads of weighed values, then the greatest score and the sum of weights. */
const partialAt = (row: string, at: string, quads: number): string => `((${row}) * p.tiles + (${at})) * ${quads + 1}u`;

function tilesCode(work: AttentionWork, rows: number, each: number, start: TileStart, device: DeviceTraits): string {
  const code = tileCodeOf(work, rows, shape, start, device);
  const { memory, valueQuads, vector, gathered, begin, declare } = code;
  const load = `${code.loadKeys}\n  ${code.loadValues}`;
  const again = `${code.keysAgain}\n  ${code.valuesAgain}`;
  const sums = `let count = ${tile}u;
  var best = ${vector}(${hidden});
  ${code.dots}
  ${code.weigh}
  ${code.sums}
  ${code.addValues}`;
  const { writes } = start;
  const asked = start.asked(shape);
  const leave = gathered(
    "sum",
    `let at = ${partialAt("(sample * p.heads + keyHead * p.group + row % p.group) * p.queries + row / p.group", "tileAt", valueQuads)};
    let column = local % ${valueQuads}u;
    partials[at + column] = sum;
    if (column == 0u) { partials[at + ${valueQuads}u] = vec4f(top[own], totalWeight()[own], 0.0, 0.0); }`,
  );
  // One tile: its rows are on their way while the queries are made ready.
  const single = `let tileAt = place.x;
  let front = i32(tileAt) * ${tile};
  var low = max(seenFrom, front);
  var high = min(seenTo, front + ${tile});
  ${
    writes === undefined
      ? "if (low >= high) { return; }"
      : `let writes = ${writes.when("front", tile)};
  // Without keys to see, the tile that writes goes through it with one that counts for nothing.
  if (low >= high) {
    if (!writes) { return; }
    low = front;
    high = front + 1;
  }`
  }
  ${declare}
  ${load}
  ${asked}
  ${again}
  ${sums}
  ${leave}`;
  const several = `let begin = i32(place.x) * ${each * tile};
  let seesNone = max(seenFrom, begin) >= min(seenTo, begin + ${each * tile});
  ${
    writes === undefined
      ? "if (seesNone) { return; }"
      : `let writes = ${writes.when("begin", each * tile)};
  if (seesNone && !writes) { return; }`
  }
  ${asked}
  for (var turn = 0u; turn < ${each}u; turn++) {
    let tileAt = place.x * ${each}u + turn;
    let front = i32(tileAt) * ${tile};
    let low = max(seenFrom, front);
    let high = min(seenTo, front + ${tile});
    if (low >= high) { continue; }
    ${declare}
    ${load}
    ${again}
    ${sums}
    ${leave}
    workgroupBarrier();
  }`;
  return `${memory}
@compute @workgroup_size(${shape.invocations}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  ${begin}
  ${each === 1 ? single : several}
}`;
}

/**
 * Each invocation goes over tiles some way apart, with a greatest score of its own; what they have is put together at the end. The first tiles are on their
 * way before it is known how many there are, unless a window hides them.
 */
function combineCode({ value, sink, left, window }: AttentionWork, { tilesAhead }: Tuning["decode"]): string {
  const quads = quadCount(value.size);
  const parts = Math.floor(invocations / quads);
  const each = (of: (at: number) => string): string => unrolled(tilesAhead, of);
  const seen = `let seen = visible(sample, head / p.group, query);
  var begin = 0u;
  var end = 0u;
  if (seen.x < seen.y) { begin = u32(seen.x) / ${tile}u; end = (u32(seen.y) + ${tile - 1}u) / ${tile}u; }`;
  const load = each(
    (at) => `let start${at} = ${partialAt("row", `min(at + ${at * parts}u, p.tiles - 1u)`, quads)};
    ends${at} = partials[start${at} + ${quads}u]; parts${at} = partials[start${at} + column];`,
  );
  const hides = left >= 0 || window >= 0;
  return `
var<workgroup> exchange: array<vec4f, ${parts * quads}>;
var<workgroup> weighed: array<vec2f, ${parts * quads}>;

@compute @workgroup_size(${parts * quads}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  let query = place.x;
  let head = place.y;
  let sample = place.z;
  let row = (sample * p.heads + head) * p.queries + query;
  let column = local % ${quads}u;
  ${each((at) => `var ends${at} = vec4f(); var parts${at} = vec4f();`)}
  ${hides ? seen : ""}
  var at = ${hides ? "begin + " : ""}local / ${quads}u;
  { ${load} }
  ${hides ? "" : seen}
  var best = ${hidden};
  var sum = vec4f();
  var total = 0.0;
  while (at < end) {
    ${each((i) => `let counts${i} = at + ${i * parts}u < end;`)}
    var above = best;
    ${each((i) => `above = max(above, select(${hidden}, ends${i}.x, counts${i}));`)}
    let before = exp(best - above);
    sum *= before;
    total *= before;
    ${each((i) => `if (counts${i}) { let weight = exp(ends${i}.x - above); sum += weight * parts${i}; total += weight * ends${i}.y; }`)}
    best = above;
    at += ${parts * tilesAhead}u;
    if (at < end) { ${load} }
  }
  exchange[local] = sum;
  weighed[local] = vec2f(best, total);
  workgroupBarrier();
  if (local < ${quads}u) {
    var top = ${sink === undefined ? hidden : "sinkOf(head)"};
    for (var at = local; at < ${parts * quads}u; at += ${quads}u) { top = max(top, weighed[at].x); }
    sum = vec4f();
    total = ${sink === undefined ? "0.0" : "exp(sinkOf(head) - top)"};
    for (var at = local; at < ${parts * quads}u; at += ${quads}u) {
      let weight = exp(weighed[at].x - top);
      sum += weight * exchange[at];
      total += weight * weighed[at].y;
    }
    writeQuad(sample, head, query, local, weighedMean(sum, total, top));
  }
}`;
}
