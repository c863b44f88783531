/**
 * One tile of keys and values, in WGSL: the scores of a few rows of queries that share a key head, the weights that they become, and the values
 * weighed. What is done with a tile's sums is for those who use it to say; no dispatch.
 */
import type { DeviceTraits } from "../../../webgpu-kernels/webgpu-kernel.js";
import {
  type AttentionWork,
  hidden,
  joined,
  least,
  type Part,
  quadsOf,
  rowsPart,
  scorePart,
  tablesPart,
  visiblePart,
} from "./attention-parts.js";

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
}

/** Keys of a tile. */
export const keysOf = ({ invocations }: TileShape): number => invocations / lanes;

/** Quads of a query, filled up so that lanes have as many each. */
export const paddedQuads = (size: number): number => Math.ceil(quadsOf(size) / lanes) * lanes;

/** A line for each number below a count. */
export const times = (count: number, line: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => line(at)).join("\n");

/** How a workgroup begins. */
export interface TileStart {
  /** Fills `asked` with the queries times the scale. */
  readonly asked: (shape: TileShape) => string;
  /** Where a row of the caches is written: a condition for those whose rows, so many from `front` on, hold it; and the row. Both by `sample`. */
  readonly writes?: { readonly when: (front: string, rows: number) => string; readonly row: string };
}

/** Queries, caches, which keys are seen and what their scores are. */
export function scoresPart(work: AttentionWork, queries: Part, { writes }: TileStart): Part {
  const caches = joined(rowsPart("key", work.key), rowsPart("value", work.value));
  const bindings = caches.bindings.map((binding) => ({ ...binding, writes: writes !== undefined }));
  return joined(queries, { ...caches, bindings }, tablesPart(work.key), visiblePart(work), scorePart(work));
}

/** How many there are of what workgroups are divided by. */
export function sizesOf(work: AttentionWork): Readonly<Record<"group" | "groupRows" | "chunks" | "heads", number>> {
  const { query, key } = work;
  const group = query.heads / key.heads;
  return { group, groupRows: group * query.rows, chunks: divisionOf(work).chunks, heads: query.heads };
}

/** The letter of a row of queries in vectors that have an element for each. */
export const letterOf = (row: number): string => "xyzw"[row];

/** What a shader over tiles is made of. */
interface TileCode {
  /** Workgroup memory and functions. */
  readonly memory: string;
  /** How many invocations have the values' quads of one row, and how many rows they weigh side by side. */
  readonly valueQuads: number;
  readonly parts: number;
  /** From the workgroup's place to the keys that its queries see, from `seenFrom` to `seenTo`. */
  readonly begin: string;
  /** What a tile's loads are kept in, and from `front`, `low` and `high` to loads that are on their way. */
  readonly declare: string;
  readonly load: string;
  /** Loads the new row again, once it was written. */
  readonly again: string;
  /** From loads to `weights`, their `top`, and each row's `sum0`, `sum1`, … of an invocation's share. */
  readonly sums: string;
}

/** The code of a tile for so many rows of queries. */
export function tileCodeOf(
  { query, key, value }: AttentionWork,
  rows: number,
  shape: TileShape,
  { writes }: TileStart,
  { subgroup }: DeviceTraits,
): TileCode {
  const { invocations } = shape;
  const tile = keysOf(shape);
  const quads = quadsOf(query.size);
  const padded = paddedQuads(query.size);
  const valueQuads = quadsOf(value.size);
  const parts = Math.floor(invocations / valueQuads);
  const scaled = key.pages?.scales !== undefined;
  const keyLoads = padded / lanes;
  const valueLoads = Math.ceil(tile / parts);
  /** Of few loads all are on their way before anything waits; of more, some at a time. */
  const early = keyLoads <= inFlight && valueLoads <= inFlight;
  const keyLoad = (at: number): string => `keyQuad(start, min(lane + ${at * lanes}u, ${quads - 1}u))`;
  const keyUse = (at: number): string =>
    times(rows, (r) => `dot${r} += dot(k${at}, asked[${r * padded + at * lanes}u + lane]);`);
  const valueRow = (at: number): string => `u32(clamp(front + i32(part) + ${at * parts}, low, high - 1))`;
  const valueLoad = (at: number): string =>
    `valueQuad(valueStart(sample, keyHead, at${at}), column)${scaled ? ` * valueFactor(sample, keyHead, at${at})` : ""}`;
  // Nothing of a row that takes no part may reach the sum: it may hold anything.
  const valueUse = (at: number): string => `{
    let i = part + ${at * parts}u;
    let w = select(vec4f(), weights[min(i, ${tile - 1}u)], i < ${tile}u);
    ${times(rows, (r) => `sum${r} = select(sum${r}, sum${r} + w.${letterOf(r)} * v${at}, w.${letterOf(r)} > 0.0);`)} }`;
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
  const declare = `let lane = local % ${lanes}u;
  let column = local % ${valueQuads}u;
  let part = min(local / ${valueQuads}u, ${parts - 1}u);
  var key = 0;
  var near = 0u;
  var start = 0u;
  ${early ? times(keyLoads, (at) => `var k${at} = vec4f();`) : ""}
  ${early ? times(valueLoads, (at) => `var at${at} = 0u; var v${at} = vec4f();`) : ""}`;
  const load = `key = front + i32(local / ${lanes}u);
  // Rows that nobody sees are not read; what the nearest one gives in their place is hidden below.
  near = u32(clamp(key, low, high - 1));
  start = keyStart(sample, keyHead, near);
  ${early ? times(keyLoads, (at) => `k${at} = ${keyLoad(at)};`) : ""}
  ${early ? times(valueLoads, (at) => `at${at} = ${valueRow(at)}; v${at} = ${valueLoad(at)};`) : ""}`;
  const sums = `${times(rows, (r) => `var dot${r} = 0.0;`)}
  ${early ? times(keyLoads, keyUse) : batches(keyLoads, (at) => `let k${at} = ${keyLoad(at)};`, keyUse)}
  var dots = vec4f();
  ${times(rows, (r) => `dots.${letterOf(r)} = dot${r};`)}
  ${scaled ? "dots *= keyFactor(sample, keyHead, near);" : ""}
  ${weighingCode(subgroup, shape, (scores, own) =>
    times(
      rows,
      (r) =>
        `${scores}.${letterOf(r)} = select(${hidden}, finished(${scores}.${letterOf(r)}, sample, keyHead * p.group + row${r} % p.group, row${r} / p.group, u32(${own})), ${own} >= seen${r}.x && ${own} < seen${r}.y);`,
    ),
  )}

  ${times(rows, (r) => `var sum${r} = vec4f();`)}
  if (local < ${parts * valueQuads}u) {
    ${early ? times(valueLoads, valueUse) : batches(valueLoads, (at) => `let at${at} = ${valueRow(at)}; let v${at} = ${valueLoad(at)};`, valueUse)}
  }`;
  return {
    memory: `
var<workgroup> asked: array<vec4f, ${rows * padded}>;
var<workgroup> exchange: array<vec4f, ${invocations}>;
var<workgroup> weights: array<vec4f, ${tile}>;
${weighingMemory(subgroup, shape)}`,
    valueQuads,
    parts,
    begin: `let sample = place.z;
  let keyHead = place.y / p.chunks;
  let first = place.y % p.chunks * ${rows}u;
  ${times(rows, (r) => `let row${r} = min(first + ${r}u, p.groupRows - 1u); let seen${r} = visible(sample, keyHead, row${r} / p.group);`)}
  var seenFrom = 2147483647;
  var seenTo = 0;
  ${times(rows, (r) => `if (seen${r}.x < seen${r}.y) { seenFrom = min(seenFrom, seen${r}.x); seenTo = max(seenTo, seen${r}.y); }`)}`,
    declare,
    load,
    again: early ? again : "",
    sums,
  };
}

/** Memory in which scores become weights, and `totalWeight()`, what they sum up to. */
function weighingMemory(subgroup: number | undefined, shape: TileShape): string {
  const { invocations } = shape;
  const groups = isWide(subgroup, shape) ? invocations / subgroup : 8;
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
const isWide = (subgroup: number | undefined, { invocations }: TileShape): subgroup is number =>
  subgroup !== undefined && subgroup % lanes === 0 && subgroup <= invocations;

/**
 * From `dots`, each lane's share of a key's scores, to `weights`, with their `top`. `finish` makes scores of sums. Behind it, `exchange` is free.
 */
function weighingCode(
  subgroup: number | undefined,
  shape: TileShape,
  finish: (scores: string, key: string) => string,
): string {
  const tile = keysOf(shape);
  if (isWide(subgroup, shape)) {
    const groups = shape.invocations / subgroup;
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
