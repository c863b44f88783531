/** What a picture of a pool shows: blocks by what they are used for, and texts by the blocks that hold them. Draws nothing. */
import type { BlockDescription, BlockPool, PoolStatistics } from "#insitu/cache/block-pool.js";

/** A text of the pool. */
interface PoolText {
  /** Stands for the text where there is little room. */
  readonly letter: string;
  readonly name: string;
  readonly text: string;
  readonly rows: number;
  readonly table: readonly number[];
  /** Blocks of the table that other texts use too. */
  readonly shared: number;
  /** The letters of those texts. */
  readonly with: readonly string[];
}

/** A pool as it is at one moment. */
export interface PoolView {
  readonly statistics: PoolStatistics;
  readonly blockBytes: number;
  readonly blocks: readonly (BlockDescription & { readonly letters: readonly string[] })[];
  readonly texts: readonly PoolText[];
  /** Blocks that the texts would take if none were shared. */
  readonly apart: number;
}

const letterAt = (at: number): string =>
  at < 26 ? String.fromCharCode(65 + at) : `${letterAt(Math.floor(at / 26) - 1)}${letterAt(at % 26)}`;

/** Looks at a pool; `textOf` says what a sequence holds. */
export function viewPool(pool: BlockPool, blockBytes: number, textOf: (name: string) => string): PoolView {
  const sequences = pool.sequences.filter(({ table }) => table.length > 0);
  const letters = new Map(sequences.map(({ name }, at) => [name, letterAt(at)]));
  const blocks = pool.describe().map((block) => ({
    ...block,
    letters: block.holders.map(({ sequence }) => letters.get(sequence)!),
  }));
  const texts = sequences.map(({ name, length, table }) => {
    const common = table.filter((block) => blocks[block].letters.length > 1);
    const letter = letters.get(name)!;
    const others = new Set(common.flatMap((block) => blocks[block].letters));
    others.delete(letter);
    return { letter, name, text: textOf(name), rows: length, table, shared: common.length, with: [...others] };
  });
  const apart = sequences.reduce((sum, { table }) => sum + table.length, 0);
  return { statistics: pool.statistics, blockBytes, blocks, texts, apart };
}

/** What the blocks are used for, in a sentence or two. */
export function poolSummary({ statistics, apart, texts }: PoolView): string[] {
  const { blocks, blockSize, used, shared, kept, free } = statistics;
  const saved = apart - used;
  return [
    `${blocks} blocks of ${blockSize} rows: ${used} used (${shared} of them shared), ${kept} kept for what they hold, ${free} free`,
    ...(saved > 0
      ? [`${texts.length} texts hold ${apart} blocks' worth in ${used}: what they have in common is there once`]
      : []),
  ];
}
