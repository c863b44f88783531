/** The change of a paged cache from one layout to another. Moves elements; knows no operator. */
import { checkOptions } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { OptionNames } from "#insitu/base/option-names.js";
import { valueText } from "#insitu/base/value-text.js";
import { fragmentLength, type PagedLayout, pagedTypes } from "#insitu/ops/shared/paged/layouts.js";
import { copyView } from "#insitu/tensor/copy.js";
import { byteLengthOf } from "#insitu/tensor/element-type.js";
import { isTensor, Tensor } from "#insitu/tensor/tensor.js";
import { View } from "#insitu/tensor/view.js";

/** How a paged cache is to be laid out anew. */
export interface PagedLayoutChange {
  readonly from: PagedLayout;
  readonly to: PagedLayout;
  /** The number of heads, which a PA_NZ cache of 4 dimensions does not tell. */
  readonly heads?: number;
}

const layoutChangeNames: OptionNames<PagedLayoutChange> = { from: true, to: true, heads: true };

/** A copy of a paged cache in another layout. */
export function convertPagedLayout(cache: Tensor, change: PagedLayoutChange): Tensor {
  const refuse = (message: string): never => {
    throw new InsituError("invalid-argument", `ops.convertPagedLayout: ${message}`);
  };
  if (!isTensor(cache)) refuse(`cache must be a Tensor, got ${valueText(cache)}`);
  checkOptions("ops.convertPagedLayout: the change", change, layoutChangeNames);
  const { from, to, heads } = change;
  for (const layout of [from, to])
    if (!["Norm", "PA_NZ", "NHSD"].includes(layout))
      refuse(`a layout must be one of "Norm", "PA_NZ", "NHSD", got ${valueText(layout)}`);
  if (!pagedTypes.includes(cache.type)) refuse(`a paged cache holds ${pagedTypes.join(", ")}, got ${cache}`);
  const source = piecesOf(cache, from, heads, refuse);
  const [blocks, blockSize, count, pieces, piece] = source.shape; // [blocks, block_size, heads, pieces of a head, piece]
  const size = pieces * piece;
  if (to === "PA_NZ" && byteLengthOf(cache.type, size) % 32 !== 0)
    refuse(`PA_NZ needs heads of a multiple of 32 bytes, got ${size} of ${cache.type} in ${cache}`);
  const shapes: Record<PagedLayout, readonly number[]> = {
    Norm: [blocks, blockSize, count, size],
    NHSD: [blocks, count, blockSize, size],
    PA_NZ: [blocks, (count * size) / fragmentLength(cache.type), blockSize, fragmentLength(cache.type)],
  };
  const result = Tensor.fromView(View.allocate(cache.type, shapes[to]));
  const target = piecesOf(result, to, count, refuse);
  const finest = Math.min(piece, target.shape[4]);
  copyView(split(source, finest), split(target, finest));
  return result;
}

/** A cache as [blocks, block_size, heads, pieces of a head, piece], whatever its layout. */
function piecesOf(
  cache: Tensor,
  layout: PagedLayout,
  heads: number | undefined,
  refuse: (message: string) => never,
): View {
  const view = cache.toView();
  const { dims } = cache;
  if (dims.length !== 4 && !(layout === "PA_NZ" && dims.length === 5))
    refuse(`a ${layout} cache must have ${layout === "PA_NZ" ? "4 or 5" : "4"} dimensions, got ${cache}`);
  if (dims.includes(0)) refuse(`a cache's dimensions must be at least 1, got ${cache}`);
  if (layout === "Norm") return view.reshape([dims[0], dims[1], dims[2], 1, dims[3]]);
  if (layout === "NHSD") return view.reshape([dims[0], dims[1], 1, dims[2], dims[3]]).transpose([0, 3, 1, 2, 4]);
  if (dims.at(-1) !== fragmentLength(cache.type))
    refuse(
      `a PA_NZ cache must have 32 bytes, ${fragmentLength(cache.type)} of ${cache.type}, as its last dimension, got ${cache}`,
    );
  const count = dims.length === 5 ? dims[1] : heads;
  if (count === undefined || !Number.isSafeInteger(count) || count < 1)
    return refuse(
      `heads must be given as a whole number of at least 1: ${cache} does not tell, got ${valueText(count)}`,
    );
  const pieces = dims.length === 5 ? dims[2] : dims[1] / count;
  if (!Number.isInteger(pieces)) refuse(`heads must divide the ${dims[1]} pieces of ${cache}, got ${count}`);
  return view.reshape([dims[0], count, pieces, dims.at(-2)!, dims.at(-1)!]).transpose([0, 3, 1, 2, 4]);
}

/** The same elements with pieces of `length`, which divides theirs. */
function split(view: View, length: number): View {
  const [blocks, blockSize, heads, pieces, piece] = view.shape;
  const [block, row, head, next] = view.strides;
  // Where a head is in one piece, its pieces lie one after the other.
  const strides = pieces === 1 ? [block, row, head, length, 1] : [block, row, head, next, 1];
  return new View(
    view.type,
    [blocks, blockSize, heads, (pieces * piece) / length, length],
    view.data,
    view.offset,
    strides,
  );
}
