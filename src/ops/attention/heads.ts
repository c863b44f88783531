/**
 * Heads: tensors of attention seen as [batch, heads, length, size], whatever their layout. Packed ones ([batch, length, heads · size])
 * and caches inside their capacity are read through strides; nothing is copied to be looked at.
 */
import { type Dim, divideExactly, isKnown, unknownDim } from "../../graph/dim.js";
import { type Fact, factText } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { numberReader } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";

/** The dimensions of one operand by meaning. */
interface Heads {
  readonly batch: Dim;
  readonly heads: Dim;
  readonly length: Dim;
  readonly size: Dim;
}

/** The dimensions of an operand of 4 dimensions, or of 3 with `heads` packed into the last. Fails where they do not divide. */
export function headsOf(
  call: CallContext,
  name: string,
  fact: Fact,
  heads: { attribute: string; count: number | undefined },
): Heads {
  const { shape } = fact;
  if (shape === undefined)
    return { batch: unknownDim(), heads: heads.count ?? unknownDim(), length: unknownDim(), size: unknownDim() };
  if (shape.length === 4) return { batch: shape[0], heads: shape[1], length: shape[2], size: shape[3] };
  const { attribute, count } = heads;
  if (count === undefined)
    return call.fail(
      `${name} of 3 dimensions needs the attribute ${attribute}, got ${factText(fact)} without it`,
      "invalid-graph",
    );
  const [batch, length, packed] = shape;
  call.check(
    !isKnown(packed) || packed % count === 0,
    () => `${attribute} must divide the last dimension of ${name}, got ${count} and ${packed}`,
  );
  return { batch, heads: count, length, size: divideExactly(packed, count) ?? unknownDim() };
}

/** The view as [batch, heads, length, size]: 4 dimensions as they are, 3 with `heads` split off the last. */
export function headsView(view: View, heads: number): View {
  if (view.rank === 4) return view;
  const [batch, length, packed] = view.shape;
  const size = packed / heads;
  const [batchStep, lengthStep, step] = view.strides;
  return new View(view.type, [batch, heads, length, size], view.data, view.offset, [
    batchStep,
    size * step,
    lengthStep,
    step,
  ]);
}

/** Rows `from` to `to` (exclusive). */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * Rows of one head of one sample as numbers, [to − from, size], out of `parts` that follow each other along the length.
 * No other row is touched.
 */
export function readRows(parts: readonly View[], sample: number, head: number, { from, to }: Range): Float64Array {
  const size = parts[0].shape[3];
  const rows = new Float64Array((to - from) * size);
  let at = 0;
  let start = 0; // of the part, counted in rows of the whole
  for (const part of parts) {
    const read = numberReader(part);
    const [sampleStep, headStep, rowStep, step] = part.strides;
    const end = start + part.shape[2];
    for (let row = Math.max(from, start); row < Math.min(to, end); row++) {
      let index = part.offset + sample * sampleStep + head * headStep + (row - start) * rowStep;
      for (let i = 0; i < size; i++, index += step) rows[at++] = read(index);
    }
    start = end;
  }
  return rows;
}
