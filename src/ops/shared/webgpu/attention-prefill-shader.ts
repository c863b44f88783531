/**
 * The shader of attention of many queries, phase by phase: for each tile of keys, scores of staged queries and keys, marks, weights with each row's
 * greatest score and total carried along, and staged values weighed; at last sums by their totals.
 */
import { divided, range, registersFor, unrolled } from "../../../webgpu-kernels/wgsl.js";
import { type AttentionWork, quadCount, wordsType } from "./attention-parts.js";
import { hidden, isHidden, least, markedIf } from "./score-marks.js";

/** Quads of queries and keys that are staged at once. */
export const chunk = 8;

/** Keys of an invocation: those of a vector. */
export const keysEach = 4;

/** How a workgroup divides its work, and what it keeps. */
export interface Sizes {
  /** Invocations that share a row of queries, and those that have rows of their own. */
  readonly sides: number;
  readonly lines: number;
  /** Rows of an invocation, and of all. */
  readonly each: number;
  readonly rows: number;
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
interface PrefillTile extends Sizes {
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
}

/** The tile of a work in such sizes. */
export function tileOf(work: AttentionWork, sizes: Sizes): PrefillTile {
  const { query, key, value, mask, padding, softcap } = work;
  const { rows, keys, step, pitch, lines, sides } = sizes;
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
const lineOf = (index: string): string => `(${index} % 8u + ${index} / ${8 * chunk}u * 8u)`;
const quadAt = (index: string): string => `(${index} / 8u % ${chunk}u)`;

/** Where the keys of the tile at `front` begin. Keys of an invocation follow each other, and those that are read together are neighbours in the tile. */
function keyStarts(tile: PrefillTile, front: string): string {
  const keyAt = (index: string): string =>
    `(${lineOf(index)} % ${tile.sides}u * ${keysEach}u + ${lineOf(index)} / ${tile.sides}u)`;
  return eachLoad(
    tile,
    "key",
    (index, at) =>
      `near${at} = ${near(`${front} + i32(${keyAt(index)})`)}; keyFrom${at} = keyStart(sample, keyHead, near${at});`,
  );
}

/** Quads of queries and keys on their way, from quad `base` of each on. */
function loadPair(tile: PrefillTile, base: string): string {
  const { quads } = tile;
  const inner = (index: string): string =>
    quads % chunk === 0 ? `${base} + ${quadAt(index)}` : `min(${base} + ${quadAt(index)}, ${quads - 1}u)`;
  return `${eachLoad(tile, "query", (index, at) => `query_${at} = queryWords(queryFrom${at}, ${inner(index)});`)}
    ${eachLoad(tile, "key", (index, at) => `key_${at} = keyWords(keyFrom${at}, ${inner(index)});`)}`;
}

/** The same to workgroup memory. */
function putPair(tile: PrefillTile): string {
  const { quads, rows, keys, isScaled } = tile;
  const within = (values: string, index: string): string =>
    quads % chunk === 0 ? values : `select(vec4f(), ${values}, base + ${quadAt(index)} < ${quads}u)`;
  return `${eachLoad(tile, "query", (index, at) => `staged[${quadAt(index)} * ${rows}u + ${lineOf(index)}] = ${within(`queryValues(query_${at}) * p.scale`, index)};`)}
    ${eachLoad(tile, "key", (index, at) => `rowTile[${quadAt(index)} * ${keys}u + ${lineOf(index)}] = ${within(`keyValues(key_${at})${isScaled ? ` * keyFactor(sample, keyHead, near${at})` : ""}`, index)};`)}`;
}

/** Products of queries and keys, so many quads of them at a time. */
function addScores(tile: PrefillTile): string {
  const { each, rows, lines, keys, sides, quads } = tile;
  const chunks = Math.ceil(quads / chunk);
  return `${unrolled(each, (r) => `var s${r} = vec4f();`)}
    for (var base = 0u; base < ${chunks * chunk}u; base += ${chunk}u) {
      workgroupBarrier();
      ${putPair(tile)}
      workgroupBarrier();
      ${chunks === 1 ? "" : `if (base + ${chunk}u < ${chunks * chunk}u) { ${loadPair(tile, `base + ${chunk}u`)} }`}
      for (var quad = 0u; quad < ${chunk}u; quad++) {
      ${unrolled(each, (r) => `let q${r} = staged[quad * ${rows}u + ${r * lines}u + y];`)}
        ${unrolled(keysEach, (j) => `{ let k = rowTile[quad * ${keys}u + ${j * sides}u + x]; ${unrolled(each, (r) => addedProducts(`s${r}[${j}]`, `q${r}`, "k"), " ")} }`)}
      }
    }`;
}

/** Four products, added to a sum one after the other. */
const addedProducts = (sum: string, one: string, other: string): string =>
  `${sum} = ${["x", "y", "z", "w"].reduce((text, letter) => `${text} + ${one}.${letter} * ${other}.${letter}`, sum)};`;

/** Row `r` of an invocation, of all rows that share the key head. */
const rowOf = ({ lines }: PrefillTile, r: number): string => `min(first + ${r * lines}u + y, groupRows - 1u)`;

/** Marks of scores. What else is done to them is done in loops: compilers put each call's whole text in its place. */
function markScores(tile: PrefillTile): string {
  const { each, lines, keys, isPlain } = tile;
  const seenKeys = "(keys >= vec4i(seen.x)) & (keys < vec4i(seen.y))";
  const marks = unrolled(
    each,
    (r) => `{
      let seen = sight[${r * lines}u + y];
      ${
        isPlain
          ? `s${r} = select(vec4f(${hidden}), boundedScores(s${r}), ${seenKeys});`
          : `let query = ${rowOf(tile, r)} / p.group;
      let head = keyHead * p.group + ${rowOf(tile, r)} % p.group;
      for (var j = 0u; j < ${keysEach}u; j++) { s${r}[j] = finished(s${r}[j], sample, head, query, u32(keys[j])); }
      s${r} = select(vec4f(${hidden}), s${r}, ${seenKeys});`
      }
    }`,
  );
  return `let keys = vec4i(front + ${keysEach} * i32(x)) + vec4i(0, 1, 2, 3);
    ${markedIf(
      isPlain,
      keys,
      range(each).map((r) => `s${r}`),
    )}
    if (isMarked) {
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
  const { work, each, lines, across, weightsPitch } = tile;
  return `${unrolled(each, (r) => `var best${r} = max(max(s${r}.x, s${r}.y), max(s${r}.z, s${r}.w));`)}
    ${together("best", tile, (one, other) => `max(${one}, ${other})`)}
    workgroupBarrier();
    ${unrolled(
      each,
      (r) => `{
      let next = max(top${r}, best${r});
      let shrink = exp(top${r} - next);
      top${r} = next;
      var own = exp(s${r} - next);
      if (isMarked) { own = select(own, vec4f(), s${r} < vec4f(${least})); }
      total${r} = total${r} * shrink + dot(own, vec4f(1.0));
      staged[x * ${weightsPitch}u + ${r * lines}u + y] = ${work.mask === undefined ? "own" : `select(own, vec4f(-1.0), ${isHidden(`s${r}`, "vec4f")})`};
      ${unrolled(across, (j) => `sum${r}_${j} *= shrink;`, " ")}
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
      `value_${at} = valueWords(valueStart(sample, keyHead, ${near(valueKey(tile, index, from))}), min(${index} % ${tile.pitch}u, ${tile.valueQuads - 1}u));`,
  );

/** The same to workgroup memory. Rows that no query sees are not added: they may hold anything. */
const putValues = (tile: PrefillTile): string =>
  eachLoad(
    tile,
    "value",
    (index, at) => `{ let from_ = ${valueKey(tile, index, "own")};
      rowTile[${index}] = select(vec4f(), valueValues(value_${at})${tile.isScaled ? ` * valueFactor(sample, keyHead, ${near("from_")})` : ""}, ${tile.pitch === tile.valueQuads ? "" : `${index} % ${tile.pitch}u < ${tile.valueQuads}u && `}from_ >= low && from_ < high); }`,
  );

/** Weights times values, so many keys at a time; meanwhile the next tile's queries and keys are on their way. */
function addValues(tile: PrefillTile): string {
  const { work, sides, lines, each, keys, step, across, pitch, weightsPitch } = tile;
  // Under a mask some rows may hold anything: of those it hides, whose weights are below 0, nothing is added.
  const added = (r: number, j: number, at: number): string =>
    work.mask === undefined
      ? `sum${r}_${j} += p${r}[${at}] * v;`
      : `sum${r}_${j} += select(vec4f(), p${r}[${at}] * v, p${r}[${at}] >= 0.0);`;
  return `for (var own = 0u; own < ${keys}u; own += ${step}u) {
      ${step === keys ? "" : "workgroupBarrier();"}
      ${putValues(tile)}
      workgroupBarrier();
      ${step === keys ? loadPair(tile, "0u") : `if (own + ${step}u < ${keys}u) { ${loadValues(tile, `own + ${step}u`)} } else { ${loadPair(tile, "0u")} }`}
      for (var four = 0u; four < ${step / 4}u; four++) {
      ${unrolled(each, (r) => `let p${r} = staged[(own / 4u + four) * ${weightsPitch}u + ${r * lines}u + y];`)}
      ${unrolled(4, (at) =>
        unrolled(
          across,
          (j) =>
            `{ let v = rowTile[(four * 4u + ${at}u) * ${pitch}u + ${j * sides}u + x]; ${unrolled(each, (r) => added(r, j, at), " ")} }`,
        ),
      )}
      }
    }`;
}

/** Sums by their totals, to the output. */
function writeRows(tile: PrefillTile): string {
  const { work, sides, lines, each, across, valueQuads } = tile;
  const { sink } = work;
  return `${together("total", tile, (one, other) => `${one} + ${other}`)}
  ${unrolled(
    each,
    (r) => `{
    let query = ${rowOf(tile, r)} / p.group;
    let head = keyHead * p.group + ${rowOf(tile, r)} % p.group;
    var total = total${r};
    var above = top${r};
    ${sink === undefined ? "" : `above = max(above, sinkOf(head)); total = total * exp(top${r} - above) + exp(sinkOf(head) - above);`}
    let shrink = ${sink === undefined ? "1.0" : `exp(top${r} - above)`};
    if (first + ${r * lines}u + y < groupRows) {
      var sums = array<vec4f, ${across}>(${unrolled(across, (j) => `sum${r}_${j}`, ", ")});
      for (var j = 0u; j < ${across}u; j++) {
        let quad = j * ${sides}u + x;
        if (quad < ${valueQuads}u) { writeQuad(sample, head, query, quad, weighedMean(sums[j] * shrink, total, above)); }
      }
    }
  }`,
  )}`;
}

/** The shader; `sight` tells a workgroup's place: see `tileSight`. */
export function prefillCode(tile: PrefillTile, sight: string): string {
  const { work, counts, invocations, sides, each, rows, keys, across, staged, rowTile, isShuffled } = tile;
  const registers = (part: "query" | "key" | "value", name: string, type: string): string =>
    registersFor(counts[part], invocations, name, type);
  const sums = unrolled(each, (r) => unrolled(across, (j) => `var sum${r}_${j} = vec4f();`, " "));
  return `
var<workgroup> staged: array<vec4f, ${staged}>;
var<workgroup> rowTile: array<vec4f, ${rowTile}>;
var<workgroup> sight: array<vec2i, ${rows}>;
${isShuffled ? "" : `var<workgroup> exchange: array<f32, ${rows * sides}>;`}

@compute @workgroup_size(${invocations}) fn main(
  @builtin(workgroup_id) place: vec3u, @builtin(num_workgroups) places: vec3u, @builtin(local_invocation_index) local: u32,
) {
  ${sight}
  for (var at = local; at < ${rows}u; at += ${invocations}u) {
    sight[at] = visible(sample, keyHead, min(first + at, groupRows - 1u) / p.group);
  }
  let x = local % ${sides}u;
  let y = local / ${sides}u;
  ${unrolled(each, (r) => `var top${r} = ${hidden}; var total${r} = 0.0;`)}
  ${sums}
  ${registers("query", "query_", wordsType(work.query))} ${registers("key", "key_", wordsType(work.key))} ${registers("value", "value_", wordsType(work.value))}
  ${registers("key", "keyFrom", "u32")} ${registers("key", "near", "u32")} ${registers("query", "queryFrom", "u32")}
  ${eachLoad(tile, "query", (index, at) => `{ let asked = min(first + ${lineOf(index)}, groupRows - 1u); queryFrom${at} = queryStart(sample, keyHead * p.group + asked % p.group, asked / p.group); }`)}
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
