/**
 * Attention of few queries: keys are cut into tiles of a fixed number of rows, a workgroup for each tile and for up to four rows of queries
 * that share a key head; a second dispatch puts the tiles together in order, so that results do not depend on the capacity.
 */
import type { DeviceTraits, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { packing } from "../../../webgpu-kernels/wgsl.js";
import {
  type AttentionWork,
  between,
  hidden,
  joined,
  least,
  outputPart,
  type Part,
  quadsOf,
  rowsPart,
  scorePart,
  sinkPart,
  tablesPart,
  visiblePart,
} from "./attention-parts.js";
import { workgroupReduction } from "./workgroup-reduction.js";

/** Keys of a tile, invocations of a workgroup, and those of them that share a key. */
const tile = 64;
export const invocations = 256;
const lanes = invocations / tile;

/** Rows of queries that a workgroup serves at most: the elements of a vector. */
const mostRows = 4;

/** Workgroups that keep a large device busy. Beyond them, each goes over several tiles: what it does to begin with is done once for all. */
const busy = 1024;
const mostTilesAGroup = 4;

/** Tiles that one workgroup goes over, one after the other. */
const tilesAGroup = (tiles: number): number => Math.max(1, Math.min(mostTilesAGroup, Math.floor(tiles / busy)));

/** Bytes that tiles may take in between. */
const mostTileBytes = 1 << 28;

/** Loads that are in flight before the first sum. */
const inFlight = 8;

const times = (count: number, line: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => line(at)).join("\n");

/** Bytes that the tiles of a call take in between. */
function tileBytes({ query, key, value }: AttentionWork): number {
  const rows = query.batch * query.heads * query.rows;
  return 16 * rows * Math.ceil(key.rows / tile) * (quadsOf(value.size) + 1);
}

/** True if the tiles of a call are not too much to keep in between. */
export const holdsTiles = (work: AttentionWork, { mostBindingBytes }: DeviceTraits): boolean =>
  tileBytes(work) <= Math.min(mostTileBytes, mostBindingBytes);

/** How the rows of queries that share a key head are divided. */
export function divisionOf({ query, key }: AttentionWork): { readonly rows: number; readonly chunks: number } {
  const groupRows = (query.heads / key.heads) * query.rows;
  const rows = Math.min(mostRows, groupRows);
  return { rows, chunks: Math.ceil(groupRows / rows) };
}

/** Records both dispatches. */
export function recordDecode(work: AttentionWork, recorder: WebgpuRecorder): void {
  const { rows } = divisionOf(work);
  recordTiles(work, rowsPart("query", work.query), { asked: askedCode(work, rows) }, "attentionTiles", recorder);
}

/** How a tile begins. */
interface TileStart {
  /** Fills `asked` with the queries times the scale. */
  readonly asked: string;
  /** Where a row of the caches is written: a condition for those whose rows, so many from `front` on, hold it; and the row. Both by `sample`. */
  readonly writes?: { readonly when: (front: string, rows: number) => string; readonly row: string };
}

/** Records the dispatch over tiles, begun in one way or another, and the one that puts them together. */
export function recordTiles(
  work: AttentionWork,
  queries: Part,
  start: TileStart,
  name: string,
  recorder: WebgpuRecorder,
): void {
  const { query, key, value } = work;
  const tiles = Math.ceil(key.rows / tile);
  const { rows, chunks } = divisionOf(work);
  const each = tilesAGroup(tiles * key.heads * chunks * query.batch);
  const group = query.heads / key.heads;
  const partials = recorder.temporary(tileBytes(work));
  const sizes = { group, groupRows: group * query.rows, chunks, tiles, heads: query.heads };
  const writes = start.writes !== undefined;
  const caches = joined(rowsPart("key", key), rowsPart("value", value));
  const scores = joined(
    queries,
    { ...caches, bindings: caches.bindings.map((binding) => ({ ...binding, writes })) },
    tablesPart(key),
    visiblePart(work),
    scorePart(work),
    between("partials", partials, true),
  );
  recorder.dispatch({
    name,
    code: `${packing}\n${scores.code}\n${tileCode(work, rows, each, start, recorder.device)}`,
    bindings: scores.bindings,
    parameters: { ...scores.parameters, ...sizes, scale: { float: work.scale } },
    fixed: true,
    workgroups: [Math.ceil(tiles / each), key.heads * chunks, query.batch],
  });
  const result = joined(visiblePart(work), sinkPart(work), outputPart(work), between("partials", partials, false));
  recorder.dispatch({
    name: "attentionCombine",
    code: `${packing}\n${result.code}\n${combineCode(work, recorder.device)}`,
    bindings: result.bindings,
    parameters: { ...result.parameters, ...sizes },
    fixed: true,
    workgroups: [query.rows, query.heads, query.batch],
  });
}

/** Quads of a query, filled up so that lanes have as many each. */
export const paddedQuads = (size: number): number => Math.ceil(quadsOf(size) / lanes) * lanes;

function askedCode({ query }: AttentionWork, rows: number): string {
  const [quads, padded] = [quadsOf(query.size), paddedQuads(query.size)];
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

function tileCode(
  { query, key, value }: AttentionWork,
  rows: number,
  each: number,
  { asked, writes }: TileStart,
  { subgroup }: DeviceTraits,
): string {
  const quads = quadsOf(query.size);
  const padded = paddedQuads(query.size);
  const valueQuads = quadsOf(value.size);
  const parts = Math.floor(invocations / valueQuads);
  const scaled = key.pages?.scales !== undefined;
  const letter = (row: number): string => "xyzw"[row];
  const keyLoads = padded / lanes;
  const valueLoads = Math.ceil(tile / parts);
  /** Of few loads all are on their way before anything waits; of more, some at a time. */
  const early = keyLoads <= inFlight && valueLoads <= inFlight;
  const keyLoad = (at: number): string => `keyQuad(start, min(lane + ${at * lanes}u, ${quads - 1}u))`;
  const keyUse = (at: number): string =>
    times(rows, (r) => `dot${r} += dot(k${at}, asked[${r * padded + at * lanes}u + lane]);`);
  const valueRow = (at: number): string =>
    `let at${at} = u32(clamp(front + i32(part) + ${at * parts}, low, high - 1));`;
  const valueLoad = (at: number): string =>
    `valueQuad(valueStart(sample, keyHead, at${at}), column)${scaled ? ` * valueFactor(sample, keyHead, at${at})` : ""}`;
  // Nothing of a row that takes no part may reach the sum: it may hold anything.
  const valueUse = (at: number): string => `{
    let i = part + ${at * parts}u;
    let w = select(vec4f(), weights[min(i, ${tile - 1}u)], i < ${tile}u);
    ${times(rows, (r) => `sum${r} = select(sum${r}, sum${r} + w.${letter(r)} * v${at}, w.${letter(r)} > 0.0);`)} }`;
  const batches = (count: number, load: (at: number) => string, use: (at: number) => string): string =>
    times(Math.ceil(count / inFlight), (batch) => {
      const own = Array.from({ length: Math.min(inFlight, count - batch * inFlight) }, (_, i) => batch * inFlight + i);
      return `{ ${own.map(load).join("\n")}\n${own.map(use).join("\n")} }`;
    });
  const again =
    writes === undefined
      ? ""
      : `// The new row was not there yet.
  if (writes) {
    let row = ${writes.row};
    if (near == row) { ${times(keyLoads, (at) => `k${at} = ${keyLoad(at)};`)} }
    ${times(valueLoads, (at) => `if (at${at} == row) { v${at} = ${valueLoad(at)}; }`)}
  }`;
  const place = `let key = front + i32(local / ${lanes}u);
  let lane = local % ${lanes}u;
  // Rows that nobody sees are not read; what the nearest one gives in their place is hidden below.
  let near = u32(clamp(key, low, high - 1));
  let start = keyStart(sample, keyHead, near);
  let column = local % ${valueQuads}u;
  let part = min(local / ${valueQuads}u, ${parts - 1}u);
  ${early ? times(keyLoads, (at) => `var k${at} = ${keyLoad(at)};`) : ""}
  ${early ? times(valueLoads, (at) => `${valueRow(at)} var v${at} = ${valueLoad(at)};`) : ""}`;
  const work = `${times(rows, (r) => `var dot${r} = 0.0;`)}
  ${early ? times(keyLoads, keyUse) : batches(keyLoads, (at) => `let k${at} = ${keyLoad(at)};`, keyUse)}
  var dots = vec4f();
  ${times(rows, (r) => `dots.${letter(r)} = dot${r};`)}
  ${scaled ? "dots *= keyFactor(sample, keyHead, near);" : ""}
  ${weighingCode(subgroup, (scores, own) =>
    times(
      rows,
      (r) =>
        `${scores}.${letter(r)} = select(${hidden}, finished(${scores}.${letter(r)}, sample, keyHead * p.group + row${r} % p.group, row${r} / p.group, u32(${own})), ${own} >= seen${r}.x && ${own} < seen${r}.y);`,
    ),
  )}

  ${times(rows, (r) => `var sum${r} = vec4f();`)}
  if (local < ${parts * valueQuads}u) {
    ${early ? times(valueLoads, valueUse) : batches(valueLoads, (at) => `${valueRow(at)} let v${at} = ${valueLoad(at)};`, valueUse)}
  }
  ${times(
    rows,
    (r) => `${r === 0 ? "" : "workgroupBarrier();"}
  exchange[local] = sum${r};
  workgroupBarrier();
  if (first + ${r}u < p.groupRows) {
    let at = ${partialAt(`(sample * p.heads + keyHead * p.group + row${r} % p.group) * p.queries + row${r} / p.group`, "tileAt", valueQuads)};
    if (local < ${valueQuads}u) {
      var sum = exchange[local];
      for (var i = 1u; i < ${parts}u; i++) { sum += exchange[local + i * ${valueQuads}u]; }
      partials[at + local] = sum;
    } else if (local == ${valueQuads}u) {
      partials[at + ${valueQuads}u] = vec4f(top.${letter(r)}, totalWeight().${letter(r)}, 0.0, 0.0);
    }
  }`,
  )}`;
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
  ${place}
  ${asked}
  ${early ? again : ""}
  ${work}`;
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
    ${place}
    ${work}
    workgroupBarrier();
  }`;
  return `
var<workgroup> asked: array<vec4f, ${rows * padded}>;
var<workgroup> exchange: array<vec4f, ${invocations}>;
var<workgroup> weights: array<vec4f, ${tile}>;
${weighingMemory(subgroup)}

@compute @workgroup_size(${invocations}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  let sample = place.z;
  let keyHead = place.y / p.chunks;
  let first = place.y % p.chunks * ${rows}u;
  ${times(rows, (r) => `let row${r} = min(first + ${r}u, p.groupRows - 1u); let seen${r} = visible(sample, keyHead, row${r} / p.group);`)}
  var seenFrom = 2147483647;
  var seenTo = 0;
  ${times(rows, (r) => `if (seen${r}.x < seen${r}.y) { seenFrom = min(seenFrom, seen${r}.x); seenTo = max(seenTo, seen${r}.y); }`)}
  ${each === 1 ? single : several}
}`;
}

/** Memory in which scores become weights, and `totalWeight()`, what they sum up to. */
function weighingMemory(subgroup: number | undefined): string {
  const groups = isWide(subgroup) ? invocations / subgroup : 8;
  return `
var<workgroup> tops: array<vec4f, ${groups}>;
var<workgroup> totals: array<vec4f, ${groups}>;
fn totalWeight() -> vec4f {
  var sum = totals[0];
  for (var at = 1u; at < ${groups}u; at++) { sum += totals[at]; }
  return sum;
}`;
}

/** True for subgroups in which the lanes of a key stand side by side. */
const isWide = (subgroup: number | undefined): subgroup is number =>
  subgroup !== undefined && subgroup % lanes === 0 && subgroup <= invocations;

/**
 * From `dots`, each lane's share of a key's scores, to `weights`, with their `top`. `finish` makes scores of sums. Behind it, `exchange` is free.
 */
function weighingCode(subgroup: number | undefined, finish: (scores: string, key: string) => string): string {
  if (isWide(subgroup)) {
    const groups = invocations / subgroup;
    return `${times(Math.log2(lanes), (at) => `dots += subgroupShuffleXor(dots, ${2 ** at}u);`)}
  ${finish("dots", "key")}
  let highest = subgroupMax(dots);
  if (local % ${subgroup}u == 0u) { tops[local / ${subgroup}u] = highest; }
  workgroupBarrier();
  var top = tops[0];
  for (var at = 1u; at < ${groups}u; at++) { top = max(top, tops[at]); }
  let weight = select(exp(dots - top), vec4f(), dots < vec4f(${least}));
  let total = subgroupAdd(select(vec4f(), weight, lane == 0u));
  if (lane == 0u) { weights[local / ${lanes}u] = weight; }
  if (local % ${subgroup}u == 0u) { totals[local / ${subgroup}u] = total; }
  workgroupBarrier();`;
  }
  return `exchange[local] = dots;
  workgroupBarrier();
  if (local < ${tile}u) {
    let own = front + i32(local);
    var scores = vec4f();
    ${times(lanes, (at) => `scores += exchange[${lanes}u * local + ${at}u];`)}
    ${finish("scores", "own")}
    weights[local] = scores;
  }
  workgroupBarrier();
  if (local < 8u) {
    var highest = weights[local];
    for (var at = 1u; at < ${tile / 8}u; at++) { highest = max(highest, weights[local + 8u * at]); }
    tops[local] = highest;
  }
  workgroupBarrier();
  var top = tops[0];
  ${times(7, (at) => `top = max(top, tops[${at + 1}]);`)}
  if (local < ${tile}u) {
    let score = weights[local];
    weights[local] = select(exp(score - top), vec4f(), score < vec4f(${least}));
  }
  workgroupBarrier();
  if (local < 8u) {
    var sum = weights[local];
    for (var at = 1u; at < ${tile / 8}u; at++) { sum += weights[local + 8u * at]; }
    totals[local] = sum;
  }`;
}

function combineCode({ value, sink }: AttentionWork, device: DeviceTraits): string {
  const quads = quadsOf(value.size);
  const parts = Math.floor(invocations / quads);
  const hasSink = sink !== undefined;
  return `
var<workgroup> totals: array<f32, ${invocations}>;
var<workgroup> exchange: array<vec4f, ${invocations}>;
${workgroupReduction("greatest", "maximum", invocations, device)}

@compute @workgroup_size(${invocations}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  let query = place.x;
  let head = place.y;
  let sample = place.z;
  let row = (sample * p.heads + head) * p.queries + query;
  let seen = visible(sample, head / p.group, query);
  var begin = 0u;
  var end = 0u;
  if (seen.x < seen.y) { begin = u32(seen.x) / ${tile}u; end = (u32(seen.y) + ${tile - 1}u) / ${tile}u; }
  var own = ${hasSink ? "sinkOf(head)" : hidden};
  for (var at = begin + local; at < end; at += ${invocations}u) { own = max(own, partials[${partialAt("row", "at", quads)} + ${quads}u].x); }
  let top = greatest(local, own);

  let column = local % ${quads}u;
  var sum = vec4f();
  var total = 0.0;
  if (local < ${parts * quads}u) {
    for (var at = begin + local / ${quads}u; at < end; at += ${parts}u) {
      let start = ${partialAt("row", "at", quads)};
      let tileTop = partials[start + ${quads}u];
      let part = partials[start + column];
      if (tileTop.y != 0.0) {
        let weight = exp(tileTop.x - top);
        sum += weight * part;
        total += weight * tileTop.y;
      }
    }
  }
  exchange[local] = sum;
  totals[local] = total;
  workgroupBarrier();
  if (local < ${quads}u) {
    sum = vec4f();
    total = ${hasSink ? "exp(sinkOf(head) - top)" : "0.0"};
    for (var at = local; at < ${parts * quads}u; at += ${quads}u) { sum += exchange[at]; total += totals[at]; }
    writeQuad(sample, head, query, local, select(sum / total, vec4f(), total == 0.0));
  }
}`;
}
