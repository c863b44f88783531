/**
 * The shader of attention of many queries, phase by phase: for each tile of keys, scores of staged queries and keys, marks, weights with each row's
 * greatest score and total carried along, and staged values weighed; at last sums by their totals.
 *
 * Loops count by one, so that places in workgroup memory are sums and products that cannot leave the array: compilers bound all others.
 */
import { divided, range, registersFor, unrolled } from "../../../webgpu-kernels/wgsl.js";
import { type AttentionWork, type CacheRows, quadCount, wordsType } from "./attention-parts.js";
import { hidden, isHidden, least, markedIf } from "./score-marks.js";

/** How a workgroup divides its work, and what it keeps. */
export interface Sizes {
  /** Invocations that share a row of queries, and those that have rows of their own. */
  readonly sides: number;
  readonly lines: number;
  /** Rows of an invocation, and of all. */
  readonly each: number;
  readonly rows: number;
  /** Quads of queries and keys that are staged at once. */
  readonly chunk: number;
  /** Keys of an invocation, in fours. */
  readonly keysEach: number;
  /** Keys of a tile, and those whose values are staged at once. */
  readonly keys: number;
  readonly step: number;
  /** Quads of values of an invocation, and of a row with what fills it up. */
  readonly across: number;
  readonly pitch: number;
  /** Rows of staged weights: odd, so that banks do not meet. */
  readonly weightsPitch: number;
  /** Quads in memory: queries or weights, and keys or values. */
  readonly staged: number;
  readonly rowTile: number;
  /** True where the invocations of a row are side by side in a subgroup; else there is memory for what they exchange. */
  readonly isShuffled: boolean;
}

/** What the phases of a shader go by. */
export interface PrefillTile extends Sizes {
  readonly work: AttentionWork;
  readonly invocations: number;
  /** Quads of a query and of a row of values. */
  readonly quads: number;
  readonly valueQuads: number;
  /** Quads that are staged at once, of all rows. */
  readonly counts: Readonly<Record<"query" | "key" | "value", number>>;
  /** True where rows of bytes have factors. */
  readonly isScaled: boolean;
  /** True where nothing is done to scores but the scale. */
  readonly isPlain: boolean;
  /** What float16 does in another way. */
  readonly halves?: HalvesText;
}

/** Texts of a shader in float16, whose vectors in memory hold eight elements, and in which weights have an array of their own. */
interface HalvesText {
  /** Declarations, and what main begins with. */
  readonly memory: string;
  readonly begin: string;
  readonly put: { readonly query: (loaded: string) => string; readonly key: (loaded: string) => string };
  /** Products of what is staged, added to scores; what is done to them behind that, and what computes those that float16 could not hold. */
  readonly products: string;
  readonly scaled: string;
  readonly again: string;
  readonly putValue: (index: string, words: string) => string;
  readonly values: string;
  /** What weights and their totals are multiplied by. */
  readonly weightScale: number;
}

/** The tile of a work in such sizes. */
export function tileOf(work: AttentionWork, sizes: Sizes): PrefillTile {
  const { query, key, value, mask, padding, softcap } = work;
  const { rows, chunk, keys, step, pitch, lines, sides } = sizes;
  return {
    ...sizes,
    work,
    invocations: lines * sides,
    quads: quadCount(query.size),
    valueQuads: quadCount(value.size),
    counts: { query: rows * chunk, key: keys * chunk, value: step * pitch },
    isScaled: key.pages?.scales !== undefined,
    isPlain: mask === undefined && padding === undefined && softcap === 0,
  };
}

/** Loads of a tile's part: a line for each of an invocation's. */
const eachLoad = (
  { counts, invocations }: PrefillTile,
  part: "query" | "key" | "value",
  line: (index: string, load: number) => string,
): string => divided(counts[part], invocations, line);

/** The nearest key that any row sees: of others nothing is read. */
const near = (at: string): string => `u32(clamp(${at}, low, high - 1))`;

// Of queries and keys eight neighbours are loaded side by side: what is written together lies in different banks.
const lineOf = ({ chunk }: Sizes, index: string): string => `(${index} % 8u + ${index} / ${8 * chunk}u * 8u)`;
const quadAt = ({ chunk }: Sizes, index: string): string => `(${index} / 8u % ${chunk}u)`;

/** The first vector of keys in memory, behind those of queries where they share an array. */
const rowTileOf = ({ halves, rows, chunk }: PrefillTile): string =>
  halves ? `staged[${rows * chunk}u + ` : "rowTile[";

const foursOf = ({ keysEach }: PrefillTile): readonly number[] => range(keysEach / 4);

/** The names of an invocation's scores and of its sums. */
export const scoreNames = (tile: PrefillTile): readonly string[] =>
  range(tile.each).flatMap((r) => foursOf(tile).map((c) => `s${r}_${c}`));
const sumCount = ({ across, halves }: PrefillTile): number => (halves ? 2 : 1) * across;

/** Where the keys of the tile at `front` begin. Keys of an invocation follow each other, and those that are read together are neighbours in the tile. */
function keyStarts(tile: PrefillTile, front: string): string {
  const { sides, keysEach } = tile;
  const keyAt = (line: string): string =>
    `(${line} % ${sides}u * 4u + ${line} / ${sides}u${keysEach === 4 ? "" : ` % 4u + ${line} / ${4 * sides}u * ${4 * sides}u`})`;
  return eachLoad(
    tile,
    "key",
    (index, at) =>
      `near${at} = ${near(`${front} + i32(${keyAt(lineOf(tile, index))})`)}; keyFrom${at} = keyStart(sample, keyHead, near${at});`,
  );
}

/** Quads of queries and keys on their way, from quad `base` of each on. */
function loadPair(tile: PrefillTile, base: string): string {
  const { quads, chunk, halves } = tile;
  const read = halves ? "Halves" : "Words";
  const inner = (index: string): string =>
    quads % chunk === 0 ? `${base} + ${quadAt(tile, index)}` : `min(${base} + ${quadAt(tile, index)}, ${quads - 1}u)`;
  return `${eachLoad(tile, "query", (index, at) => `query_${at} = query${read}(queryFrom${at}, ${inner(index)});`)}
    ${eachLoad(tile, "key", (index, at) => `key_${at} = key${read}(keyFrom${at}, ${inner(index)});`)}`;
}

/** The same to workgroup memory. */
function putPair(tile: PrefillTile): string {
  const { quads, chunk, rows, keys, isScaled, halves } = tile;
  const query = halves?.put.query ?? ((loaded: string) => `queryValues(${loaded}) * p.scale`);
  const key = halves?.put.key ?? ((loaded: string) => `keyValues(${loaded})`);
  const within = (values: string, index: string): string =>
    quads % chunk === 0 ? values : `select(vec4f(), ${values}, base + ${quadAt(tile, index)} < ${quads}u)`;
  return `${eachLoad(tile, "query", (index, at) => `staged[${quadAt(tile, index)} * ${rows}u + ${lineOf(tile, index)}] = ${within(query(`query_${at}`), index)};`)}
    ${eachLoad(tile, "key", (index, at) => `${rowTileOf(tile)}${quadAt(tile, index)} * ${keys}u + ${lineOf(tile, index)}] = ${within(`${key(`key_${at}`)}${isScaled ? ` * keyFactor(sample, keyHead, near${at})` : ""}`, index)};`)}`;
}

/** Products of queries and keys, so many quads of them at a time. */
function addScores(tile: PrefillTile): string {
  const { each, rows, lines, chunk, keys, keysEach, sides, quads, halves } = tile;
  const chunks = Math.ceil(quads / chunk);
  return `${scoreNames(tile)
    .map((name) => `var ${name} = vec4f();`)
    .join(" ")}
    for (var part = 0u; part < ${chunks}u; part++) {
      let base = part * ${chunk}u;
      workgroupBarrier();
      ${putPair(tile)}
      workgroupBarrier();
      ${chunks === 1 ? "" : `if (part < ${chunks - 1}u) { ${loadPair(tile, `base + ${chunk}u`)} }`}
      ${
        halves?.products ??
        `for (var quad = 0u; quad < ${chunk}u; quad++) {
      ${unrolled(each, (r) => `let q${r} = staged[quad * ${rows}u + ${r * lines}u + y];`)}
        ${unrolled(keysEach, (j) => `{ let k = rowTile[quad * ${keys}u + ${j * sides}u + x]; ${unrolled(each, (r) => addedProducts(`s${r}_${j >> 2}[${j % 4}]`, `q${r}`, "k"), " ")} }`)}
      }`
      }
    }
    ${halves?.scaled ?? ""}`;
}

/** Four products, added to a sum one after the other. */
const addedProducts = (sum: string, one: string, other: string): string =>
  `${sum} = ${["x", "y", "z", "w"].reduce((text, letter) => `${text} + ${one}.${letter} * ${other}.${letter}`, sum)};`;

/** Row `r` of an invocation, of all rows that share the key head. */
const rowOf = ({ lines }: PrefillTile, r: number): string => `min(first + ${r * lines}u + y, groupRows - 1u)`;

/** Marks of scores. What else is done to them is done in loops: compilers put each call's whole text in its place. */
function markScores(tile: PrefillTile): string {
  const { each, lines, sides, keys, isPlain, halves } = tile;
  const fours = foursOf(tile);
  const seenKeys = (c: number): string => `(keys${c} >= vec4i(seen.x)) & (keys${c} < vec4i(seen.y))`;
  const finishedFour = (r: number, c: number): string =>
    `for (var j = 0u; j < 4u; j++) { s${r}_${c}[j] = finished(s${r}_${c}[j], sample, head, query, u32(keys${c}[j])); }`;
  const marks = unrolled(
    each,
    (r) => `{
      let seen = sight[${r * lines}u + y];
      ${isPlain ? "" : `let query = ${rowOf(tile, r)} / p.group; let head = keyHead * p.group + ${rowOf(tile, r)} % p.group;`}
      ${fours.map((c) => `${isPlain ? "" : finishedFour(r, c)} s${r}_${c} = select(vec4f(${hidden}), ${isPlain ? `boundedScores(s${r}_${c})` : `s${r}_${c}`}, ${seenKeys(c)});`).join(" ")}
    }`,
  );
  return `${fours.map((c) => `let keys${c} = vec4i(front + ${c === 0 ? "" : `${c * 4 * sides} + `}4 * i32(x)) + vec4i(0, 1, 2, 3);`).join(" ")}
    ${markedIf(isPlain, keys, scoreNames(tile))}
    if (isMarked) {
      ${halves?.again ?? ""}
      ${marks}
    }`;
}

/** What all invocations of a row have of `name0`, `name1`, … together: they are made one by `by`. */
function together(
  name: string,
  { each, lines, sides, isShuffled }: Sizes,
  by: (one: string, other: string) => string,
): string {
  if (isShuffled)
    return unrolled(each, (r) =>
      range(Math.log2(sides))
        .map((step) => `${name}${r} = ${by(`${name}${r}`, `subgroupShuffleXor(${name}${r}, ${2 ** step}u)`)};`)
        .join(" "),
    );
  const at = (r: number): string => `(${r * lines}u + y) * ${sides}u`;
  return `${unrolled(each, (r) => `exchange[${at(r)} + x] = ${name}${r};`)}
    workgroupBarrier();
    ${unrolled(each, (r) => `for (var other = 1u; other < ${sides}u; other++) { ${name}${r} = ${by(`${name}${r}`, `exchange[${at(r)} + (x ^ other)]`)}; }`)}`;
}

/** Scores to weights in `staged`, below 0 for keys that a mask hides, with each row's greatest score, total and sums carried along. */
function weigh(tile: PrefillTile): string {
  const { work, each, lines, sides, weightsPitch, halves } = tile;
  const fours = foursOf(tile);
  const bestOf = (r: number): string => fours.map((c) => `s${r}_${c}`).reduce((one, other) => `max(${one}, ${other})`);
  const kept = (own: string): string =>
    work.mask === undefined ? "own" : `select(own, vec4f(-1.0), ${isHidden(own, "vec4f")})`;
  return `${unrolled(each, (r) => `let b${r} = ${bestOf(r)}; var best${r} = max(max(b${r}.x, b${r}.y), max(b${r}.z, b${r}.w));`)}
    ${together("best", tile, (one, other) => `max(${one}, ${other})`)}
    ${halves ? "" : "workgroupBarrier();"}
    ${unrolled(
      each,
      (r) => `{
      let next = max(top${r}, best${r});
      let shrink = exp(top${r} - next);
      top${r} = next;
      total${r} *= shrink;
      ${fours
        .map(
          (c) => `{ var own = exp(s${r}_${c} - next);
      if (isMarked) { own = select(own, vec4f(), s${r}_${c} < vec4f(${least})); }
      ${halves ? `let rounded = bitcast<vec2u>(vec4<f16>(own * ${halves.weightScale}.0)); own = vec4f(bitcast<vec4<f16>>(rounded));` : ""}
      total${r} += dot(own, vec4f(1.0));
      ${halves ? "weights" : "staged"}[${c === 0 ? "x" : `(x + ${c * sides}u)`} * ${weightsPitch}u + ${r * lines}u + y] = ${halves ? "rounded" : kept(`s${r}_${c}`)}; }`,
        )
        .join("\n      ")}
      ${unrolled(sumCount(tile), (j) => `sum${r}_${j} *= shrink;`, " ")}
    }`,
    )}`;
}

const valueKey = ({ pitch }: PrefillTile, index: string, from: string): string =>
  `front + i32(${from} + ${index} / ${pitch}u)`;

/** Values on their way, from key `from` of the tile on. */
const loadValues = (tile: PrefillTile, from: string): string =>
  eachLoad(
    tile,
    "value",
    (index, at) =>
      `value_${at} = value${tile.halves ? "Halves" : "Words"}(valueStart(sample, keyHead, ${near(valueKey(tile, index, from))}), min(${index} % ${tile.pitch}u, ${tile.valueQuads - 1}u));`,
  );

/** The same to workgroup memory. Rows that no query sees are not added: they may hold anything. */
const putValues = (tile: PrefillTile): string =>
  eachLoad(
    tile,
    "value",
    (index, at) => `{ let from_ = ${valueKey(tile, index, "own")};
      let isSeen = ${tile.pitch === tile.valueQuads ? "" : `${index} % ${tile.pitch}u < ${tile.valueQuads}u && `}from_ >= low && from_ < high;
      ${tile.halves?.putValue(index, `value_${at}`) ?? `rowTile[${index}] = select(vec4f(), valueValues(value_${at})${tile.isScaled ? ` * valueFactor(sample, keyHead, ${near("from_")})` : ""}, isSeen);`} }`,
  );

/** Weights times values, so many keys at a time; meanwhile the next tile's queries and keys are on their way. */
function addValues(tile: PrefillTile): string {
  const { work, sides, lines, each, keys, step, across, pitch, weightsPitch, halves } = tile;
  // Under a mask some rows may hold anything: of those it hides, whose weights are below 0, nothing is added.
  const added = (r: number, j: number, at: number): string =>
    work.mask === undefined
      ? `sum${r}_${j} += p${r}[${at}] * v;`
      : `sum${r}_${j} += select(vec4f(), p${r}[${at}] * v, p${r}[${at}] >= 0.0);`;
  return `for (var part = 0u; part < ${keys / step}u; part++) {
      let own = part * ${step}u;
      ${step === keys && !halves ? "" : "workgroupBarrier();"}
      ${putValues(tile)}
      workgroupBarrier();
      ${step === keys ? loadPair(tile, "0u") : `if (part < ${keys / step - 1}u) { ${loadValues(tile, `own + ${step}u`)} } else { ${loadPair(tile, "0u")} }`}
      ${
        halves?.values ??
        `for (var four = 0u; four < ${step / 4}u; four++) {
      ${unrolled(each, (r) => `let p${r} = staged[(part * ${step / 4}u + four) * ${weightsPitch}u + ${r * lines}u + y];`)}
      ${unrolled(4, (at) =>
        unrolled(
          across,
          (j) =>
            `{ let v = rowTile[(four * 4u + ${at}u) * ${pitch}u + ${j * sides}u + x]; ${unrolled(each, (r) => added(r, j, at), " ")} }`,
        ),
      )}
      }`
      }
    }`;
}

/** Sums by their totals, to the output. */
function writeRows(tile: PrefillTile): string {
  const { work, sides, lines, each, valueQuads, halves } = tile;
  const { sink } = work;
  const count = sumCount(tile);
  return `${together("total", tile, (one, other) => `${one} + ${other}`)}
  ${unrolled(
    each,
    (r) => `{
    let query = ${rowOf(tile, r)} / p.group;
    let head = keyHead * p.group + ${rowOf(tile, r)} % p.group;
    var total = total${r};
    var above = top${r};
    ${sink === undefined ? "" : `above = max(above, sinkOf(head)); total = total * exp(top${r} - above) + ${halves ? `${halves.weightScale}.0 * ` : ""}exp(sinkOf(head) - above);`}
    let shrink = ${sink === undefined ? "1.0" : `exp(top${r} - above)`};
    if (first + ${r * lines}u + y < groupRows) {
      var sums = array<vec4f, ${count}>(${unrolled(count, (j) => `sum${r}_${j}`, ", ")});
      for (var j = 0u; j < ${count}u; j++) {
        let quad = ${halves ? `2u * (j / 2u * ${sides}u + x) + j % 2u` : `j * ${sides}u + x`};
        if (quad < ${halves ? 2 * valueQuads : valueQuads}u) { writeQuad(sample, head, query, quad, weighedMean(sums[j] * shrink, total, above)); }
      }
    }
  }`,
  )}`;
}

/** The shader; `sight` tells a workgroup's place: see `tileSight`. */
export function prefillCode(tile: PrefillTile, sight: string): string {
  const { work, counts, invocations, sides, each, rows, keys, staged, rowTile, isShuffled, halves } = tile;
  const registers = (part: "query" | "key" | "value", name: string, type: string): string =>
    registersFor(counts[part], invocations, name, type);
  const sums = unrolled(each, (r) => unrolled(sumCount(tile), (j) => `var sum${r}_${j} = vec4f();`, " "));
  const words = (of: CacheRows): string => (halves ? "vec4u" : wordsType(of));
  const memory = `var<workgroup> staged: array<vec4f, ${staged}>;
var<workgroup> rowTile: array<vec4f, ${rowTile}>;`;
  return `
${halves?.memory ?? memory}
var<workgroup> sight: array<vec2i, ${rows}>;
${isShuffled ? "" : `var<workgroup> exchange: array<f32, ${rows * sides}>;`}

@compute @workgroup_size(${invocations}) fn main(
  @builtin(workgroup_id) place: vec3u, @builtin(num_workgroups) places: vec3u, @builtin(local_invocation_index) local: u32,
) {
  ${sight}
  for (var at = local; at < ${rows}u; at += ${invocations}u) {
    sight[at] = visible(sample, keyHead, min(first + at, groupRows - 1u) / p.group);
  }
  ${halves?.begin ?? ""}
  let x = local % ${sides}u;
  let y = local / ${sides}u;
  ${unrolled(each, (r) => `var top${r} = ${hidden}; var total${r} = 0.0;`)}
  ${sums}
  ${registers("query", "query_", words(work.query))} ${registers("key", "key_", words(work.key))} ${registers("value", "value_", words(work.value))}
  ${registers("key", "keyFrom", "u32")} ${registers("key", "near", "u32")} ${registers("query", "queryFrom", "u32")}
  ${eachLoad(tile, "query", (index, at) => `{ let asked = min(first + ${lineOf(tile, index)}, groupRows - 1u); queryFrom${at} = queryStart(sample, keyHead * p.group + asked % p.group, asked / p.group); }`)}
  let begin = low / ${keys} * ${keys};
  ${keyStarts(tile, "begin")}
  ${loadPair(tile, "0u")}
  for (var front = begin; front < high; front += ${keys}) {
    ${addScores(tile)}
    ${loadValues(tile, "0u")}
    ${markScores(tile)}
    ${weigh(tile)}
    ${keyStarts(tile, `front + ${keys}`)}
    ${addValues(tile)}
  }

  ${writeRows(tile)}
}`;
}
