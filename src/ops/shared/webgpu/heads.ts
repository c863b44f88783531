/** Heads on the device: operands, parts of them, or scratch memory, seen as [batch, heads, rows, size] through strides. */
import type { Operand } from "../../../graph/kernel.js";
import { byteLengthOf, type ElementType } from "../../../tensor/element-type.js";
import type { Temporary, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";

/** Where [batch, heads, rows, size] lies; the size lies together. Counted in elements. */
export interface Heads {
  readonly of: Operand | Temporary;
  readonly type: ElementType;
  readonly offset: number;
  readonly batch: number;
  readonly heads: number;
  readonly rows: number;
  readonly size: number;
  readonly sample: number;
  readonly head: number;
  readonly row: number;
}

/** An operand of 4 dimensions, or of 3 with `heads` side by side. */
export function headsOf(operand: Operand, heads: number): Heads {
  const { shape, place, type } = operand;
  const { strides, offset } = place;
  if (shape.length === 4) {
    const [batch, count, rows, size] = shape;
    const [sample, head, row] = strides;
    return { of: operand, type, offset, batch, heads: count, rows, size, sample, head, row };
  }
  const [batch, rows, packed] = shape;
  const [sample, row] = strides;
  const size = packed / heads;
  return { of: operand, type, offset, batch, heads, rows, size, sample, head: size, row };
}

/** The tokens of a packed batch, whose samples or rows there is one of: rows of one sample. */
export const tokensOf = (heads: Heads): Heads => ({
  ...heads,
  batch: 1,
  rows: heads.batch * heads.rows,
  sample: 0,
  row: heads.rows === 1 ? heads.sample : heads.row,
});

/** True if the elements of a row lie side by side, else why they are not read. */
export const acceptsRows = ({ shape, place }: Operand): true | string =>
  shape.at(-1) === 1 || place.strides.at(-1) === 1 ? true : "rows have gaps";
/** Some of the heads. */
export const headsFrom = (heads: Heads, first: number, count: number): Heads => ({
  ...heads,
  offset: heads.offset + first * heads.head,
  heads: count,
});

/** Heads of the same sizes in memory of the call's own, without gaps. */
export function temporaryHeads(recorder: WebgpuRecorder, { type, batch, heads, rows, size }: Heads): Heads {
  const of = recorder.temporary(byteLengthOf(type, batch * heads * rows * size));
  return { of, type, offset: 0, batch, heads, rows, size, sample: heads * rows * size, head: rows * size, row: size };
}
