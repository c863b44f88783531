/** How the rows that RepackCache moves lie in a contiguous cache, for kernels of any device. */
import type { CallOf } from "../../graph/kernel.js";
import { slotsOf } from "../shared/paged/layouts.js";
import { fromFront, productOf } from "../shared/rules/layout.js";
import type { RepackCache } from "./op.js";

/** How rows lie, in elements: `pieces` of each, of `length`. */
interface Lines {
  readonly pieces: number;
  readonly length: number;
  readonly sample: number;
  readonly piece: number;
  readonly row: number;
  readonly block: number;
  readonly blockSize: number;
}

/** The rows of a call whose cache is contiguous. */
export function linesOf({ inputs: { cache, rows, block_tables }, attrs }: CallOf<typeof RepackCache>): Lines {
  const { shape } = cache;
  if (block_tables === undefined) {
    const axis = fromFront(attrs.axis, shape);
    const length = productOf(shape.slice(axis + 1));
    const pieces = productOf(shape.slice(1, axis));
    const piece = shape[axis] * length;
    return { pieces, length, sample: pieces * piece, piece, row: length, block: 0, blockSize: 1 };
  }
  const { cache_mode: layout } = attrs;
  const slots = slotsOf(layout, layout === "Norm" && shape.length === 3 ? [...shape, 1] : shape);
  const { blockSize, blockStep: block, rowStep: row } = slots;
  // Where each head has rows of its own, the heads of a Norm cache are pieces.
  const heads = rows.shape.length === 3 && layout === "Norm" ? shape[2] : 1;
  const length = slots.length / heads;
  return {
    pieces: slots.pieces * heads,
    length,
    sample: 0,
    piece: heads > 1 ? length : slots.step,
    row,
    block,
    blockSize,
  };
}
