/**
 * Attention of many queries: a workgroup holds a tile of rows that share a key head and walks the keys that any of them sees, a tile at a time,
 * with the greatest score and the sum of weights of each row carried along.
 */
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
import { onlySeveral, queryTiles } from "./packed-batch.js";
import { hidden, isHidden, least } from "./score-marks.js";

/** Keys of a tile. */
const keys = 32;
const invocations = 128;
/** Invocations that share a row of queries: each has so many of a tile's keys and quads of values. */
const sides = 8;
/** Those that have rows of their own. */
const lines = invocations / sides;
/** Quads of queries and keys that are staged at once. */
const chunk = 8;

/** Quads of values that are staged at once at most, where a row takes no more. */
const mostStaged = 256;

/** True where the invocations of a row are side by side in a subgroup. */
const shuffles = ({ subgroup }: Pick<DeviceTraits, "subgroup">): boolean => subgroup !== undefined && subgroup >= sides;

/** Rows of queries that an invocation has, as many as its sums leave room for. */
const rowsEach = (valueQuads: number): 1 | 2 | 4 => (valueQuads <= 32 ? 4 : valueQuads <= 64 ? 2 : 1);

/** Records the dispatch. */
export function recordPrefill(work: AttentionWork, recorder: WebgpuRecorder): void {
  const { query, key, value } = work;
  const group = query.heads / key.heads;
  const tiles = queryTiles(work, lines * rowsEach(quadCount(value.size)));
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
      extensions: shuffles(recorder.device) ? ["subgroups"] : [],
      code: prefillCode(work, recorder.device, tiles.find("places.x - 1u - place.x")),
      parameters: { group, groupRows: group * query.rows, scale: { float: work.scale } },
      workgroups: [tiles.count, key.heads, tiles.samples],
      ...onlySeveral(work, recorder),
    }),
  );
}

/** Loads of a tile's part, so many quads of them: a line for each of an invocation's. */
const eachLoad = (count: number, line: (index: string, load: number) => string): string =>
  unrolled(Math.ceil(count / invocations), (load) => {
    const index = load === 0 ? "local" : `(local + ${load * invocations}u)`;
    const text = line(index, load);
    return (load + 1) * invocations <= count ? text : `if (${index} < ${count}u) { ${text} }`;
  });

/** What all invocations of a row have of `name0`, `name1`, … together: they are made one by `by`. */
function together(name: string, rows: number, by: (one: string, other: string) => string, isShuffled: boolean): string {
  if (isShuffled)
    return unrolled(rows, (r) =>
      range(Math.log2(sides))
        .map((step) => `${name}${r} = ${by(`${name}${r}`, `subgroupShuffleXor(${name}${r}, ${2 ** step}u)`)};`)
        .join(" "),
    );
  const at = (r: number): string => `(${r * lines}u + y) * ${sides}u`;
  return `${unrolled(rows, (r) => `exchange[${at(r)} + x] = ${name}${r};`)}
    workgroupBarrier();
    ${unrolled(rows, (r) => `for (var other = 1u; other < ${sides}u; other++) { ${name}${r} = ${by(`${name}${r}`, `exchange[${at(r)} + (x ^ other)]`)}; }`)}`;
}

/** Four products, added to a sum one after the other. */
const addedProducts = (sum: string, one: string, other: string): string =>
  `${sum} = ${["x", "y", "z", "w"].reduce((text, letter) => `${text} + ${one}.${letter} * ${other}.${letter}`, sum)};`;

function prefillCode(work: AttentionWork, { subgroup }: DeviceTraits, find: string): string {
  const { query, key, value, mask, padding, softcap, sink } = work;
  const isShuffled = shuffles({ subgroup });
  const quads = quadCount(query.size);
  const valueQuads = quadCount(value.size);
  const each = rowsEach(valueQuads);
  const rows = lines * each;
  const chunks = Math.ceil(quads / chunk);
  const across = Math.ceil(valueQuads / sides); // quads of values of an invocation
  const pitch = across * sides;
  const step = [keys, keys / 2, keys / 4].find((count) => count * pitch <= mostStaged) ?? keys / 8; // keys whose values are staged at once
  const weightsPitch = rows + 1; // odd, so that banks do not meet
  const counts = { query: rows * chunk, key: keys * chunk, value: step * pitch };
  const scaled = key.pages?.scales !== undefined;
  const registers = (name: string, count: number, type: string): string =>
    unrolled(Math.ceil(count / invocations), (at) => `var ${name}${at}: ${type};`, " ");

  // Of queries and keys eight neighbours are loaded side by side: what is written together lies in different banks.
  const line = (index: string): string => `(${index} % 8u + ${index} / ${8 * chunk}u * 8u)`;
  const quadAt = (index: string): string => `(${index} / 8u % ${chunk}u)`;
  // Keys of an invocation follow each other, and those that are read together are neighbours in the tile.
  const keyAt = (index: string): string => `(${line(index)} % ${sides}u * 4u + ${line(index)} / ${sides}u)`;
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
  const putPair = `${eachLoad(counts.query, (index, at) => `staged[${quadAt(index)} * ${rows}u + ${line(index)}] = ${within(`queryValues(query_${at})`, index)};`)}
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

  // Long functions are written out once a row: compilers put each call's whole text in its place.
  const isLong = mask !== undefined || padding !== undefined || softcap !== 0;
  const ofKeys = (text: (j: string) => string): string =>
    isLong ? `for (var j = 0u; j < 4u; j++) { ${text("j")} }` : unrolled(4, (j) => text(`${j}u`));

  return `
var<workgroup> staged: array<vec4f, ${chunk * weightsPitch}>;
var<workgroup> rowTile: array<vec4f, ${Math.max(counts.key, counts.value)}>;
${isShuffled ? "" : `var<workgroup> exchange: array<f32, ${rows * sides}>;`}

@compute @workgroup_size(${invocations}) fn main(
  @builtin(workgroup_id) place: vec3u, @builtin(num_workgroups) places: vec3u, @builtin(local_invocation_index) local: u32,
) {
  // The last rows see the most keys: they begin.
  ${find}
  let keyHead = place.y;
  let final_ = min(first + ${rows}u, groupRows) - 1u;
  // What a row sees grows with its query: the first and the last bound them all.
  let early = visible(sample, keyHead, first / p.group);
  let late = visible(sample, keyHead, final_ / p.group);
  let low = max(min(early.x, late.x), 0);
  let high = max(early.y, late.y);
  let x = local % ${sides}u;
  let y = local / ${sides}u;
  ${unrolled(
    each,
    (r) => `let row${r} = first + ${r * lines}u + y;
  let query${r} = min(row${r}, groupRows - 1u) / p.group;
  let head${r} = keyHead * p.group + min(row${r}, groupRows - 1u) % p.group;
  let seen${r} = visible(sample, keyHead, query${r});
  var top${r} = ${hidden};
  var total${r} = 0.0;`,
  )}
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
        ${unrolled(4, (j) => `{ let k = rowTile[quad * ${keys}u + ${j * sides}u + x]; ${unrolled(each, (r) => addedProducts(`s${r}[${j}]`, `q${r}`, "k"), " ")} }`)}
      }
    }
    ${loadValues("0u")}
    let key = front + 4 * i32(x);
    ${unrolled(
      each,
      (r) => `s${r} *= p.scale;
    ${ofKeys((j) => `s${r}[${j}] = select(${hidden}, finished(s${r}[${j}], sample, head${r}, query${r}, u32(key + i32(${j}))), key + i32(${j}) >= seen${r}.x && key + i32(${j}) < seen${r}.y);`)}
    var best${r} = max(max(s${r}.x, s${r}.y), max(s${r}.z, s${r}.w));`,
    )}
    ${together("best", each, (one, other) => `max(${one}, ${other})`, isShuffled)}
    workgroupBarrier();
    ${unrolled(
      each,
      (r) => `{
      let next = max(top${r}, best${r});
      let shrink = exp(top${r} - next);
      top${r} = next;
      let own = select(exp(s${r} - next), vec4f(), s${r} < vec4f(${least}));
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

  ${together("total", each, (one, other) => `${one} + ${other}`, isShuffled)}
  ${unrolled(
    each,
    (r) => `{
    var total = total${r};
    var above = top${r};
    ${sink === undefined ? "" : `above = max(above, sinkOf(head${r})); total = total * exp(top${r} - above) + exp(sinkOf(head${r}) - above);`}
    let shrink = ${sink === undefined ? "1.0" : `exp(top${r} - above)`};
    if (row${r} < groupRows) {
      var sums = array<vec4f, ${across}>(${unrolled(across, (j) => `sum${r}_${j}`, ", ")});
      for (var j = 0u; j < ${across}u; j++) {
        let quad = j * ${sides}u + x;
        if (quad < ${valueQuads}u) { writeQuad(sample, head${r}, query${r}, quad, weighedMean(sums[j] * shrink, total, above)); }
      }
    }
  }`,
  )}
}`;
}
