/**
 * Attention of many queries: a workgroup holds a tile of rows that share a key head and walks the keys that any of them sees, a tile at a time,
 * with the greatest score and the sum of weights of each row carried along.
 */
import type { AttentionTile } from "../../../webgpu-kernels/tuning.js";
import type { DeviceTraits, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { dispatchOf } from "../../../webgpu-kernels/shader-part.js";
import { packing, range, unrolled } from "../../../webgpu-kernels/wgsl.js";
import {
  type AttentionWork,
  outputPart,
  quadCount,
  queryPart,
  rowsPart,
  scorePart,
  sinkPart,
  visiblePart,
  wordsType,
} from "./attention-parts.js";
import { functionsPart } from "./functions.js";
import { onlySeveral, queryTiles, tileSight } from "./packed-batch.js";
import { hidden, isHidden, least } from "./score-marks.js";

/** Quads of queries and keys that are staged at once. */
const chunk = 8;

/** Keys of an invocation: those of a vector. */
const keysEach = 4;

/** Scores whose bits, without the sign, are beyond these may be marks: they are looked at one by one. */
const ordinary = "0x7f61b1e6u";

/** How a workgroup divides its work, and what it keeps. */
interface Sizes {
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

/** A tile's sizes for rows of so many quads of values: where those are many, an invocation has fewer rows, so that its sums stay in registers. */
function sizesOf(
  { lines, sides, rowsEach }: AttentionTile,
  valueQuads: number,
  { subgroup }: Pick<DeviceTraits, "subgroup">,
): Sizes {
  const across = Math.ceil(valueQuads / sides);
  const most = rowsEach * Math.ceil(usualQuads / sides); // quads of sums
  let each = rowsEach;
  while (each > 1 && each * across > most) each /= 2;
  const keys = sides * keysEach;
  const [rows, pitch] = [lines * each, across * sides];
  const steps = [keys, keys / 2, keys / 4];
  const step = steps.find((count) => count * pitch <= keys * chunk) ?? keys / 8;
  const weightsPitch = rows + 1;
  return {
    sides,
    lines,
    each,
    rows,
    keys,
    step,
    across,
    pitch,
    weightsPitch,
    staged: Math.max(rows * chunk, (keys / keysEach) * weightsPitch),
    rowTile: Math.max(keys * chunk, step * pitch),
    isShuffled: subgroup !== undefined && subgroup >= sides,
  };
}

/** Quads of the rows that tiles are made for. */
const usualQuads = 32;

/** Bytes of workgroup memory. */
const bytesOf = ({ staged, rowTile, isShuffled, rows, sides }: Sizes): number =>
  16 * (staged + rowTile) + 8 * rows + (isShuffled ? 0 : 4 * rows * sides);

/** The sizes of the first tile that fits, else of the last. */
function sizesFor(valueQuads: number, device: DeviceTraits): Sizes {
  const { attentionTiles } = device.tuning.manyRows;
  const all = attentionTiles.map((tile) => sizesOf(tile, valueQuads, device));
  const isFitting = (sizes: Sizes): boolean =>
    bytesOf(sizes) <= device.workgroupBytes && sizes.lines * sizes.sides <= device.mostInvocations;
  return all.find(isFitting) ?? all.at(-1)!;
}

/** Records the dispatch. */
export function recordPrefill(work: AttentionWork, recorder: WebgpuRecorder): void {
  const { query, key, value } = work;
  const group = query.heads / key.heads;
  const sizes = sizesFor(quadCount(value.size), recorder.device);
  const tiles = queryTiles(work, sizes.rows);
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
        functionsPart("boundedScores"),
        sinkPart(work),
        outputPart(work),
        { code: tiles.code },
      ],
      extensions: sizes.isShuffled ? ["subgroups"] : [],
      code: prefillCode(work, sizes, tileSight(tiles, sizes.rows)),
      parameters: { group, groupRows: group * query.rows, scale: { float: work.scale } },
      workgroups: [tiles.count, key.heads, tiles.samples],
      ...onlySeveral(work, recorder),
    }),
  );
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

/** Four products, added to a sum one after the other. */
const addedProducts = (sum: string, one: string, other: string): string =>
  `${sum} = ${["x", "y", "z", "w"].reduce((text, letter) => `${text} + ${one}.${letter} * ${other}.${letter}`, sum)};`;

function prefillCode(work: AttentionWork, sizes: Sizes, sight: string): string {
  const { query, key, value, mask, padding, softcap, sink } = work;
  const { sides, lines, each, rows, keys, step, across, pitch, weightsPitch } = sizes;
  const invocations = lines * sides;
  const quads = quadCount(query.size);
  const valueQuads = quadCount(value.size);
  const chunks = Math.ceil(quads / chunk);
  const counts = { query: rows * chunk, key: keys * chunk, value: step * pitch };
  const scaled = key.pages?.scales !== undefined;
  /** Loads of a tile's part, so many quads of them: a line for each of an invocation's. */
  const eachLoad = (count: number, line: (index: string, load: number) => string): string =>
    unrolled(Math.ceil(count / invocations), (load) => {
      const index = load === 0 ? "local" : `(local + ${load * invocations}u)`;
      const text = line(index, load);
      return (load + 1) * invocations <= count ? text : `if (${index} < ${count}u) { ${text} }`;
    });
  const registers = (name: string, count: number, type: string): string =>
    unrolled(Math.ceil(count / invocations), (at) => `var ${name}${at}: ${type};`, " ");

  // Of queries and keys eight neighbours are loaded side by side: what is written together lies in different banks.
  const line = (index: string): string => `(${index} % 8u + ${index} / ${8 * chunk}u * 8u)`;
  const quadAt = (index: string): string => `(${index} / 8u % ${chunk}u)`;
  // Keys of an invocation follow each other, and those that are read together are neighbours in the tile.
  const keyAt = (index: string): string => `(${line(index)} % ${sides}u * ${keysEach}u + ${line(index)} / ${sides}u)`;
  const isWhole = quads % chunk === 0;
  const inner = (index: string, base: string): string =>
    isWhole ? `${base} + ${quadAt(index)}` : `min(${base} + ${quadAt(index)}, ${quads - 1}u)`;
  const within = (values: string, index: string): string =>
    isWhole ? values : `select(vec4f(), ${values}, base + ${quadAt(index)} < ${quads}u)`;
  const near = (at: string): string => `u32(clamp(${at}, low, high - 1))`;
  const keyStarts = (front: string): string =>
    eachLoad(
      counts.key,
      (index, at) =>
        `near${at} = ${near(`${front} + i32(${keyAt(index)})`)}; keyFrom${at} = keyStart(sample, keyHead, near${at});`,
    );
  const loadPair = (base: string): string =>
    `${eachLoad(counts.query, (index, at) => `query_${at} = queryWords(queryFrom${at}, ${inner(index, base)});`)}
    ${eachLoad(counts.key, (index, at) => `key_${at} = keyWords(keyFrom${at}, ${inner(index, base)});`)}`;
  const putPair = `${eachLoad(counts.query, (index, at) => `staged[${quadAt(index)} * ${rows}u + ${line(index)}] = ${within(`queryValues(query_${at}) * p.scale`, index)};`)}
    ${eachLoad(counts.key, (index, at) => `rowTile[${quadAt(index)} * ${keys}u + ${line(index)}] = ${within(`keyValues(key_${at})${scaled ? ` * keyFactor(sample, keyHead, near${at})` : ""}`, index)};`)}`;
  const valueKey = (index: string, from: string): string => `front + i32(${from} + ${index} / ${pitch}u)`;
  const loadValues = (from: string): string =>
    eachLoad(
      counts.value,
      (index, at) =>
        `value_${at} = valueWords(valueStart(sample, keyHead, ${near(valueKey(index, from))}), min(${index} % ${pitch}u, ${valueQuads - 1}u));`,
    );
  // Rows that no query sees are not added: they may hold anything.
  const putValues = eachLoad(
    counts.value,
    (index, at) => `{ let from_ = ${valueKey(index, "own")};
      rowTile[${index}] = select(vec4f(), valueValues(value_${at})${scaled ? ` * valueFactor(sample, keyHead, ${near("from_")})` : ""}, ${pitch === valueQuads ? "" : `${index} % ${pitch}u < ${valueQuads}u && `}from_ >= low && from_ < high); }`,
  );
  // Under a mask some rows may hold anything: of those it hides, whose weights are below 0, nothing is added.
  const added = (r: number, j: number, at: number): string =>
    mask === undefined
      ? `sum${r}_${j} += p${r}[${at}] * v;`
      : `sum${r}_${j} += select(vec4f(), p${r}[${at}] * v, p${r}[${at}] >= 0.0);`;
  const ofSums = (text: (r: number, j: number) => string): string =>
    unrolled(each, (r) => unrolled(across, (j) => text(r, j), " "));

  // Scores that are ordinary numbers and seen by all need no marks; where something else is done to them, all are gone through, in loops: compilers
  // put each call's whole text in its place.
  const isPlain = mask === undefined && padding === undefined && softcap === 0;
  const row = (r: number): string => `min(first + ${r * lines}u + y, groupRows - 1u)`;
  const seenKeys = "(keys >= vec4i(seen.x)) & (keys < vec4i(seen.y))";
  const marks = unrolled(
    each,
    (r) => `{
      let seen = sight[${r * lines}u + y];
      ${
        isPlain
          ? `s${r} = select(vec4f(${hidden}), boundedScores(s${r}), ${seenKeys});`
          : `let query = ${row(r)} / p.group;
      let head = keyHead * p.group + ${row(r)} % p.group;
      for (var j = 0u; j < ${keysEach}u; j++) { s${r}[j] = finished(s${r}[j], sample, head, query, u32(keys[j])); }
      s${r} = select(vec4f(${hidden}), s${r}, ${seenKeys});`
      }
    }`,
  );

  return `
var<workgroup> staged: array<vec4f, ${sizes.staged}>;
var<workgroup> rowTile: array<vec4f, ${sizes.rowTile}>;
var<workgroup> sight: array<vec2i, ${rows}>;
${sizes.isShuffled ? "" : `var<workgroup> exchange: array<f32, ${rows * sides}>;`}

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
  ${ofSums((r, j) => `var sum${r}_${j} = vec4f();`)}
  ${registers("query_", counts.query, wordsType(query))} ${registers("key_", counts.key, wordsType(key))} ${registers("value_", counts.value, wordsType(value))}
  ${registers("keyFrom", counts.key, "u32")} ${registers("near", counts.key, "u32")} ${registers("queryFrom", counts.query, "u32")}
  ${eachLoad(counts.query, (index, at) => `{ let asked = min(first + ${line(index)}, groupRows - 1u); queryFrom${at} = queryStart(sample, keyHead * p.group + asked % p.group, asked / p.group); }`)}
  let begin = low / ${keys} * ${keys};
  ${keyStarts("begin")}
  ${loadPair("0u")}
  for (var front = begin; front < high; front += ${keys}) {
    ${unrolled(each, (r) => `var s${r} = vec4f();`)}
    for (var base = 0u; base < ${chunks * chunk}u; base += ${chunk}u) {
      workgroupBarrier();
      ${putPair}
      workgroupBarrier();
      ${chunks === 1 ? "" : `if (base + ${chunk}u < ${chunks * chunk}u) { ${loadPair(`base + ${chunk}u`)} }`}
      for (var quad = 0u; quad < ${chunk}u; quad++) {
      ${unrolled(each, (r) => `let q${r} = staged[quad * ${rows}u + ${r * lines}u + y];`)}
        ${unrolled(keysEach, (j) => `{ let k = rowTile[quad * ${keys}u + ${j * sides}u + x]; ${unrolled(each, (r) => addedProducts(`s${r}[${j}]`, `q${r}`, "k"), " ")} }`)}
      }
    }
    ${loadValues("0u")}
    let keys = vec4i(front + ${keysEach} * i32(x)) + vec4i(0, 1, 2, 3);
    ${
      isPlain
        ? `var bits = vec4u();
    ${unrolled(each, (r) => `bits = max(bits, bitcast<vec4u>(s${r}) & vec4u(0x7fffffffu));`)}
    let isMarked = front < everyFrom || front + ${keys} > everyTo || max(max(bits.x, bits.y), max(bits.z, bits.w)) > ${ordinary};`
        : "let isMarked = true;"
    }
    if (isMarked) {
      ${marks}
    }
    ${unrolled(each, (r) => `var best${r} = max(max(s${r}.x, s${r}.y), max(s${r}.z, s${r}.w));`)}
    ${together("best", sizes, (one, other) => `max(${one}, ${other})`)}
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
      staged[x * ${weightsPitch}u + ${r * lines}u + y] = ${mask === undefined ? "own" : `select(own, vec4f(-1.0), ${isHidden(`s${r}`, "vec4f")})`};
      ${unrolled(across, (j) => `sum${r}_${j} *= shrink;`, " ")}
    }`,
    )}
    ${keyStarts(`front + ${keys}`)}
    for (var own = 0u; own < ${keys}u; own += ${step}u) {
      ${step === keys ? "" : "workgroupBarrier();"}
      ${putValues}
      workgroupBarrier();
      ${step === keys ? loadPair("0u") : `if (own + ${step}u < ${keys}u) { ${loadValues(`own + ${step}u`)} } else { ${loadPair("0u")} }`}
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
    }
  }

  ${together("total", sizes, (one, other) => `${one} + ${other}`)}
  ${unrolled(
    each,
    (r) => `{
    let query = ${row(r)} / p.group;
    let head = keyHead * p.group + ${row(r)} % p.group;
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
  )}
}`;
}
