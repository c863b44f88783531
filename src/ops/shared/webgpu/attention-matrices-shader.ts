/**
 * The shader of attention in matrices of subgroups, phase by phase: queries to matrices, then for each tile of keys their products, marks and weights,
 * sums scaled anew where a row's greatest score has grown, and weights times values; at last sums by their totals.
 *
 * Every array in workgroup memory is a multiple of 16 bytes, since drivers place them one after the other and load matrices by 16; places in them are
 * written out where they are used: see product-matrices.
 */
import type { SubgroupMatrix } from "../../../webgpu-kernels/webgpu-kernel.js";
import { divided, range, registersFor, unrolled } from "../../../webgpu-kernels/wgsl.js";
import type { AttentionWork } from "./attention-parts.js";
import { matrixTypes, putEight } from "./product-matrices.js";
import { hidden, least, markedIf } from "./score-marks.js";

/** Elements between rows of a tile beyond what they hold, so that rows lie in different banks. */
export const gap = 8;

/** How far scores may exceed what weights are relative to: their exponentials are within float16. */
const slack = 8;

/** How a workgroup computes. */
export interface Shape {
  /** Subgroups: each has a matrix of query rows. */
  readonly subgroups: number;
  /** Keys of a tile. */
  readonly keys: number;
}

/** The sizes of such an attention. */
export interface Sizes extends Shape {
  /** Query rows of a tile. */
  readonly rows: number;
  /** Of them, those that are brought in at a time. */
  readonly strip: number;
  /** Float16 elements of the tiles, those of weights from `weights` on. */
  readonly halves: number;
  readonly weights: number;
}

/** What the phases of a shader go by: the work, its sizes, and how its places are counted. */
interface Layout extends Sizes {
  readonly work: AttentionWork;
  readonly matrix: SubgroupMatrix;
  readonly types: Readonly<Record<"left" | "right" | "sums", string>>;
  readonly invocations: number;
  /** Elements between rows of queries and keys, of values, and of scores and weights. */
  readonly pitch: Readonly<Record<"query" | "value" | "weights", number>>;
  /** Invocations that share a row, and quads of its scores that each of them has. */
  readonly sides: number;
  readonly quads: number;
  /** Matrices of a query, of a row of values, and of a tile's keys. */
  readonly depths: number;
  readonly across: number;
  readonly tiles: number;
}

/** The layout of a work in such sizes, where subgroups have so many lanes. */
export function layoutOf(work: AttentionWork, sizes: Sizes, matrix: SubgroupMatrix, lanes: number): Layout {
  const { query, value } = work;
  const { keys, subgroups } = sizes;
  const sides = lanes / matrix.rows;
  return {
    ...sizes,
    work,
    matrix,
    types: matrixTypes(matrix),
    invocations: subgroups * lanes,
    pitch: { query: query.size + gap, value: value.size + gap, weights: keys + gap },
    sides,
    quads: keys / 4 / sides,
    depths: query.size / matrix.depth,
    across: value.size / matrix.columns,
    tiles: keys / matrix.columns,
  };
}

/** Eights of so many rows of a size, divided among the invocations: a line for each of one invocation's. */
const eachEight = (
  { invocations }: Layout,
  count: number,
  size: number,
  line: (row: string, eight: string, at: number) => string,
): string =>
  divided((count * size) / 8, invocations, (index, at) =>
    line(`${index} / ${size / 8}u`, `${index} % ${size / 8}u`, at),
  );

const put = (words: string, row: string, eight: string, width: number): string =>
  `{ let at = ${row} * ${width}u + ${eight} * 8u; ${putEight("halves", words)} }`;

/** A tile of keys or values on its way from the caches to registers. */
const fetch = (layout: Layout, name: "key" | "value", front: string): string =>
  eachEight(
    layout,
    layout.keys,
    layout.work[name].size,
    (row, eight, at) =>
      `${name}Words${at} = ${name}Halves(${name}Start(sample, keyHead, u32(clamp(${front} + i32(${row}), low, high - 1))), ${eight});`,
  );

/** Keys to workgroup memory. */
const putKeys = (layout: Layout): string =>
  eachEight(layout, layout.keys, layout.work.query.size, (row, eight, at) =>
    put(`keyWords${at}`, row, eight, layout.pitch.query),
  );

/** Values to workgroup memory. Rows that no query sees are zero: weights of zero are multiplied too. */
const putValues = (layout: Layout): string =>
  eachEight(
    layout,
    layout.keys,
    layout.work.value.size,
    (row, eight, at) =>
      `{ let from_ = front + i32(${row}); if (from_ < low || from_ >= high) { valueWords${at} = vec4u(); } } ${put(`valueWords${at}`, row, eight, layout.pitch.value)}`,
  );

/** Queries to matrices. Subgroups take their rows from a strip of them at a time, which is all that the tiles' memory holds. */
function bringQueries(layout: Layout): string {
  const { work, matrix, types, pitch, rows, strip, depths } = layout;
  const turns = strip / matrix.rows;
  const bring = (at: number): string => `${at === 0 ? "" : "workgroupBarrier();"}
  ${eachEight(layout, strip, work.query.size, (row, eight) => `{ let asked = min(first + ${at * strip}u + ${row}, groupRows - 1u); let words = queryHalves(queryStart(sample, keyHead * p.group + asked % p.group, asked / p.group), ${eight}); ${put("words", row, eight, pitch.query)} }`)}
  workgroupBarrier();
  if (own / ${turns}u == ${at}u) {
    ${unrolled(depths, (d) => `query${d} = subgroupMatrixLoad<${types.left}, row_major>(&halves, own % ${turns}u * ${matrix.rows * pitch.query}u + ${d * matrix.depth}u, ${pitch.query}u);`)}
  }`;
  return unrolled(rows / strip, bring);
}

/** A matrix of a subgroup's scores, or of its sums meanwhile. */
const place = ({ matrix, pitch }: Layout, at: number): string =>
  `own * ${matrix.rows * pitch.weights}u + ${at * matrix.columns}u`;

/** Products of queries and keys, into the memory of scores. */
function multiplyKeys(layout: Layout): string {
  const { matrix, types, pitch, depths, tiles } = layout;
  return unrolled(
    tiles,
    (n) => `{
      var score = ${types.sums}();
      ${unrolled(depths, (d) => `score = subgroupMatrixMultiplyAccumulate(query${d}, subgroupMatrixLoad<${types.right}, col_major>(&halves, ${n * matrix.columns * pitch.query + d * matrix.depth}u, ${pitch.query}u), score);`)}
      subgroupMatrixStore<row_major>(&scores, ${place(layout, n)}, score, ${pitch.weights}u);
    }`,
  );
}

/** A quad of an invocation's, in the memory of scores or of weights. */
const quadAt = ({ pitch, sides }: Layout, quad: string): string =>
  `line * ${pitch.weights}u + side * 4u + ${quad} * ${4 * sides}u`;

const quadOf = (layout: Layout, quad: string): string =>
  `vec4f(${range(4)
    .map((i) => `scores[${quadAt(layout, quad)} + ${i}u]`)
    .join(", ")})`;

/** A line for each step in which the invocations of a row put something together. */
const together = ({ sides }: Layout, line: (by: number) => string): string =>
  range(Math.log2(sides))
    .map((step) => line(2 ** step))
    .join(" ");

/** Scores of an invocation, marked where keys are not seen or something else is done to them. */
function markScores(layout: Layout): string {
  const { work, sides, quads, keys } = layout;
  const marked = (quad: number): string =>
    `vec4f(${range(4)
      .map((i) => `finished(score${quad}[${i}], sample, head, asking, u32(key${quad} + ${i}))`)
      .join(", ")})`;
  const marks = unrolled(
    quads,
    (quad) => `let key${quad} = front + i32(side) * 4 + ${quad * 4 * sides};
    score${quad} = select(vec4f(${hidden}), ${marked(quad)}, (vec4i(key${quad}) + vec4i(0, 1, 2, 3) >= vec4i(seen.x)) & (vec4i(key${quad}) + vec4i(0, 1, 2, 3) < vec4i(seen.y)));`,
  );
  const isPlain = work.softcap === 0 && work.padding === undefined;
  return `${unrolled(quads, (quad) => `var score${quad} = ${quadOf(layout, `${quad}u`)} * p.scale;`)}
    ${markedIf(
      isPlain,
      keys,
      range(quads).map((quad) => `score${quad}`),
    )}
    if (isMarked) {
    ${marks}
    }`;
}

/** Scores to weights of float16, with the row's greatest score and total carried along; `moved` where a row's sums must shrink. */
function weigh(layout: Layout): string {
  const { quads, weights } = layout;
  return `var tops = score0;
    ${unrolled(quads - 1, (quad) => `tops = max(tops, score${quad + 1});`)}
    var best = max(max(tops.x, tops.y), max(tops.z, tops.w));
    ${together(layout, (by) => `best = max(best, subgroupShuffleXor(best, ${by}u));`)}
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
        .map((i) => `halves[${weights}u + ${quadAt(layout, `${quad}u`)} + ${i}u] = f16(weight[${i}]);`)
        .join(" ")}
    }`,
    )}
    total += dot(sums, vec4f(1.0));`;
}

/** Matrices of sums are brought to the rows' invocations and back through the memory of scores, as many at a time as it holds. */
const stripsOf = ({ across, tiles }: Layout): readonly (readonly number[])[] =>
  range(Math.ceil(across / tiles)).map((strip) =>
    range(Math.min(tiles, across - strip * tiles)).map((at) => strip * tiles + at),
  );

const stored = (layout: Layout, strip: readonly number[]): string =>
  strip
    .map((d, at) => `subgroupMatrixStore<row_major>(&scores, ${place(layout, at)}, sum${d}, ${layout.pitch.weights}u);`)
    .join("\n      ");

/** Sums of rows whose greatest score has grown, scaled anew. */
function shrinkSums(layout: Layout): string {
  const { matrix, types, pitch, sides } = layout;
  const reloaded = (strip: readonly number[]): string =>
    strip
      .map(
        (d, at) =>
          `sum${d} = subgroupMatrixLoad<${types.sums}, row_major>(&scores, ${place(layout, at)}, ${pitch.weights}u);`,
      )
      .join("\n      ");
  return stripsOf(layout)
    .map(
      (strip) => `${stored(layout, strip)}
      workgroupBarrier();
      for (var i = 0u; i < ${(strip.length * matrix.columns) / sides}u; i++) { scores[line * ${pitch.weights}u + side + i * ${sides}u] *= shrinks[line]; }
      workgroupBarrier();
      ${reloaded(strip)}
      workgroupBarrier();`,
    )
    .join("\n      ");
}

/** Weights times values, added to the sums. */
function addValues({ matrix, types, pitch, keys, weights, across }: Layout): string {
  return unrolled(
    keys / matrix.depth,
    (n) => `{
      let weight = subgroupMatrixLoad<${types.left}, row_major>(&halves, ${weights + n * matrix.depth}u + own * ${matrix.rows * pitch.weights}u, ${pitch.weights}u);
      ${unrolled(across, (d) => `sum${d} = subgroupMatrixMultiplyAccumulate(weight, subgroupMatrixLoad<${types.right}, row_major>(&halves, ${n * matrix.depth * pitch.value + d * matrix.columns}u, ${pitch.value}u), sum${d});`)}
    }`,
  );
}

/** Sums by their totals, to the output. */
function writeRows(layout: Layout): string {
  const { work, matrix, sides, tiles } = layout;
  const { sink } = work;
  return `${together(layout, (by) => `total += subgroupShuffleXor(total, ${by}u);`)}
  var above = top;
  ${sink === undefined ? "" : "above = max(above, sinkOf(head)); total = total * exp(top - above) + exp(sinkOf(head) - above);"}
  let shrink = ${sink === undefined ? "1.0" : "exp(top - above)"};
  ${stripsOf(layout)
    .map(
      (strip, s) => `workgroupBarrier();
  ${stored(layout, strip)}
  workgroupBarrier();
  if (first + line < groupRows) {
    for (var quad = 0u; quad < ${(strip.length * matrix.columns) / 4 / sides}u; quad++) {
      writeQuad(sample, head, asking, ${(s * tiles * matrix.columns) / 4}u + side + quad * ${sides}u, weighedMean(${quadOf(layout, "quad")} * shrink, total, above));
    }
  }`,
    )
    .join("\n  ")}`;
}

/** The shader; `sight` tells a workgroup's place: see `tileSight`. */
export function matricesCode(layout: Layout, sight: string): string {
  const { work, types, invocations, subgroups, keys, rows, halves, pitch, sides, depths, across } = layout;
  const registers = (name: "key" | "value"): string =>
    registersFor((keys * work[name].size) / 8, invocations, `${name}Words`, "vec4u");
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
  ${bringQueries(layout)}
  ${unrolled(across, (d) => `var sum${d} = ${types.sums}();`)}
  ${registers("key")} ${registers("value")}
  let begin = low / ${keys} * ${keys};
  ${fetch(layout, "key", "begin")}
  for (var front = begin; front < high; front += ${keys}) {
    workgroupBarrier();
    ${putKeys(layout)}
    if (local == 0u) { atomicStore(&moved[0], 0u); }
    workgroupBarrier();
    ${fetch(layout, "value", "front")}
    ${multiplyKeys(layout)}
    workgroupBarrier();

    // Rows that no query sees are zero: weights of zero are multiplied too.
    ${putValues(layout)}
    ${markScores(layout)}
    ${weigh(layout)}

    if (workgroupUniformLoad(&moved[0]) != 0u) {
      ${shrinkSums(layout)}
    }
    ${fetch(layout, "key", `front + ${keys}`)}
    ${addValues(layout)}
  }

  ${writeRows(layout)}
}`;
}
