/** How heads lie in the pages of a contiguous cache, for kernels of any device. */
import type { PagedLayout } from "./layouts.js";

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

/** Heads in a page; those of a PA_NZ page its head size tells. */
export function pageHeadsOf(layout: PagedLayout, shape: readonly number[], headSize: number): number {
  if (layout === "Norm") return shape[2];
  if (layout === "NHSD") return shape[1];
  return shape.slice(1).reduce((product, dim) => product * dim, 1) / shape.at(-2)! / headSize;
}
