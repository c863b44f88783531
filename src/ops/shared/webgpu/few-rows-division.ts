/**
 * How a product of 2 to 8 rows is divided among invocations. Every weight is loaded and unpacked once, and multiplied with all rows. What such a product costs
 * beside its weights is how often rows are read: each workgroup reads all of them, and each value that an invocation reads meets as many columns as it has.
 *
 *     a workgroup                                   a team
 *     ┌─────────────────────────────────┐           lane 0     lane 1     …  lane 31
 *     │ rows × factors, held in memory  │           chunk 0    chunk 1    …  chunk 31      of each of its 4 columns,
 *     │  ▲         ▲              ▲     │           chunk 32   chunk 33   …  chunk 63      times the same chunk of every row
 *     │ team 0   team 1    …    team 7  │             ╰─ sums of 4 columns by 8 rows a lane, put together at the end
 *     │ 0 to 3   4 to 7  …   28 to 31   │
 *     └─────────────────────────────────┘
 *
 * Where there is no norm and few columns, the workgroup is one team, and its lanes read what they need of the rows: nothing would be shared.
 *
 * What its numbers trade is in `tuning.ts`. `variants` are the row counts that have a shader: more of them compute fewer rows for nothing, fewer are sooner
 * compiled. With `columns` of 4, reading four values takes workgroup memory as long as 16 multiplications, and both end together.
 */
import type { Tuning } from "../../../webgpu-kernels/tuning.js";
import type { DeviceTraits } from "../../../webgpu-kernels/webgpu-kernel.js";
import { powerOfTwo, range } from "../../../webgpu-kernels/wgsl.js";

/** Rows up to which they are computed so. */
export const fewRows = 8;

/** Columns that a team has at a time: a vector of WGSL's. */
export const columns = 4;

const variants = [2, 4, fewRows] as const;

/** Bytes of a vec4f. */
const vectorBytes = 16;

/**
 * Vectors from one quad of all chunks to the next, where rows are held quad by quad: an odd number, so that neighbours who write the quads of one chunk meet
 * different banks.
 */
export const planeOf = (chunks: number): number => chunks | 1;

interface Sizes {
  readonly m: number;
  readonly n: number;
  readonly chunk: number;
  readonly chunks: number;
  readonly hasNorm: boolean;
}

export interface FewRowsDivision {
  /** Rows that the shader has: m, or some more. */
  readonly rows: number;
  readonly threads: number;
  /** Invocations of a team. */
  readonly lanes: number;
  /** Chunks of each column that an invocation loads before it multiplies. */
  readonly ahead: number;
  /** How often a workgroup takes columns. */
  readonly turns: number;
  /** Rows that workgroup memory holds: the first ones. The others are read where they lie. */
  readonly held: number;
  /** Invocations that bring in one row together. */
  readonly span: number;
}

/**
 * A team that is a workgroup: of at most `mostAlone` invocations, whole subgroups, with as many chunks each where there is such a number. Without subgroups it must be a power of two.
 */
export function aloneTeam(
  chunks: number,
  least: number,
  subgroup: number,
  mostAlone: number,
): readonly [threads: number, lanes: number] {
  const step = Math.max(32, subgroup);
  const even = range(mostAlone / step)
    .map((at) => mostAlone - at * step)
    .find((lanes) => chunks % lanes === 0 && lanes >= least && (subgroup > 1 || powerOfTwo(lanes) === lanes));
  if (even !== undefined) return [even, even];
  const threads = Math.min(256, Math.max(64, least, 2 ** Math.floor(Math.log2(chunks))));
  return [threads, Math.min(threads, Math.max(least, powerOfTwo(chunks)))];
}

/** Bytes in which subgroups, or invocations where there are none, leave their sums. */
export const partsBytes = (rows: number, threads: number, lanes: number, subgroup: number): number =>
  lanes === subgroup ? 0 : (vectorBytes * rows * threads) / subgroup;

/** Teams that are subgroups, as many as leave workgroups enough for a device, and hold their sums in half of the memory. */
function manyTeams(
  { n }: Sizes,
  rows: number,
  lanes: number,
  subgroup: number,
  bytes: number,
  { mostThreads, enoughWorkgroups }: Tuning["fewRows"],
): readonly [threads: number, lanes: number] {
  const counts = [mostThreads, mostThreads / 2].filter((threads) => threads >= lanes);
  const threads = counts.find(
    (count) => n * lanes >= enoughWorkgroups * columns * count && 2 * partsBytes(rows, count, lanes, subgroup) <= bytes,
  );
  return [threads ?? Math.max(64, lanes), lanes];
}

/** The division of such a product. It fits every device. */
export function divideFewRows(sizes: Sizes, { subgroup = 1, workgroupBytes, tuning }: DeviceTraits): FewRowsDivision {
  const { mostThreads, enoughWorkgroups, manyWorkgroups, mostTurns, mostLoads, mostTerms } = tuning.fewRows;
  const { m, n, chunk, chunks, hasNorm } = sizes;
  const rows = variants.find((count) => m <= count) ?? fewRows;
  const least = Math.max(32, subgroup);
  const together = Math.min(least, Math.max(2, subgroup, powerOfTwo(chunks)));
  // Rows that are normalized, or serve many columns, are brought in for several teams. Without subgroups a team's sums take too much memory for more lanes.
  const isShared = hasNorm || subgroup === 1 || n * together >= enoughWorkgroups * columns * mostThreads;
  const [threads, lanes] = isShared
    ? manyTeams(sizes, rows, together, subgroup, workgroupBytes, tuning.fewRows)
    : aloneTeam(chunks, least, subgroup, tuning.oneRow.mostAlone);
  const terms = columns * rows * (chunk / 4);
  const ahead = Math.max(1, Math.min(Math.ceil(chunks / lanes), mostLoads / columns, Math.floor(mostTerms / terms)));
  const workgroups = Math.ceil((n * lanes) / (threads * columns));
  const turns = workgroups < 2 * manyWorkgroups ? 1 : Math.min(mostTurns, Math.floor(workgroups / manyWorkgroups));
  const span = Math.max(subgroup, threads / rows);
  const taken = partsBytes(rows, threads, lanes, subgroup) + (hasNorm ? (8 * rows * span) / subgroup : 0);
  const room = Math.floor((workgroupBytes - taken) / (4 * chunk * planeOf(chunks)));
  return { rows, threads, lanes, ahead, turns, held: isShared ? Math.min(rows, room) : 0, span };
}
