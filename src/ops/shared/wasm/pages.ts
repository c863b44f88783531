/** What the fast paths of paged caches have in common: strides of a layout, and where index operands lie. */
import type { Operand } from "../../../graph/kernel.js";
import type { PagedLayout } from "../paged/layouts.js";

/** How heads lie in a contiguous cache, in elements. `piece` is 0 where a head lies together. */
interface PageStrides {
  readonly blockSize: number;
  readonly size: number;
  readonly block: number;
  readonly row: number;
  readonly head: number;
  readonly piece: number;
  readonly pieceStep: number;
}

/** The strides of a contiguous cache of `heads` heads. */
export function pageStrides(layout: PagedLayout, shape: readonly number[], heads: number): PageStrides {
  const block = shape.slice(1).reduce((product, dim) => product * dim, 1);
  switch (layout) {
    case "Norm": {
      const size = shape[3];
      return { blockSize: shape[1], size, block, row: heads * size, head: size, piece: 0, pieceStep: 0 };
    }
    case "NHSD": {
      const [, , blockSize, size] = shape;
      return { blockSize, size, block, row: size, head: blockSize * size, piece: 0, pieceStep: 0 };
    }
    case "PA_NZ": {
      const [blockSize, piece] = shape.slice(-2);
      const size = block / blockSize / heads;
      return { blockSize, size, block, row: piece, head: blockSize * size, piece, pieceStep: blockSize * piece };
    }
    default:
      return layout satisfies never;
  }
}

/** Bytes of an element of an index operand. */
export const indexBytes = ({ type }: Operand): 4 | 8 => (type === "int64" ? 8 : 4);
