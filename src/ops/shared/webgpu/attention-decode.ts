/**
 * Attention of few queries: keys are cut into tiles of a fixed number of rows, a workgroup for each tile and for up to four rows of queries
 * that share a key head; a second dispatch puts the tiles together in order, so that results do not depend on the capacity.
 */
import type { WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { packing } from "../../../webgpu-kernels/wgsl.js";
import {
  type AttentionWork,
  between,
  hidden,
  joined,
  least,
  outputPart,
  quadsOf,
  rowsPart,
  scorePart,
  sinkPart,
  tablesPart,
  visiblePart,
} from "./attention-parts.js";

/** Keys of a tile, invocations of a workgroup, and those of them that share a key. */
const tile = 64;
const invocations = 256;
const lanes = invocations / tile;

/** Rows of queries that a workgroup serves at most: the elements of a vector. */
const mostRows = 4;

/** Loads that are in flight before the first sum. */
const inFlight = 4;

const times = (count: number, line: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => line(at)).join("\n");

/** Bytes that the tiles of a call take in between. */
export function tileBytes({ query, key, value }: AttentionWork): number {
  const rows = query.batch * query.heads * query.rows;
  return 16 * rows * Math.ceil(key.rows / tile) * (quadsOf(value.size) + 1);
}

/** Records both dispatches. */
export function recordDecode(work: AttentionWork, recorder: WebgpuRecorder): void {
  const { query, key, value } = work;
  const tiles = Math.ceil(key.rows / tile);
  const group = query.heads / key.heads;
  const groupRows = group * query.rows;
  const rows = Math.min(mostRows, groupRows);
  const chunks = Math.ceil(groupRows / rows);
  const partials = recorder.temporary(tileBytes(work));
  const sizes = { group, groupRows, chunks, tiles, heads: query.heads };
  const scores = joined(
    rowsPart("query", query),
    rowsPart("key", key),
    rowsPart("value", value),
    tablesPart(key),
    visiblePart(work),
    scorePart(work),
    between("partials", partials, true),
  );
  recorder.dispatch({
    name: "attentionTiles",
    code: `${scores.code}\n${tileCode(work, rows)}`,
    bindings: scores.bindings,
    parameters: { ...scores.parameters, ...sizes, scale: { float: work.scale } },
    workgroups: [tiles, key.heads * chunks, query.batch],
  });
  const result = joined(visiblePart(work), sinkPart(work), outputPart(work), between("partials", partials, false));
  recorder.dispatch({
    name: "attentionCombine",
    code: `${packing}\n${result.code}\n${combineCode(work)}`,
    bindings: result.bindings,
    parameters: { ...result.parameters, ...sizes },
    workgroups: [query.rows, query.heads, query.batch],
  });
}

/** Where the tile of a row lies in between: quads of weighed values, then the greatest score and the sum of weights. */
const partialAt = (row: string, at: string, quads: number): string => `((${row}) * p.tiles + (${at})) * ${quads + 1}u`;

function tileCode({ query, key, value }: AttentionWork, rows: number): string {
  const quads = quadsOf(query.size);
  const padded = Math.ceil(quads / lanes) * lanes;
  const valueQuads = quadsOf(value.size);
  const parts = Math.floor(invocations / valueQuads);
  const scaled = key.pages?.scales !== undefined;
  const letter = (row: number): string => "xyzw"[row];
  const keyLoads = padded / lanes;
  const valueLoads = Math.ceil(tile / parts);
  const batches = (count: number, load: (at: number) => string, use: (at: number) => string): string =>
    times(Math.ceil(count / inFlight), (batch) => {
      const own = Array.from({ length: Math.min(inFlight, count - batch * inFlight) }, (_, i) => batch * inFlight + i);
      return `{ ${own.map(load).join("\n")}\n${own.map(use).join("\n")} }`;
    });
  return `
var<workgroup> asked: array<vec4f, ${rows * padded}>;
var<workgroup> exchange: array<vec4f, ${invocations}>;
var<workgroup> weights: array<vec4f, ${tile}>;
var<workgroup> eighths: array<vec4f, 8>;

@compute @workgroup_size(${invocations}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  let sample = place.z;
  let keyHead = place.y / p.chunks;
  let first = place.y % p.chunks * ${rows}u;
  let front = i32(place.x) * ${tile};
  ${times(rows, (r) => `let row${r} = min(first + ${r}u, p.groupRows - 1u); let seen${r} = visible(sample, keyHead, row${r} / p.group);`)}
  var low = 2147483647;
  var high = 0;
  ${times(rows, (r) => `if (seen${r}.x < seen${r}.y) { low = min(low, seen${r}.x); high = max(high, seen${r}.y); }`)}
  low = max(low, front);
  high = min(high, front + ${tile});
  if (low >= high) { return; }

  for (var at = local; at < ${rows * padded}u; at += ${invocations}u) {
    let row = min(first + at / ${padded}u, p.groupRows - 1u);
    let quad = at % ${padded}u;
    let start = queryStart(sample, keyHead * p.group + row % p.group, row / p.group);
    asked[at] = select(vec4f(), queryQuad(start, min(quad, ${quads - 1}u)) * p.scale, quad < ${quads}u);
  }
  workgroupBarrier();

  let key = front + i32(local / ${lanes}u);
  let lane = local % ${lanes}u;
  // Rows that nobody sees are not read; what the nearest one gives in their place is hidden below.
  let near = u32(clamp(key, low, high - 1));
  let start = keyStart(sample, keyHead, near);
  ${times(rows, (r) => `var dot${r} = 0.0;`)}
  ${batches(
    keyLoads,
    (at) => `let k${at} = keyQuad(start, min(lane + ${at * lanes}u, ${quads - 1}u));`,
    (at) => times(rows, (r) => `dot${r} += dot(k${at}, asked[${r * padded + at * lanes}u + lane]);`),
  )}
  var dots = vec4f();
  ${times(rows, (r) => `dots.${letter(r)} = dot${r};`)}
  ${scaled ? "dots *= keyFactor(sample, keyHead, near);" : ""}
  exchange[local] = dots;
  workgroupBarrier();

  if (local < ${tile}u) {
    let own = front + i32(local);
    var scores = vec4f();
    ${times(lanes, (at) => `scores += exchange[${lanes}u * local + ${at}u];`)}
    ${times(rows, (r) => `scores.${letter(r)} = select(${hidden}, finished(scores.${letter(r)}, sample, keyHead * p.group + row${r} % p.group, row${r} / p.group, u32(own)), own >= seen${r}.x && own < seen${r}.y);`)}
    weights[local] = scores;
  }
  workgroupBarrier();
  if (local < 8u) {
    var top = weights[local];
    for (var at = 1u; at < ${tile / 8}u; at++) { top = max(top, weights[local + 8u * at]); }
    eighths[local] = top;
  }
  workgroupBarrier();
  var top = eighths[0];
  ${times(7, (at) => `top = max(top, eighths[${at + 1}]);`)}
  workgroupBarrier();
  if (local < ${tile}u) {
    let score = weights[local];
    weights[local] = select(exp(score - top), vec4f(), score < vec4f(${least}));
  }
  workgroupBarrier();
  if (local < 8u) {
    var sum = weights[local];
    for (var at = 1u; at < ${tile / 8}u; at++) { sum += weights[local + 8u * at]; }
    eighths[local] = sum;
  }

  let column = local % ${valueQuads}u;
  let part = local / ${valueQuads}u;
  ${times(rows, (r) => `var sum${r} = vec4f();`)}
  if (part < ${parts}u) {
    ${batches(
      valueLoads,
      (at) => `let i${at} = part + ${at * parts}u; let at${at} = u32(clamp(front + i32(i${at}), low, high - 1));
    let w${at} = select(vec4f(), weights[min(i${at}, ${tile - 1}u)], i${at} < ${tile}u);
    let v${at} = valueQuad(valueStart(sample, keyHead, at${at}), column)${scaled ? ` * valueFactor(sample, keyHead, at${at})` : ""};`,
      // Nothing of a row that takes no part may reach the sum: it may hold anything.
      (at) =>
        times(
          rows,
          (r) => `sum${r} = select(sum${r}, sum${r} + w${at}.${letter(r)} * v${at}, w${at}.${letter(r)} > 0.0);`,
        ),
    )}
  }
  ${times(
    rows,
    (r) => `workgroupBarrier();
  exchange[local] = sum${r};
  workgroupBarrier();
  if (first + ${r}u < p.groupRows) {
    let at = ${partialAt(`(sample * p.heads + keyHead * p.group + row${r} % p.group) * p.queries + row${r} / p.group`, "place.x", valueQuads)};
    if (local < ${valueQuads}u) {
      var sum = vec4f();
      for (var i = local; i < ${parts * valueQuads}u; i += ${valueQuads}u) { sum += exchange[i]; }
      partials[at + local] = sum;
    }
    if (local == 0u) {
      var total = 0.0;
      for (var i = 0u; i < 8u; i++) { total += eighths[i].${letter(r)}; }
      partials[at + ${valueQuads}u] = vec4f(top.${letter(r)}, total, 0.0, 0.0);
    }
  }`,
  )}
}`;
}

function combineCode({ value, sink }: AttentionWork): string {
  const quads = quadsOf(value.size);
  const parts = Math.floor(invocations / quads);
  const hasSink = sink !== undefined;
  return `
var<workgroup> tops: array<f32, ${invocations}>;
var<workgroup> exchange: array<vec4f, ${invocations}>;

@compute @workgroup_size(${invocations}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  let query = place.x;
  let head = place.y;
  let sample = place.z;
  let row = (sample * p.heads + head) * p.queries + query;
  let seen = visible(sample, head / p.group, query);
  var begin = 0u;
  var end = 0u;
  if (seen.x < seen.y) { begin = u32(seen.x) / ${tile}u; end = (u32(seen.y) + ${tile - 1}u) / ${tile}u; }
  var top = ${hidden};
  for (var at = begin + local; at < end; at += ${invocations}u) { top = max(top, partials[${partialAt("row", "at", quads)} + ${quads}u].x); }
  tops[local] = top;
  workgroupBarrier();
  if (local < 16u) {
    for (var at = local; at < ${invocations}u; at += 16u) { top = max(top, tops[at]); }
  }
  workgroupBarrier();
  if (local < 16u) { tops[local] = top; }
  workgroupBarrier();
  top = ${hasSink ? "sinkOf(head)" : hidden};
  for (var at = 0u; at < 16u; at++) { top = max(top, tops[at]); }
  workgroupBarrier();

  let column = local % ${quads}u;
  var sum = vec4f();
  var total = 0.0;
  if (local < ${parts * quads}u) {
    for (var at = begin + local / ${quads}u; at < end; at += ${parts}u) {
      let start = ${partialAt("row", "at", quads)};
      let own = partials[start + ${quads}u];
      let part = partials[start + column];
      if (own.y != 0.0) {
        let weight = exp(own.x - top);
        sum += weight * part;
        total += weight * own.y;
      }
    }
  }
  exchange[local] = sum;
  tops[local] = total;
  workgroupBarrier();
  if (local < ${quads}u) {
    sum = vec4f();
    total = ${hasSink ? "exp(sinkOf(head) - top)" : "0.0"};
    for (var at = local; at < ${parts * quads}u; at += ${quads}u) { sum += exchange[at]; total += tops[at]; }
    writeQuad(sample, head, query, local, select(sum / total, vec4f(), total == 0.0));
  }
}`;
}
