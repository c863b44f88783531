/**
 * One tile of keys and values, in WGSL: the scores of a few rows of queries that share a key head, the weights that they become, and the values
 * weighed. What is done with a tile's sums is for those who use it to say; no dispatch.
 */
import type { DeviceTraits } from "../../../webgpu-kernels/webgpu-kernel.js";
import type { ShaderPart } from "../../../webgpu-kernels/shader-part.js";
import { unrolled } from "../../../webgpu-kernels/wgsl.js";
import { type AttentionWork, quadCount, rowsPart, scorePart, visiblePart, wordsType } from "./attention-parts.js";
import { hidden, isHidden, least } from "./score-marks.js";

/** Invocations that share a key. */
const lanes = 4;

/** Loads that are in flight before the first sum. */
const inFlight = 8;

/** Rows of queries that a workgroup serves at most: the elements of a vector. */
const mostRows = 4;

/** How the rows of queries that share a key head are divided. */
export function divisionOf({ query, key }: AttentionWork): { readonly rows: number; readonly chunks: number } {
  const groupRows = (query.heads / key.heads) * query.rows;
  const rows = Math.min(mostRows, groupRows);
  return { rows, chunks: Math.ceil(groupRows / rows) };
}

/** How large workgroups are: each of their tiles has a key for every four invocations. */
export interface TileShape {
  readonly invocations: number;
  /** Tiles whose weights a workgroup keeps. */
  readonly tiles: number;
}

/** Keys of a tile. */
export const keysOf = ({ invocations }: TileShape): number => invocations / lanes;

/** Quads of a query, filled up so that lanes have as many each. */
export const paddedQuads = (size: number): number => Math.ceil(quadCount(size) / lanes) * lanes;

/** How a workgroup begins. */
export interface TileStart {
  /** Loads that are on their way before anything waits; `sample` and `keyHead` are known. */
  readonly ahead?: (shape: TileShape) => string;
  /** Bytes of workgroup memory that it takes for itself. */
  readonly own?: number;
  /** Fills `asked` with the queries times the scale, up to the barrier behind it. */
  readonly asked: (shape: TileShape) => string;
  /**
   * Where a row of the caches is written: a condition for those whose rows, so many from `front` on, hold it; the row; and four elements of it, as
   * words of the caches. All by `sample`.
   */
  readonly writes?: {
    readonly when: (front: string, rows: number) => string;
    readonly row: string;
    readonly keyWords: (quad: string) => string;
    readonly valueWords: (quad: string) => string;
  };
}

/** True if all that a tile loads is on its way before anything waits; else some at a time. */
export function loadsEarly({ query, value }: AttentionWork, shape: TileShape): boolean {
  const parts = Math.floor(shape.invocations / quadCount(value.size));
  return paddedQuads(query.size) / lanes <= inFlight && Math.ceil(keysOf(shape) / parts) <= inFlight;
}

/** Bytes of workgroup memory that a shader takes: queries, what is exchanged, weights, and what its start keeps. */
function tileMemory(
  work: AttentionWork,
  shape: TileShape,
  together: number,
  own: number,
  device: DeviceTraits,
): number {
  const { rows } = divisionOf(work);
  const each = vectorOf(rows, shape, device) === "vec2f" ? 8 : 16;
  return (
    16 * (rows * paddedQuads(work.query.size) + together * shape.invocations) +
    each * (keysOf(shape) * shape.tiles + 2 * groupsOf(shape, device)) +
    own
  );
}

/** True if a workgroup can hold what it keeps, its start's own bytes included. */
export const fitsWorkgroup = (work: AttentionWork, shape: TileShape, own: number, device: DeviceTraits): boolean =>
  tileMemory(work, shape, 1, own, device) <= device.workgroupBytes;

/** Rows whose sums are put together at a time: all of them where there is room, else one after the other. */
function rowsTogether(work: AttentionWork, shape: TileShape, own: number, device: DeviceTraits): number {
  const { rows } = divisionOf(work);
  const fits =
    rows * quadCount(work.value.size) <= shape.invocations &&
    tileMemory(work, shape, rows, own, device) <= device.workgroupBytes;
  return fits ? rows : 1;
}

/** Queries, caches, which keys are seen and what their scores are. */
export function scoresPart(
  work: AttentionWork,
  queries: ShaderPart,
  { writes }: TileStart,
  { subgroup }: DeviceTraits,
): ShaderPart {
  const written = { writes: writes !== undefined };
  return {
    uses: [
      queries,
      rowsPart("key", work.key, written),
      rowsPart("value", work.value, written),
      visiblePart(work),
      scorePart(work),
    ],
    extensions: subgroup === undefined ? [] : ["subgroups"],
  };
}

/** How many there are of what workgroups are divided by. */
export function sizesOf(work: AttentionWork): Readonly<Record<"group" | "groupRows" | "chunks" | "heads", number>> {
  const { query, key } = work;
  const group = query.heads / key.heads;
  return { group, groupRows: group * query.rows, chunks: divisionOf(work).chunks, heads: query.heads };
}

/** The letter of a row of queries in vectors that have an element for each. */
const letterOf = (row: number): string => "xyzw"[row];

/** What a shader over tiles is made of. */
interface TileCode {
  /** Workgroup memory and functions. */
  readonly memory: string;
  /** How many invocations have the values' quads of one row. */
  readonly valueQuads: number;
  /** The type of what has an element for each row of queries. */
  readonly vector: string;
  /**
   * Puts each row's shares together, which are in variables `name0`, `name1`, …: `use` has the `sum` of four columns, `local % valueQuads`, of `row`, which is
   * the workgroup's `own`th.
   */
  readonly gathered: (name: string, use: string) => string;
  /** From the workgroup's place to the keys that its queries see, from `seenFrom` to `seenTo`. */
  readonly begin: string;
  /** What a tile's loads are kept in. */
  readonly declare: string;
  /** From `front`, the first key of a tile, and `low` and `high`, between which its keys are seen, to loads that are on their way. */
  readonly loadKeys: string;
  readonly loadValues: string;
  /** Puts the new row in the place of what was loaded before it was written. */
  readonly keysAgain: string;
  readonly valuesAgain: string;
  /** From loads to a tile's scores in `weights`, from `kept` on. */
  readonly dots: string;
  /** From the scores of all tiles, `count` of them, to weights, with their `top`. */
  readonly weigh: string;
  /** Each row's `sum0`, `sum1`, … of an invocation's share, and what adds the values of a tile to them. */
  readonly sums: string;
  readonly addValues: string;
}

/** The code of a tile for so many rows of queries. */
export function tileCodeOf(
  work: AttentionWork,
  rows: number,
  shape: TileShape,
  { ahead, own = 0, writes }: TileStart,
  device: DeviceTraits,
): TileCode {
  const { query, key, value } = work;
  const { subgroup } = device;
  const { invocations } = shape;
  const vector = vectorOf(rows, shape, device);
  const together = rowsTogether(work, shape, own, device);
  const tile = keysOf(shape);
  const quads = quadCount(query.size);
  const padded = paddedQuads(query.size);
  const valueQuads = quadCount(value.size);
  const parts = Math.floor(invocations / valueQuads);
  const scaled = key.pages?.scales !== undefined;
  const keyLoads = padded / lanes;
  const valueLoads = Math.ceil(tile / parts);
  const early = loadsEarly(work, shape);
  const keyQuad = (at: number): string => `min(lane + ${at * lanes}u, ${quads - 1}u)`;
  const keyUse = (at: number): string => `{
    let values = ${(at + 1) * lanes <= quads ? `keyValues(k${at})` : `select(vec4f(), keyValues(k${at}), lane + ${at * lanes}u < ${quads}u)`};
    ${unrolled(rows, (r) => `dot${r} += dot(values, asked[${r * padded + at * lanes}u + lane]);`)} }`;
  const valueRow = (at: number): string => `u32(clamp(front + i32(part) + ${at * parts}, low, high - 1))`;
  const valueLoad = (at: number): string => `valueWords(valueStart(sample, keyHead, at${at}), column)`;
  // Nothing of a row that takes no part may reach the sum: it may hold anything.
  const valueUse = (at: number): string => `{
    let values = valueValues(v${at})${scaled ? ` * valueFactor(sample, keyHead, at${at})` : ""};
    let i = part + ${at * parts}u;
    let w = ${tile % parts === 0 ? "weights[kept + i]" : `select(${vector}(-1.0), weights[kept + min(i, ${tile - 1}u)], i < ${tile}u)`};
    ${unrolled(rows, (r) => `sum${r} = select(sum${r}, sum${r} + w.${letterOf(r)} * values, w.${letterOf(r)} >= 0.0);`)} }`;
  const batches = (count: number, load: (at: number) => string, use: (at: number) => string): string =>
    unrolled(Math.ceil(count / inFlight), (batch) => {
      const own = Array.from({ length: Math.min(inFlight, count - batch * inFlight) }, (_, i) => batch * inFlight + i);
      return `{ ${own.map(load).join("\n")}\n${own.map(use).join("\n")} }`;
    });
  const againOf = (code: string): string =>
    writes === undefined || !early ? "" : `if (writes) { let row = ${writes.row}; ${code} }`;
  const keyLoading = `key = front + i32(local / ${lanes}u);
  // Rows that nobody sees are not read; what the nearest one gives in their place is hidden below.
  near = u32(clamp(key, low, high - 1));
  start = keyStart(sample, keyHead, near);
  ${early ? unrolled(keyLoads, (at) => `k${at} = keyWords(start, ${keyQuad(at)});`) : ""}`;
  return {
    memory: `
var<workgroup> asked: array<vec4f, ${rows * padded}>;
var<workgroup> exchange: array<vec4f, ${together * invocations}>;
var<workgroup> weights: array<${vector}, ${tile * shape.tiles}>;
${weighingMemory(groupsOf(shape, device), vector)}`,
    declare: `let lane = local % ${lanes}u;
  let column = local % ${valueQuads}u;
  let part = min(local / ${valueQuads}u, ${parts - 1}u);
  var key = 0;
  var near = 0u;
  var start = 0u;
  var kept = 0u;
  ${early ? unrolled(keyLoads, (at) => `var k${at} = ${wordsType(key)}();`) : ""}
  ${early ? unrolled(valueLoads, (at) => `var at${at} = 0u; var v${at} = ${wordsType(value)}();`) : ""}`,
    loadKeys: keyLoading,
    loadValues: early ? unrolled(valueLoads, (at) => `at${at} = ${valueRow(at)}; v${at} = ${valueLoad(at)};`) : "",
    keysAgain: againOf(
      `if (near == row) { ${unrolled(keyLoads, (at) => `k${at} = ${writes?.keyWords(keyQuad(at))};`)} }`,
    ),
    valuesAgain: againOf(
      unrolled(valueLoads, (at) => `if (at${at} == row) { v${at} = ${writes?.valueWords("column")}; }`),
    ),
    dots: `${unrolled(rows, (r) => `var dot${r} = 0.0;`)}
  ${early ? unrolled(keyLoads, keyUse) : batches(keyLoads, (at) => `let k${at} = keyWords(start, ${keyQuad(at)});`, keyUse)}
  var dots = ${vector}();
  ${unrolled(rows, (r) => `dots.${letterOf(r)} = dot${r};`)}
  ${scaled ? "dots *= keyFactor(sample, keyHead, near);" : ""}
  ${scoringCode(subgroup, shape, (scores, own) =>
    unrolled(
      rows,
      (r) =>
        `${scores}.${letterOf(r)} = select(${hidden}, finished(${scores}.${letterOf(r)}, sample, keyHead * p.group + row${r} % p.group, row${r} / p.group, u32(${own})), ${own} >= seen${r}.x && ${own} < seen${r}.y);`,
    ),
  )}`,
    weigh: weighingCode(subgroup, shape, vector),
    sums: unrolled(rows, (r) => `var sum${r} = vec4f();`),
    addValues: `if (local < ${parts * valueQuads}u) {
    ${early ? unrolled(valueLoads, valueUse) : batches(valueLoads, (at) => `let at${at} = ${valueRow(at)}; let v${at} = ${valueLoad(at)};`, valueUse)}
  }`,
    valueQuads,
    vector,
    gathered: (name, use) =>
      unrolled(rows / together, (group) => {
        const own = Array.from({ length: together }, (_, at) => group * together + at);
        return `${group === 0 ? "" : "workgroupBarrier();"}
  ${own.map((r, at) => `exchange[local + ${at * invocations}u] = ${name}${r};`).join(" ")}
  workgroupBarrier();
  if (local < ${together * valueQuads}u && first + ${group * together}u + local / ${valueQuads}u < p.groupRows) {
    let own = ${group * together}u + local / ${valueQuads}u;
    let row = first + own;
    let begin = local / ${valueQuads}u * ${invocations}u + local % ${valueQuads}u;
    var sum = exchange[begin];
    for (var i = 1u; i < ${parts}u; i++) { sum += exchange[begin + i * ${valueQuads}u]; }
    ${use}
  }`;
      }),
    begin: `let sample = place.z;
  let keyHead = place.y / p.chunks;
  let first = place.y % p.chunks * ${rows}u;
  ${ahead?.(shape) ?? ""}
  ${unrolled(rows, (r) => `let row${r} = min(first + ${r}u, p.groupRows - 1u); let seen${r} = visible(sample, keyHead, row${r} / p.group);`)}
  var seenFrom = 2147483647;
  var seenTo = 0;
  ${unrolled(rows, (r) => `if (seen${r}.x < seen${r}.y) { seenFrom = min(seenFrom, seen${r}.x); seenTo = max(seenTo, seen${r}.y); }`)}`,
  };
}

/** The type of what has an element for each row of queries: subgroups put few of them together sooner. */
const vectorOf = (rows: number, shape: TileShape, { subgroup }: DeviceTraits): string =>
  isWide(subgroup, shape) && rows <= 2 ? "vec2f" : "vec4f";

/** Those that have a greatest score and a sum of weights each. */
const groupsOf = (shape: TileShape, { subgroup }: DeviceTraits): number =>
  isWide(subgroup, shape) ? shape.invocations / subgroup : 8;

/** Memory in which scores become weights, and `totalWeight()`, what they sum up to. */
const weighingMemory = (groups: number, vector: string): string => `
var<workgroup> tops: array<${vector}, ${groups}>;
var<workgroup> totals: array<${vector}, ${groups}>;
fn totalWeight() -> ${vector} {
  var sum = totals[0];
  for (var at = 1u; at < ${groups}u; at++) { sum += totals[at]; }
  return sum;
}`;

/** True for subgroups in which the lanes of a key stand side by side. */
const isWide = (subgroup: number | undefined, { invocations }: TileShape): subgroup is number =>
  subgroup !== undefined && subgroup % lanes === 0 && subgroup <= invocations;

/** From `dots`, each lane's share of a key's scores, to scores in `weights`. `finish` makes scores of sums. Behind it, `exchange` is free. */
function scoringCode(
  subgroup: number | undefined,
  shape: TileShape,
  finish: (scores: string, key: string) => string,
): string {
  if (isWide(subgroup, shape))
    return `${unrolled(Math.log2(lanes), (at) => `dots += subgroupShuffleXor(dots, ${2 ** at}u);`)}
  ${finish("dots", "key")}
  best = max(best, dots);
  if (lane == 0u) { weights[kept + local / ${lanes}u] = dots; }`;
  return `exchange[local] = dots;
  workgroupBarrier();
  if (local < ${keysOf(shape)}u) {
    let own = front + i32(local);
    var scores = vec4f();
    ${unrolled(lanes, (at) => `scores += exchange[${lanes}u * local + ${at}u];`)}
    ${finish("scores", "own")}
    weights[kept + local] = scores;
  }
  workgroupBarrier();`;
}

/** From `count` scores in `weights` to what they weigh, below 0 for hidden ones, with their `top`. */
function weighingCode(subgroup: number | undefined, shape: TileShape, vector: string): string {
  const weight = `select(exp(score - top), ${vector}(), score < ${vector}(${least}))`;
  // Hidden keys have a weight below 0, by which their values are told.
  const kept = (weight: string): string => `select(${weight}, ${vector}(-1.0), ${isHidden("score", vector)})`;
  if (isWide(subgroup, shape)) {
    const groups = shape.invocations / subgroup;
    const steps = Array.from({ length: Math.log2(subgroup / lanes) }, (_, at) => lanes * 2 ** at);
    return `${steps.map((step) => `best = max(best, subgroupShuffleXor(best, ${step}u));`).join(" ")}
  if (local % ${subgroup}u == 0u) { tops[local / ${subgroup}u] = best; }
  workgroupBarrier();
  var top = tops[0];
  for (var at = 1u; at < ${groups}u; at++) { top = max(top, tops[at]); }
  var weighed = ${vector}();
  if (local < count) {
    let score = weights[local];
    weighed = ${weight};
    weights[local] = ${kept("weighed")};
  }
  weighed = subgroupAdd(weighed);
  if (local % ${subgroup}u == 0u) { totals[local / ${subgroup}u] = weighed; }
  workgroupBarrier();`;
  }
  return `if (local < 8u) {
    var highest = vec4f(${hidden});
    for (var at = local; at < count; at += 8u) { highest = max(highest, weights[at]); }
    tops[local] = highest;
  }
  workgroupBarrier();
  var top = tops[0];
  ${unrolled(7, (at) => `top = max(top, tops[${at + 1}]);`)}
  if (local < count) {
    let score = weights[local];
    weights[local] = ${kept(weight)};
  }
  workgroupBarrier();
  if (local < 8u) {
    var sum = vec4f();
    for (var at = local; at < count; at += 8u) { sum += max(weights[at], vec4f()); }
    totals[local] = sum;
  }`;
}
