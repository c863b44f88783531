/**
 * Random packed batches of many samples on long tables: more of them than threads or fewer, of none, one and many queries, with tokens of nobody at the
 * end; and the same queries as samples of their own. What must come of one the reference implementation says.
 */
import type { CaseAttribute } from "../../tools/cases/shared/case.js";
import { seededRandom } from "../../src/graph/call.js";
import { writeIntegers, writeNumbers } from "../../src/tensor/access.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";

export interface ManySamples {
  readonly text: string;
  readonly attrs: Readonly<Record<string, CaseAttribute>>;
  readonly inputs: readonly (View | undefined)[];
  /** The same without query_starts: each query with a table and a length of its own. */
  readonly apart: readonly (View | undefined)[];
}

/** The batch of a seed. `samples`: how many at most; `most`: the queries of one. */
export function manySamples(seed: number, samples: number, most: number): ManySamples {
  const random = seededRandom(seed);
  const integer = (low: number, high: number): number => low + Math.floor(random() * (high - low + 1));
  const pick = <T>(choices: readonly T[]): T => choices[integer(0, choices.length - 1)];
  const cacheType = pick<ElementType>(["float32", "float32", "float16", "int8"]);
  const type: ElementType = cacheType === "float16" ? "float16" : "float32";
  const layout = pick(["Norm", "NHSD"]);
  const [kvHeads, group, size, blockSize] = [pick([1, 2, 3]), pick([1, 2, 4]), pick([4, 8, 12]), pick([8, 16])];
  const heads = kvHeads * group;
  const columns = 640 / blockSize;
  const counts = Array.from({ length: integer(1, samples) }, () => pick([0, 1, 1, 1, integer(2, most)]));
  if (!counts.some((count) => count > 0)) counts[0] = 1;
  const filled = random() < 0.5 ? integer(1, 5) : 0;
  // Tokens of nobody: a sample without rows.
  if (filled > 0) counts.push(filled);
  const lengths = counts.map((count, at) =>
    filled > 0 && at === counts.length - 1 ? 0 : count + integer(0, random() < 0.3 ? 500 : 60),
  );
  // Blocks may be shared: texts that begin alike have the same first ones.
  const blocks = columns + 20;
  const tableOf = (length: number): number[] =>
    Array.from({ length: columns }, (_, at) => (at * blockSize < length ? integer(0, blocks - 1) : -1));
  const tables = lengths.map(tableOf);
  const tokens = counts.reduce((sum, count) => sum + count, 0);
  const of = (kind: ElementType, dims: readonly number[], next: (at: number) => number): View => {
    const view = View.allocate(kind, dims);
    const values = Array.from({ length: view.size }, (_, at) => next(at));
    if (kind.startsWith("int") && kind !== "int8") writeIntegers(view, values);
    else writeNumbers(view, values);
    return view;
  };
  const pageShape = layout === "Norm" ? [blocks, blockSize, kvHeads, size] : [blocks, kvHeads, blockSize, size];
  const cache = (): View =>
    of(cacheType, pageShape, () => (cacheType === "int8" ? integer(-127, 127) : random() * 4 - 2));
  const scale = (): View | undefined =>
    cacheType === "int8" ? of("float32", [blocks, blockSize, kvHeads], () => random() * 0.02) : undefined;
  const pools = [cache(), cache()];
  const scales = [scale(), scale()];
  const query = of(type, [tokens, 1, heads * size], () => random() * 4 - 2);
  const index = pick<ElementType>(["int32", "int64"]);
  const flat = tables.flat();
  const owner = counts.flatMap((count, sample) => Array.from({ length: count }, (_, row) => ({ sample, row, count })));
  const seen = owner.map(({ sample, row, count }) => Math.max(0, lengths[sample] - (count - 1 - row)));
  const left = random() < 0.3 ? integer(0, 100) : -1;
  return {
    text: `seed ${seed}: ${layout} ${cacheType}, ${heads}/${kvHeads} heads of ${size}, queries ${counts.join()} over ${lengths.join()}, window ${left}`,
    attrs: {
      cache_mode: layout,
      is_causal: 1,
      q_num_heads: heads,
      kv_num_heads: kvHeads,
      left_window_size: left,
      softcap: { float: random() < 0.2 ? 5 : 0 },
    },
    inputs: [
      query,
      ...pools,
      of(index, [counts.length, columns], (at) => flat[at]),
      of(index, [counts.length], (at) => lengths[at]),
      ...scales,
      of(index, [counts.length + 1], (at) => counts.slice(0, at).reduce((sum, count) => sum + count, 0)),
    ],
    apart: [
      query,
      ...pools,
      of(index, [tokens, columns], (at) => tables[owner[Math.floor(at / columns)].sample][at % columns]),
      of(index, [tokens], (at) => seen[at]),
      ...scales,
    ],
  };
}
