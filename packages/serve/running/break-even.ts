/**
 * From which length on a beginning is fetched from a store: what a run takes for a block against what the store takes. On a machine that computes
 * faster than the store answers, that is never. Runs are measured once, before texts; the store also beside them, where a run that holds the
 * thread makes it look slower, never quicker.
 */
import { type NamedBlock, nameBlocks } from "./block-names.js";
import type { PagedState } from "#insitu/cache/paged-state.js";
import type { PagedDecoder } from "#insitu/engine/paged-decoder.js";
import { CheckedStore } from "./checked-store.js";
import { pageFingerprint, type PrefixStore } from "./prefix-store.js";

/** Blocks that are computed, and fetched, for the measure. */
const measured = 8;

/** What the blocks of the measure are named by, beside the model: no key's salt is like it. */
const salt = "to measure what a store takes";

/** How often each is tried: the first run also compiles, a store's answers vary. */
const runs = 2;
const fetches = 5;

/**
 * The store with what a run takes for a block, and with `leastTokens` as measured and told. Where the store does not answer it is measured when it
 * does. No run may be under way.
 */
export async function withBreakEven(
  prefixes: PrefixStore,
  decoder: Pick<PagedDecoder, "pages" | "step">,
  vocabulary: number,
): Promise<PrefixStore> {
  const { pages } = decoder;
  const computeBlock = await measureComputing(decoder, vocabulary);
  const measurable = { ...prefixes, computeBlock };
  const found = await measureBreakEven(measurable, pages, computeBlock);
  if (found === undefined) {
    prefixes.tell?.("the store did not answer when the server began: its speed is measured when it does");
    return measurable;
  }
  prefixes.tell?.(found.told);
  return { ...measurable, leastTokens: found.leastTokens };
}

/** What was measured. */
interface BreakEven {
  /** Infinity where fetching is never quicker. */
  readonly leastTokens: number;
  readonly told: string;
}

/** Measures what the store takes, beside whatever runs; undefined where it does not keep what it is given, or does not answer. */
export async function measureBreakEven(
  prefixes: PrefixStore,
  pages: PagedState,
  computeBlock: number,
): Promise<BreakEven | undefined> {
  const { blockSize } = pages.pool;
  const costs = await measureFetching(prefixes, pages);
  if (costs === undefined) return undefined;
  const { fetchBlock, roundTrip } = costs;
  const leastTokens = breakEvenBlocks(computeBlock, fetchBlock, roundTrip) * blockSize;
  const what = leastTokens === Infinity ? "not read" : `read for ${leastTokens} tokens or more`;
  const why = `a block of ${blockSize} tokens takes ${shown(computeBlock)} to compute, ${shown(fetchBlock)} to fetch after ${shown(roundTrip)}`;
  return { leastTokens, told: `the store is ${what}: ${why}` };
}

const shown = (milliseconds: number): string => `${milliseconds.toFixed(2)} ms`;

/** Blocks from which on fetching is quicker. */
function breakEvenBlocks(computeBlock: number, fetchBlock: number, roundTrip: number): number {
  if (fetchBlock >= computeBlock) return Infinity;
  return Math.max(1, Math.floor(roundTrip / (computeBlock - fetchBlock)) + 1);
}

/** Blocks of the measure that fit the pool, and their tokens. */
function measuredTokens({ pool }: PagedState, vocabulary: number): number[] {
  const count = Math.min(measured, pool.blocks);
  return Array.from({ length: count * pool.blockSize }, (_, at) => at % vocabulary);
}

/** Milliseconds that a run takes for a block. */
async function measureComputing(decoder: Pick<PagedDecoder, "pages" | "step">, vocabulary: number): Promise<number> {
  const { pages } = decoder;
  const tokens = measuredTokens(pages, vocabulary);
  const best = await quickest(async () => {
    const sequence = pages.pool.add(undefined, `${salt} ${Math.random()}`);
    try {
      await decoder.step([{ sequence, tokens }]);
    } finally {
      sequence.release();
    }
  }, runs);
  return (best * pages.pool.blockSize) / tokens.length;
}

/** Milliseconds that the store takes for a block, and beside its blocks. */
async function measureFetching(
  prefixes: PrefixStore,
  pages: PagedState,
): Promise<{ readonly fetchBlock: number; readonly roundTrip: number } | undefined> {
  const { blockBytes, pool } = pages;
  const tokens = measuredTokens(pages, 2 ** 16);
  const blocks = nameBlocks(pageFingerprint(prefixes.fingerprint, pages), salt, tokens, pool.blockSize);
  const store = new CheckedStore(prefixes.store, blockBytes, { ...prefixes, tell: () => {} });
  const contents = blocks.map((_, at) => new Uint8Array(blockBytes).fill(at + 1));
  if (!(await store.save(blocks, contents))) return undefined;
  const fetch = async (wanted: readonly NamedBlock[]): Promise<void> => void (await store.load(wanted));
  const one = await quickest(() => fetch(blocks.slice(-1)), fetches);
  const all = await quickest(() => fetch(blocks), fetches);
  if (store.figures.hits !== fetches * (blocks.length + 1)) return undefined;
  const fetchBlock = Math.max(0, all - one) / Math.max(1, blocks.length - 1);
  return { fetchBlock, roundTrip: Math.max(0, one - fetchBlock) };
}

async function quickest(action: () => Promise<void>, repeats: number): Promise<number> {
  let best = Infinity;
  for (let time = 0; time < repeats; time++) {
    const began = performance.now();
    await action();
    best = Math.min(best, performance.now() - began);
  }
  return best;
}
