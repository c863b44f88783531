/** The pages of a contiguous cache as rows of heads: all that tables can name. */
import type { Operand } from "../../../graph/kernel.js";
import type { PagedLayout } from "../paged/layouts.js";
import { pageStrides } from "../paged/strides.js";
import type { CacheRows, Pages } from "./attention-parts.js";

/** Keys or values on pages. */
export interface PageRows extends CacheRows {
  readonly of: Operand;
  readonly pages: Pages;
}

/** A cache whose pages hold so many heads, for a batch of samples. Tables of 3 dimensions have a row for each head. */
export function pageRowsOf(
  cache: Operand,
  {
    layout,
    pageHeads,
    tables,
    batch,
    scales,
  }: {
    readonly layout: PagedLayout;
    readonly pageHeads: number;
    readonly tables: Operand;
    readonly batch: number;
    readonly scales?: Operand | undefined;
  },
): PageRows {
  const { blockSize, size, block, row, head, piece, pieceStep } = pageStrides(layout, cache.shape, pageHeads);
  const perHead = tables.shape.length === 3;
  const columns = tables.shape.at(-1)!;
  const heads = perHead ? tables.shape[1] : pageHeads;
  return {
    of: cache,
    type: cache.type,
    offset: cache.place.offset,
    batch,
    heads,
    rows: columns * blockSize,
    size,
    sample: 0,
    head: perHead ? 0 : head,
    row,
    pages: {
      tables,
      tableSample: perHead ? heads * columns : columns,
      tableHead: perHead ? columns : 0,
      blockSize,
      block,
      piece,
      pieceStep,
      scales,
      scaleHeads: pageHeads,
    },
  };
}
