/** Places buffers of known sizes and lifetimes in one stretch of memory, so that those alive at once never overlap. Pure. */

/** A buffer to place: its size, and the first and last step that need it. */
export interface Lifetime {
  readonly bytes: number;
  readonly first: number;
  readonly last: number;
}

/** Every buffer starts at a multiple of this: enough for any element and for vector loads. */
const alignment = 64;

const aligned = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

/** Offsets for the lifetimes, in their order, and the bytes that all of them take together. */
interface Packed {
  readonly offsets: readonly number[];
  readonly bytes: number;
}

/**
 * Offsets for each lifetime. Largest first, each at the lowest free place; where too many are alive at once for that, in the order of
 * their first step, each where the one that leaves most fittingly was.
 */
export function packArena(lifetimes: readonly Lifetime[]): Packed {
  return packBySize(lifetimes) ?? packByTime(lifetimes);
}

/** Steps that a buffer may live to be listed under each of them; the few that live longer are looked at every time. */
const shortLife = 32;

/** Pairs of buffers that are looked at, at most, beside some for each. */
const mostPairs = (count: number): number => 2 ** 22 + 64 * count;

function packBySize(lifetimes: readonly Lifetime[]): Packed | undefined {
  const offsets = new Array<number>(lifetimes.length).fill(0);
  const byStep = new Map<number, number[]>();
  const longLived: number[] = [];
  const all: number[] = [];
  let left = mostPairs(lifetimes.length);
  const overlapping = ({ first, last }: Lifetime): number[] => {
    const isShort = last - first < shortLife;
    const found = (isShort ? longLived : all).filter(
      (other) => lifetimes[other].last >= first && lifetimes[other].first <= last,
    );
    left -= (isShort ? longLived : all).length;
    if (!isShort) return found;
    for (let step = first; step <= last; step++) {
      const listed = byStep.get(step) ?? [];
      left -= 1 + listed.length;
      // One that is listed under several steps counts under the first of them that is looked at.
      for (const other of listed) if (Math.max(lifetimes[other].first, first) === step) found.push(other);
    }
    return found;
  };
  const bySize = lifetimes.map((_, index) => index).sort((a, b) => lifetimes[b].bytes - lifetimes[a].bytes || a - b);
  let total = 0;
  for (const index of bySize) {
    const { bytes, first, last } = lifetimes[index];
    const size = aligned(bytes);
    if (size === 0) continue;
    const rivals = overlapping(lifetimes[index]).sort((a, b) => offsets[a] - offsets[b]);
    if (left < 0) return undefined;
    let offset = 0;
    for (const other of rivals) {
      if (offset + size <= offsets[other]) break;
      offset = Math.max(offset, offsets[other] + aligned(lifetimes[other].bytes));
    }
    offsets[index] = offset;
    total = Math.max(total, offset + bytes);
    all.push(index);
    if (last - first >= shortLife) longLived.push(index);
    else
      for (let step = first; step <= last; step++) {
        const listed = byStep.get(step);
        if (listed === undefined) byStep.set(step, [index]);
        else listed.push(index);
      }
  }
  return { offsets, bytes: total };
}

/** Free places by size class: a buffer takes one of its own class, and leaves it to the next. */
function packByTime(lifetimes: readonly Lifetime[]): Packed {
  const offsets = new Array<number>(lifetimes.length).fill(0);
  const free = new Map<number, number[]>();
  const leaving = new Map<number, number[]>();
  const order = lifetimes.map((_, index) => index).sort((a, b) => lifetimes[a].first - lifetimes[b].first || a - b);
  const steps = [...new Set(lifetimes.map(({ last }) => last))].sort((a, b) => a - b);
  let total = 0;
  let gone = 0;
  for (const index of order) {
    const { bytes, first, last } = lifetimes[index];
    const size = classOf(aligned(bytes));
    if (size === 0) continue;
    for (; gone < steps.length && steps[gone] < first; gone++) {
      for (const other of leaving.get(steps[gone]) ?? []) {
        const own = classOf(aligned(lifetimes[other].bytes));
        const places = free.get(own);
        if (places === undefined) free.set(own, [offsets[other]]);
        else places.push(offsets[other]);
      }
    }
    const place = free.get(size)?.pop();
    offsets[index] = place ?? total;
    if (place === undefined) total += size;
    const others = leaving.get(last);
    if (others === undefined) leaving.set(last, [index]);
    else others.push(index);
  }
  return { offsets, bytes: total };
}

/** A size rounded up to a quarter of a power of two, so that sizes that are near each other share places. */
function classOf(size: number): number {
  if (size <= 4 * alignment) return size;
  const quarter = 2 ** (Math.floor(Math.log2(size)) - 2);
  return Math.ceil(size / quarter) * quarter;
}

/** Lifetimes in several buffers: the number of each one's buffer, its offset there, and the buffers' sizes. */
export interface PackedApart {
  readonly numbers: readonly number[];
  readonly offsets: readonly number[];
  readonly sizes: readonly number[];
}

/** A buffer for each lifetime that nothing alive at the same time has: the smallest that is large enough, else the largest, which grows. */
export function packApart(lifetimes: readonly Lifetime[]): PackedApart {
  const numbers = new Array<number>(lifetimes.length).fill(0);
  const sizes: number[] = [];
  const until: number[] = [];
  const order = lifetimes.map((_, index) => index).sort((a, b) => lifetimes[a].first - lifetimes[b].first || a - b);
  for (const index of order) {
    const { bytes, first, last } = lifetimes[index];
    const size = aligned(bytes);
    const free = sizes.flatMap((_, number) => (until[number] < first ? [number] : []));
    const better = (a: number, b: number): number => {
      const [fitsA, fitsB] = [sizes[a] >= size, sizes[b] >= size];
      if (fitsA !== fitsB) return fitsA ? a : b;
      return sizes[a] < sizes[b] === fitsA ? a : b;
    };
    const number = free.length === 0 ? sizes.length : free.reduce(better);
    sizes[number] = Math.max(sizes[number] ?? 0, size);
    until[number] = last;
    numbers[index] = number;
  }
  return { numbers, offsets: lifetimes.map(() => 0), sizes };
}
