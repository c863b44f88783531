/**
 * Sums of 2 to 8 rows put together. In a subgroup lanes swap halves of their rows until each has as few as can be, then add up what is left of the same
 * rows; so 8 rows of 32 lanes take 9 swaps of a vector, where adding up each row takes 40.
 *
 *     lane       0         1         2         3
 *     has        r0 … r7   r0 … r7   r0 … r7   r0 … r7
 *     swap 1     r0 … r3   r4 … r7   r0 … r3   r4 … r7      sums of 2 lanes
 *     swap 2     r0 r1     r4 r5     r2 r3     r6 r7        sums of 4
 *
 * Several subgroups of a team, or invocations where there are no subgroups, meet in workgroup memory.
 */
import { range } from "../../../webgpu-kernels/wgsl.js";
import { columns, type FewRowsDivision } from "./few-rows-division.js";

/** Puts the sums `s0`, `s1`, … of all lanes together and stores them by `store(row, first, sums)`, columns from `base` on. */
export function togetherCode({ rows, threads, lanes, turns }: FewRowsDivision, width: number): string {
  const teams = threads / lanes;
  const place = (team: string): string => `base + ${team} * ${columns}u`;
  const swaps = Math.log2(Math.min(rows, width));
  const kept = rows >> swaps;
  const reduced = width === 1 ? [] : [...range(swaps).flatMap((bit) => swap(bit, rows)), ...add(swaps, width, kept)];
  // The row of sum 0: each swap brought a lane to the first or to the second half.
  const row =
    range(swaps)
      .map((bit) => `extractBits(own, ${bit}u, 1u) * ${rows >> (bit + 1)}u`)
      .join(" + ") || "0u";
  const owner = width === 1 ? "" : `if (own < ${1 << swaps}u) `;
  const sums = range(kept);
  const team = `local / ${lanes}u`;
  const rowOf = (sum: number): string => (sum === 0 ? "row" : `row + ${sum}u`);
  if (lanes === width)
    return `${reduced.join("\n  ")}
  ${owner}{ let row = ${row}; ${sums.map((sum) => `store(${rowOf(sum)}, ${place(team)}, s${sum});`).join(" ")} }`;
  return `${reduced.join("\n  ")}
  ${turns === 1 ? "" : "workgroupBarrier();"}
  ${owner}{ let row = ${row}; ${sums.map((sum) => `parts[local / ${width}u * ${rows}u + ${rowOf(sum)}] = s${sum};`).join(" ")} }
workgroupBarrier();
for (var at = local; at < ${teams * rows}u; at += ${threads}u) {
  let team = at / ${rows}u;
  let row = at % ${rows}u;
  var sums = vec4f();
  for (var part = 0u; part < ${lanes / width}u; part++) { sums += parts[(team * ${lanes / width}u + part) * ${rows}u + row]; }
  store(row, ${place("team")}, sums);
}`;
}

/** Lanes whose number has this bit give away the first half of their rows and keep the second; the others do the opposite. */
function swap(bit: number, rows: number): readonly string[] {
  const half = rows >> (bit + 1);
  return [
    `let upper${bit} = extractBits(own, ${bit}u, 1u) == 1u;`,
    ...range(half).map(
      (row) =>
        `s${row} = select(s${row}, s${row + half}, upper${bit}) + subgroupShuffleXor(select(s${row + half}, s${row}, upper${bit}), ${1 << bit}u);`,
    ),
  ];
}

/** Lanes with sums of the same rows add them up: all of them have the whole then. */
function add(swaps: number, width: number, kept: number): readonly string[] {
  return range(Math.log2(width) - swaps).flatMap((step) =>
    range(kept).map((row) => `s${row} += subgroupShuffleXor(s${row}, ${1 << (swaps + step)}u);`),
  );
}
