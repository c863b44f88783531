/** How attention's work is shared between threads. One rule for caches with pitch and for pages: results depend on the splits. */

/** Keys times heads times queries below which a call is not worth sharing. */
const smallWork = 1 << 11;

/** Keys below which kernels do not split a range: they go by the valid length, this is by the capacity. */
const splitKeys = 512;

/** The shares of a call: parts of the range of keys, which only a single query a sample has, and parts of the whole work. */
export function sharesOf(
  work: {
    readonly batch: number;
    readonly heads: number;
    readonly kvHeads: number;
    readonly queries: number;
    readonly keys: number;
  },
  { threads, batchInvariant }: { readonly threads: number; readonly batchInvariant: boolean },
): { readonly splits: number; readonly parts: number } {
  const tasks = work.batch * work.kvHeads;
  const worth = work.keys * work.heads * work.batch * work.queries >= smallWork;
  if (work.queries > 1) return { splits: 1, parts: worth ? threads : 1 };
  const splits =
    !batchInvariant && work.keys >= splitKeys && work.batch < threads ? Math.ceil(threads / work.batch) : 1;
  return { splits, parts: worth ? Math.min(threads, tasks * splits) : 1 };
}
