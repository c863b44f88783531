/**
 * Attention of many queries: a workgroup holds a tile of rows that share a key head and walks the keys that any of them sees, a tile at a time,
 * with the greatest score and the sum of weights of each row carried along.
 */
import type { WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { dispatchOf } from "../../../webgpu-kernels/shader-part.js";
import { packing, unrolled } from "../../../webgpu-kernels/wgsl.js";
import {
  type AttentionWork,
  outputPart,
  quadCount,
  queryPart,
  rowsPart,
  scorePart,
  sinkPart,
  visiblePart,
} from "./attention-parts.js";
import { onlySeveral, queryTiles } from "./packed-batch.js";
import { hidden, isHidden, least } from "./score-marks.js";

/** Rows of queries and keys of a tile. An invocation has two rows, and four keys or one quad of each chunk of values. */
const tile = 32;
const invocations = 128;
/** Quads that are staged at once, and how far rows of them lie apart: odd, so that banks do not meet. */
const chunk = 8;
const pitch = chunk + 1;

/** Records the dispatch. */
export function recordPrefill(work: AttentionWork, recorder: WebgpuRecorder): void {
  const { query, key, value } = work;
  const group = query.heads / key.heads;
  const tiles = queryTiles(work, tile);
  recorder.dispatch(
    dispatchOf({
      name: "attentionPrefill",
      parts: [
        packing,
        queryPart(work),
        rowsPart("key", key),
        rowsPart("value", value),
        visiblePart(work),
        scorePart(work),
        sinkPart(work),
        outputPart(work),
        { code: tiles.code },
      ],
      code: prefillCode(work, tiles.find("place.x")),
      parameters: { group, groupRows: group * query.rows, scale: { float: work.scale } },
      workgroups: [tiles.count, key.heads, tiles.samples],
      ...onlySeveral(work, recorder),
    }),
  );
}

function prefillCode(work: AttentionWork, find: string): string {
  const { query, key, value, mask, sink } = work;
  const quads = quadCount(query.size);
  const valueQuads = quadCount(value.size);
  const chunks = Math.ceil(quads / chunk);
  const valueChunks = Math.ceil(valueQuads / chunk);
  const scaled = key.pages?.scales !== undefined;
  // Under a mask some rows may hold anything: of those it hides, whose weights are below 0, nothing is added.
  const added = (row: number, at: number, i: number): string => {
    const term = `p${row}.${"xyzw"[i]} * v${i}`;
    return mask === undefined
      ? `sum${row}_${at} += ${term};`
      : `sum${row}_${at} += select(vec4f(), ${term}, p${row}.${"xyzw"[i]} >= 0.0);`;
  };
  return `
var<workgroup> askedTile: array<vec4f, ${tile * pitch}>;
var<workgroup> rowTile: array<vec4f, ${tile * pitch}>;
var<workgroup> weights: array<vec4f, ${tile * pitch}>;
var<workgroup> exchange: array<f32, ${tile * 8}>;

@compute @workgroup_size(${invocations}) fn main(@builtin(workgroup_id) place: vec3u, @builtin(local_invocation_index) local: u32) {
  ${find}
  let keyHead = place.y;
  let final_ = min(first + ${tile}u, groupRows) - 1u;
  // What a row sees grows with its query: the first and the last bound them all.
  let early = visible(sample, keyHead, first / p.group);
  let late = visible(sample, keyHead, final_ / p.group);
  let low = max(min(early.x, late.x), 0);
  let high = max(early.y, late.y);
  let x = local % 8u;
  let y = local / 8u;
  ${unrolled(
    2,
    (r) => `let row${r} = first + 2u * y + ${r}u;
  let query${r} = min(row${r}, groupRows - 1u) / p.group;
  let head${r} = keyHead * p.group + min(row${r}, groupRows - 1u) % p.group;
  let seen${r} = visible(sample, keyHead, query${r});
  var top${r} = ${hidden};
  var total${r} = 0.0;
  ${unrolled(valueChunks, (at) => `var sum${r}_${at} = vec4f();`)}`,
  )}

  for (var front = low / ${tile} * ${tile}; front < high; front += ${tile}) {
    ${unrolled(2, (r) => unrolled(4, (i) => `var s${r}${i} = 0.0;`))}
    for (var base = 0u; base < ${chunks * chunk}u; base += ${chunk}u) {
      workgroupBarrier();
      for (var at = local; at < ${tile * chunk}u; at += ${invocations}u) {
        let row = at / ${chunk}u;
        let quad = base + at % ${chunk}u;
        let inner = min(quad, ${quads - 1}u);
        let isIn = quad < ${quads}u;
        let asked = min(first + row, groupRows - 1u);
        let start = queryStart(sample, keyHead * p.group + asked % p.group, asked / p.group);
        askedTile[row * ${pitch}u + at % ${chunk}u] = select(vec4f(), queryQuad(start, inner) * p.scale, isIn);
        let key = front + i32(row);
        // Keys of one invocation lie eight rows apart, so that banks do not meet.
        let slot = (row % 4u * 8u + row / 4u) * ${pitch}u + at % ${chunk}u;
        let near = u32(clamp(key, low, high - 1));
        rowTile[slot] = select(vec4f(), keyQuad(keyStart(sample, keyHead, near), inner)${scaled ? " * keyFactor(sample, keyHead, near)" : ""}, isIn && key < high);
      }
      workgroupBarrier();
      for (var quad = 0u; quad < ${chunk}u; quad++) {
        let q0 = askedTile[2u * y * ${pitch}u + quad];
        let q1 = askedTile[(2u * y + 1u) * ${pitch}u + quad];
        ${unrolled(4, (i) => `let k${i} = rowTile[(${8 * i}u + x) * ${pitch}u + quad]; s0${i} += dot(q0, k${i}); s1${i} += dot(q1, k${i});`)}
      }
    }
    let key = front + 4 * i32(x);
    ${unrolled(
      2,
      (r) =>
        `${unrolled(
          4,
          (i) =>
            `s${r}${i} = select(${hidden}, finished(s${r}${i}, sample, head${r}, query${r}, u32(key + ${i})), key + ${i} >= seen${r}.x && key + ${i} < seen${r}.y);`,
        )}
    exchange[(2u * y + ${r}u) * 8u + x] = max(max(s${r}0, s${r}1), max(s${r}2, s${r}3));`,
    )}
    workgroupBarrier();
    ${unrolled(
      2,
      (r) => `var next${r} = top${r};
    for (var at = 0u; at < 8u; at++) { next${r} = max(next${r}, exchange[(2u * y + ${r}u) * 8u + at]); }
    let shrink${r} = exp(top${r} - next${r});
    top${r} = next${r};
    let scores${r} = vec4f(s${r}0, s${r}1, s${r}2, s${r}3);
    let own${r} = select(exp(scores${r} - top${r}), vec4f(), scores${r} < vec4f(${least}));
    total${r} = total${r} * shrink${r} + dot(own${r}, vec4f(1.0));
    weights[(2u * y + ${r}u) * ${pitch}u + x] = ${mask === undefined ? `own${r}` : `select(own${r}, vec4f(-1.0), ${isHidden(`scores${r}`, "vec4f")})`};
    ${unrolled(valueChunks, (at) => `sum${r}_${at} *= shrink${r};`)}`,
    )}
    ${unrolled(
      valueChunks,
      (at) => `workgroupBarrier();
    for (var i = local; i < ${tile * chunk}u; i += ${invocations}u) {
      let row = i / ${chunk}u;
      let quad = ${at * chunk}u + i % ${chunk}u;
      let key = front + i32(row);
      // Rows that no query sees are not added: they may hold anything.
      let near = u32(clamp(key, low, high - 1));
      rowTile[row * ${pitch}u + i % ${chunk}u] = select(vec4f(), valueQuad(valueStart(sample, keyHead, near), min(quad, ${valueQuads - 1}u))${scaled ? " * valueFactor(sample, keyHead, near)" : ""}, quad < ${valueQuads}u && key >= low && key < high);
    }
    workgroupBarrier();
    for (var i = 0u; i < ${tile / 4}u; i++) {
      let p0 = weights[2u * y * ${pitch}u + i];
      let p1 = weights[(2u * y + 1u) * ${pitch}u + i];
      ${unrolled(4, (i) => `let v${i} = rowTile[(4u * i + ${i}u) * ${pitch}u + x]; ${added(0, at, i)} ${added(1, at, i)}`)}
    }`,
    )}
  }

  workgroupBarrier();
  ${unrolled(2, (r) => `exchange[(2u * y + ${r}u) * 8u + x] = total${r};`)}
  workgroupBarrier();
  ${unrolled(
    2,
    (r) => `{
    var total = 0.0;
    for (var at = 0u; at < 8u; at++) { total += exchange[(2u * y + ${r}u) * 8u + at]; }
    var above = top${r};
    ${sink === undefined ? "" : `above = max(above, sinkOf(head${r})); total = total * exp(top${r} - above) + exp(sinkOf(head${r}) - above);`}
    let shrink = ${sink === undefined ? "1.0" : `exp(top${r} - above)`};
    if (row${r} < groupRows) {
      ${unrolled(
        valueChunks,
        (at) =>
          `if (${at * chunk}u + x < ${valueQuads}u) { writeQuad(sample, head${r}, query${r}, ${at * chunk}u + x, weighedMean(sum${r}_${at} * shrink, total, above)); }`,
      )}
    }
  }`,
  )}
}`;
}
