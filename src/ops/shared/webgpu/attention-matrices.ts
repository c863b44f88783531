/**
 * Attention of many queries where subgroups multiply matrices together: float16 rows, scores and sums in float32, weights rounded to float16. As in
 * attention-prefill, a workgroup holds a tile of rows that share a key head and walks the keys that any of them sees, a tile at a time. Queries and
 * sums stay in matrices; a row's greatest score may lag behind by `slack`, so that sums are seldom scaled anew. A value that is not finite reaches every
 * row of a tile in which any row sees it.
 *
 * Every array in workgroup memory is a multiple of 16 bytes, since drivers place them one after the other and load matrices by 16; places in them are
 * written out where they are used: see product-matrices.
 */
import type { DeviceTraits, SubgroupMatrix, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { dispatchOf } from "../../../webgpu-kernels/shader-part.js";
import { packing, range, unrolled } from "../../../webgpu-kernels/wgsl.js";
import {
  type AttentionWork,
  type CacheRows,
  outputPart,
  queryPart,
  rowsPart,
  scorePart,
  sinkPart,
  visiblePart,
} from "./attention-parts.js";
import { onlySeveral, queryTiles, tileSight } from "./packed-batch.js";
import { matrixExtensions, matrixTypes } from "./product-matrices.js";
import { hidden, least } from "./score-marks.js";

/** Elements between rows of a tile beyond what they hold, so that rows lie in different banks. */
const gap = 8;

/** How far scores may exceed what weights are relative to: their exponentials are within float16. */
const slack = 8;

/** Elements of a row that registers hold. */
const mostSize = 128;

/** Scores whose bits, without the sign, are beyond these may be marks: they are looked at one by one. */
const ordinary = "0x7f61b1e6u";

/** How a workgroup computes. */
interface Shape {
  /** Subgroups: each has a matrix of query rows. */
  readonly subgroups: number;
  /** Keys of a tile. */
  readonly keys: number;
}

/** Tried in this order where there are many workgroups: twice the rows share what is brought into workgroup memory. */
const wide: Shape = { subgroups: 8, keys: 32 };
const narrow: readonly Shape[] = [
  { subgroups: 4, keys: 64 },
  { subgroups: 4, keys: 32 },
];

/** The sizes of such an attention. */
interface Sizes extends Shape {
  /** Query rows of a tile. */
  readonly rows: number;
  /** Of them, those that are brought in at a time. */
  readonly strip: number;
  /** Float16 elements of the tiles, those of weights from `weights` on. */
  readonly halves: number;
  readonly weights: number;
}

const bytesOf = ({ keys, rows, halves }: Sizes): number => 2 * halves + 4 * rows * (keys + gap) + 4 * rows + 16;

function sizesOf({ query, value }: AttentionWork, shape: Shape, matrix: SubgroupMatrix): Sizes {
  const { subgroups, keys } = shape;
  const rows = subgroups * matrix.rows;
  const strip = Math.min(rows, 4 * matrix.rows);
  const weights = keys * (Math.max(query.size, value.size) + gap);
  return {
    ...shape,
    rows,
    strip,
    weights,
    halves: Math.max(strip * (query.size + gap), weights + rows * (keys + gap)),
  };
}

const hasEights = ({ offset, sample, head, row, pages }: CacheRows): boolean =>
  [offset, sample, head, row, pages?.block ?? 0].every((step) => step % 8 === 0) && (pages?.piece ?? 0) === 0;

/** The sizes in which the device computes it so; undefined where it does not. */
function sizesFor(work: AttentionWork, device: DeviceTraits): Sizes | undefined {
  const { query, key, value, mask } = work;
  const { subgroup, subgroupMatrix, workgroupBytes, mostInvocations, tuning } = device;
  if (subgroup === undefined || subgroupMatrix === undefined || subgroup % subgroupMatrix.rows !== 0) return undefined;
  // Matrices multiply what a mask hides by zero, and it may hold anything.
  if (mask !== undefined) return undefined;
  for (const rows of [query, key, value] as const)
    if (rows.type !== "float16" || rows.size % 16 !== 0 || rows.size > mostSize || !hasEights(rows)) return undefined;
  const large = sizesOf(work, wide, subgroupMatrix);
  const { count, samples } = queryTiles(work, large.rows);
  const isMany =
    count * key.heads * samples >= tuning.manyRows.manyAttentions && wide.subgroups * subgroup <= mostInvocations;
  return [...(isMany ? [large] : []), ...narrow.map((shape) => sizesOf(work, shape, subgroupMatrix))].find(
    (sizes) => bytesOf(sizes) <= workgroupBytes,
  );
}

/** Records the dispatch where the device computes it so; else false. */
export function recordInMatrices(work: AttentionWork, recorder: WebgpuRecorder): boolean {
  const { query, key, value } = work;
  const { device } = recorder;
  const sizes = sizesFor(work, device);
  if (sizes === undefined) return false;
  const group = query.heads / key.heads;
  const tiles = queryTiles(work, sizes.rows);
  recorder.dispatch(
    dispatchOf({
      name: "attentionInMatrices",
      parts: [
        packing,
        queryPart(work, 8),
        rowsPart("key", key, { width: 8 }),
        rowsPart("value", value, { width: 8 }),
        visiblePart(work),
        scorePart(work),
        sinkPart(work),
        outputPart(work),
        { code: tiles.code },
      ],
      extensions: matrixExtensions,
      code: matricesCode(work, sizes, device.subgroupMatrix!, device.subgroup!, tileSight(tiles, sizes.rows)),
      parameters: { group, groupRows: group * query.rows, scale: { float: work.scale } },
      workgroups: [tiles.count, key.heads, tiles.samples],
      ...onlySeveral(work, recorder),
    }),
  );
  return true;
}

function matricesCode(
  { query, value, sink, softcap, padding }: AttentionWork,
  { subgroups, keys, rows, strip, halves, weights }: Sizes,
  matrix: SubgroupMatrix,
  lanes: number,
  sight: string,
): string {
  const types = matrixTypes(matrix);
  const invocations = subgroups * lanes;
  const pitch = { query: query.size + gap, value: value.size + gap, weights: keys + gap };
  const sides = lanes / matrix.rows; // invocations that share a row
  const quads = keys / 4 / sides; // of a row, for each of them
  const depths = query.size / matrix.depth;
  const across = value.size / matrix.columns;
  const tiles = keys / matrix.columns; // matrices of keys

  /** Eights of so many rows of a size, divided among the invocations: a line for each of one invocation's. */
  const eachEight = (count: number, size: number, line: (row: string, eight: string, at: number) => string): string => {
    const eights = size / 8;
    return unrolled(Math.ceil((count * eights) / invocations), (at) => {
      const index = at === 0 ? "local" : `(local + ${at * invocations}u)`;
      const text = line(`${index} / ${eights}u`, `${index} % ${eights}u`, at);
      return (at + 1) * invocations <= count * eights ? text : `if (${index} < ${count * eights}u) { ${text} }`;
    });
  };
  const put = (words: string, row: string, eight: string, width: number): string =>
    `{ let at = ${row} * ${width}u + ${eight} * 8u; ${["xy", "zw"]
      .flatMap((pair, half) =>
        range(4).map((i) => `halves[at + ${4 * half + i}u] = bitcast<vec4<f16>>(${words}.${pair})[${i}];`),
      )
      .join(" ")} }`;
  const fetch = (name: "key" | "value", size: number, front: string): string =>
    eachEight(
      keys,
      size,
      (row, eight, at) =>
        `${name}Words${at} = ${name}Halves(${name}Start(sample, keyHead, u32(clamp(${front} + i32(${row}), low, high - 1))), ${eight});`,
    );
  const registers = (name: string, size: number): string =>
    range(Math.ceil((keys * size) / 8 / invocations))
      .map((at) => `var ${name}Words${at}: vec4u;`)
      .join(" ");

  // Matrices of sums are brought to the rows' invocations and back through the memory of scores, as many at a time as it holds.
  const strips = range(Math.ceil(across / tiles)).map((strip) =>
    range(Math.min(tiles, across - strip * tiles)).map((at) => strip * tiles + at),
  );
  const place = (at: number): string => `own * ${matrix.rows * pitch.weights}u + ${at * matrix.columns}u`;
  const stored = (strip: readonly number[]): string =>
    strip
      .map((d, at) => `subgroupMatrixStore<row_major>(&scores, ${place(at)}, sum${d}, ${pitch.weights}u);`)
      .join("\n      ");
  const reloaded = (strip: readonly number[]): string =>
    strip
      .map(
        (d, at) => `sum${d} = subgroupMatrixLoad<${types.sums}, row_major>(&scores, ${place(at)}, ${pitch.weights}u);`,
      )
      .join("\n      ");
  const at = (quad: string): string => `line * ${pitch.weights}u + side * 4u + ${quad} * ${4 * sides}u`;
  const quadOf = (quad: string): string =>
    `vec4f(${range(4)
      .map((i) => `scores[${at(quad)} + ${i}u]`)
      .join(", ")})`;
  /** A line for each step in which the invocations of a row put something together. */
  const together = (line: (by: number) => string): string =>
    range(Math.log2(sides))
      .map((step) => line(2 ** step))
      .join(" ");

  // Subgroups take their rows from a strip of them at a time, which is all that the tiles' memory holds.
  const turns = strip / matrix.rows;
  const bringQueries = (at: number): string => `${at === 0 ? "" : "workgroupBarrier();"}
  ${eachEight(strip, query.size, (row, eight) => `{ let asked = min(first + ${at * strip}u + ${row}, groupRows - 1u); let words = queryHalves(queryStart(sample, keyHead * p.group + asked % p.group, asked / p.group), ${eight}); ${put("words", row, eight, pitch.query)} }`)}
  workgroupBarrier();
  if (own / ${turns}u == ${at}u) {
    ${unrolled(depths, (d) => `query${d} = subgroupMatrixLoad<${types.left}, row_major>(&halves, own % ${turns}u * ${matrix.rows * pitch.query}u + ${d * matrix.depth}u, ${pitch.query}u);`)}
  }`;

  // Scores that are finite and seen by all need no marks; where something else is done to them, all are gone through.
  const isPlain = softcap === 0 && padding === undefined;
  const marked = (quad: number): string =>
    `vec4f(${range(4)
      .map((i) => `finished(score${quad}[${i}], sample, head, asking, u32(key${quad} + ${i}))`)
      .join(", ")})`;
  const marks = unrolled(
    quads,
    (quad) => `let key${quad} = front + i32(side) * 4 + ${quad * 4 * sides};
    score${quad} = select(vec4f(${hidden}), ${marked(quad)}, (vec4i(key${quad}) + vec4i(0, 1, 2, 3) >= vec4i(seen.x)) & (vec4i(key${quad}) + vec4i(0, 1, 2, 3) < vec4i(seen.y)));`,
  );
  const largest = unrolled(quads, (quad) => `bits = max(bits, bitcast<vec4u>(score${quad}) & vec4u(0x7fffffffu));`);

  return `
var<workgroup> halves: array<f16, ${halves}>;
var<workgroup> scores: array<f32, ${rows * pitch.weights}>;
var<workgroup> shrinks: array<f32, ${rows}>;
var<workgroup> moved: array<atomic<u32>, 4>;

@compute @workgroup_size(${invocations}) fn main(
  @builtin(workgroup_id) place: vec3u, @builtin(num_workgroups) places: vec3u, @builtin(local_invocation_index) local: u32,
  @builtin(subgroup_id) subgroup: u32,
) {
  let own = subgroup % ${subgroups}u;
  ${sight}
  let line = local / ${sides}u;
  let side = local % ${sides}u;
  let row = min(first + line, groupRows - 1u);
  let asking = row / p.group;
  let head = keyHead * p.group + row % p.group;
  let seen = visible(sample, keyHead, asking);
  var top = ${hidden};
  var total = 0.0;

  ${unrolled(depths, (d) => `var query${d} = ${types.left}();`)}
  ${unrolled(rows / strip, bringQueries)}
  ${unrolled(across, (d) => `var sum${d} = ${types.sums}();`)}
  ${registers("key", query.size)} ${registers("value", value.size)}
  let begin = low / ${keys} * ${keys};
  ${fetch("key", query.size, "begin")}
  for (var front = begin; front < high; front += ${keys}) {
    workgroupBarrier();
    ${eachEight(keys, query.size, (row, eight, at) => put(`keyWords${at}`, row, eight, pitch.query))}
    if (local == 0u) { atomicStore(&moved[0], 0u); }
    workgroupBarrier();
    ${fetch("value", value.size, "front")}
    ${unrolled(
      tiles,
      (n) => `{
      var score = ${types.sums}();
      ${unrolled(depths, (d) => `score = subgroupMatrixMultiplyAccumulate(query${d}, subgroupMatrixLoad<${types.right}, col_major>(&halves, ${n * matrix.columns * pitch.query + d * matrix.depth}u, ${pitch.query}u), score);`)}
      subgroupMatrixStore<row_major>(&scores, ${place(n)}, score, ${pitch.weights}u);
    }`,
    )}
    workgroupBarrier();

    // Rows that no query sees are zero: weights of zero are multiplied too.
    ${eachEight(keys, value.size, (row, eight, at) => `{ let from_ = front + i32(${row}); if (from_ < low || from_ >= high) { valueWords${at} = vec4u(); } } ${put(`valueWords${at}`, row, eight, pitch.value)}`)}
    ${unrolled(quads, (quad) => `var score${quad} = ${quadOf(`${quad}u`)} * p.scale;`)}
    ${
      isPlain
        ? `var bits = vec4u();
    ${largest}
    let isMarked = front < everyFrom || front + ${keys} > everyTo || max(max(bits.x, bits.y), max(bits.z, bits.w)) > ${ordinary};`
        : "let isMarked = true;"
    }
    if (isMarked) {
    ${marks}
    }
    var tops = score0;
    ${unrolled(quads - 1, (quad) => `tops = max(tops, score${quad + 1});`)}
    var best = max(max(tops.x, tops.y), max(tops.z, tops.w));
    ${together((by) => `best = max(best, subgroupShuffleXor(best, ${by}u));`)}
    var shrink = 1.0;
    if (best > top + ${slack}.0) {
      shrink = exp(top - best);
      top = best;
      total *= shrink;
      atomicStore(&moved[0], 1u);
    }
    if (side == 0u) { shrinks[line] = shrink; }
    var sums = vec4f();
    ${unrolled(
      quads,
      (quad) => `{
      var weight = exp(score${quad} - top);
      if (isMarked) { weight = select(weight, vec4f(), score${quad} < vec4f(${least})); }
      sums += weight;
      ${range(4)
        .map((i) => `halves[${weights}u + ${at(`${quad}u`)} + ${i}u] = f16(weight[${i}]);`)
        .join(" ")}
    }`,
    )}
    total += dot(sums, vec4f(1.0));

    if (workgroupUniformLoad(&moved[0]) != 0u) {
      ${strips
        .map(
          (strip) => `${stored(strip)}
      workgroupBarrier();
      for (var i = 0u; i < ${(strip.length * matrix.columns) / sides}u; i++) { scores[line * ${pitch.weights}u + side + i * ${sides}u] *= shrinks[line]; }
      workgroupBarrier();
      ${reloaded(strip)}
      workgroupBarrier();`,
        )
        .join("\n      ")}
    }
    ${fetch("key", query.size, `front + ${keys}`)}
    ${unrolled(
      keys / matrix.depth,
      (n) => `{
      let weight = subgroupMatrixLoad<${types.left}, row_major>(&halves, ${weights + n * matrix.depth}u + own * ${matrix.rows * pitch.weights}u, ${pitch.weights}u);
      ${unrolled(across, (d) => `sum${d} = subgroupMatrixMultiplyAccumulate(weight, subgroupMatrixLoad<${types.right}, row_major>(&halves, ${n * matrix.depth * pitch.value + d * matrix.columns}u, ${pitch.value}u), sum${d});`)}
    }`,
    )}
  }

  ${together((by) => `total += subgroupShuffleXor(total, ${by}u);`)}
  var above = top;
  ${sink === undefined ? "" : "above = max(above, sinkOf(head)); total = total * exp(top - above) + exp(sinkOf(head) - above);"}
  let shrink = ${sink === undefined ? "1.0" : "exp(top - above)"};
  ${strips
    .map(
      (strip, s) => `workgroupBarrier();
  ${stored(strip)}
  workgroupBarrier();
  if (first + line < groupRows) {
    for (var quad = 0u; quad < ${(strip.length * matrix.columns) / 4 / sides}u; quad++) {
      writeQuad(sample, head, asking, ${(s * tiles * matrix.columns) / 4}u + side + quad * ${sides}u, weighedMean(${quadOf("quad")} * shrink, total, above));
    }
  }`,
    )
    .join("\n  ")}
}`;
}
