/**
 * From which length on a beginning is fetched from a store: what a run takes for a block against what the store takes, measured once. On a
 * machine that computes faster than the store answers, that is never.
 */
import { nameBlocks } from "../../cache/block-names.js";
import type { PagedDecoder } from "../../generate/paged-decoder.js";
import { CheckedStore } from "./checked-store.js";
import { pageFingerprint, type PrefixStore } from "./saved-prefixes.js";

/** What was measured, in milliseconds. */
interface BreakEven {
  readonly computeBlock: number;
  readonly fetchBlock: number;
  /** What a fetch takes beside its blocks. */
  readonly roundTrip: number;
  /** Blocks from which on fetching is quicker; Infinity where it never is. */
  readonly blocks: number;
}

/** Blocks that are computed, and fetched, for the measure. */
const measured = 8;

/** The store with `leastTokens` as measured on these pages, and told. Where the store does not answer it stays as it was. No run may be under way. */
export async function withBreakEven(
  prefixes: PrefixStore,
  decoder: Pick<PagedDecoder, "pages" | "step">,
  vocabulary: number,
): Promise<PrefixStore> {
  const { blockSize } = decoder.pages.pool;
  const tell = prefixes.tell ?? (() => {});
  const found = await measureBreakEven(prefixes, decoder, vocabulary);
  if (found === undefined) {
    tell("the store did not answer when the server began: what it takes is not measured, and texts go on without it");
    return prefixes;
  }
  const { computeBlock, fetchBlock, roundTrip, blocks } = found;
  const costs = `a block of ${blockSize} tokens takes ${shown(computeBlock)} to compute, ${shown(fetchBlock)} to fetch after ${shown(roundTrip)}`;
  const leastTokens = blocks * blockSize;
  tell(`the store is ${blocks === Infinity ? "not read" : `read for ${leastTokens} tokens or more`}: ${costs}`);
  return { ...prefixes, leastTokens };
}

const shown = (milliseconds: number): string => `${milliseconds.toFixed(2)} ms`;

/** Blocks from which on fetching is quicker. */
function breakEvenBlocks(computeBlock: number, fetchBlock: number, roundTrip: number): number {
  if (fetchBlock >= computeBlock) return Infinity;
  return Math.max(1, Math.floor(roundTrip / (computeBlock - fetchBlock)) + 1);
}

/** Measures; undefined where the store does not keep what it is given. */
async function measureBreakEven(
  prefixes: PrefixStore,
  decoder: Pick<PagedDecoder, "pages" | "step">,
  vocabulary: number,
): Promise<BreakEven | undefined> {
  const { pages } = decoder;
  const { pool, blockBytes } = pages;
  const { blockSize } = pool;
  const count = Math.min(measured, Math.floor(pool.room / blockSize));
  const tokens = Array.from({ length: count * blockSize }, (_, at) => at % vocabulary);
  const salt = "to measure what a store takes";
  const computing = async (): Promise<void> => {
    const sequence = pool.add(undefined, `${salt} ${Math.random()}`);
    try {
      await decoder.step([{ sequence, tokens }]);
    } finally {
      sequence.release();
    }
  };
  const blocks = nameBlocks(pageFingerprint(prefixes.fingerprint, pages), salt, tokens, blockSize);
  const store = new CheckedStore(prefixes.store, blockBytes, { ...prefixes, tell: () => {} });
  const contents = blocks.map((_, at) => new Uint8Array(blockBytes).fill(at + 1));
  if (!(await store.save(blocks, contents))) return undefined;
  const fetching = async (from: number): Promise<void> => {
    await store.load(blocks.slice(from));
  };
  const computed = await quickest(computing, runs);
  const one = await quickest(() => fetching(count - 1), fetches);
  const all = await quickest(() => fetching(0), fetches);
  if (store.figures.hits !== fetches * (count + 1)) return undefined;
  const fetchBlock = Math.max(0, all - one) / Math.max(1, count - 1);
  const computeBlock = computed / count;
  const roundTrip = Math.max(0, one - fetchBlock);
  return { computeBlock, fetchBlock, roundTrip, blocks: breakEvenBlocks(computeBlock, fetchBlock, roundTrip) };
}

/** How often each is tried: the first run also compiles, a store's answers vary. */
const runs = 2;
const fetches = 5;

async function quickest(action: () => Promise<void>, repeats: number): Promise<number> {
  let best = Infinity;
  for (let time = 0; time < repeats; time++) {
    const began = performance.now();
    await action();
    best = Math.min(best, performance.now() - began);
  }
  return best;
}
