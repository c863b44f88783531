/** Moves the vectors of checked sequences out of one contiguous cache into contiguous rows. */
import type { ByteStorage } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";
import { type PagedLayout, pieceMover, slotsOf } from "../shared/paged/layouts.js";
import type { Sequences } from "./rules.js";

/** Writes the tokens of every sequence, one after the other, into `rows`; tokens past a table are zeros. */
export function gatherVectors(cache: View, rows: View, layout: PagedLayout, sequences: Sequences): void {
  const { lengths, columns, tables, width } = sequences;
  const { blockSize, blockStep, rowStep, pieces, length, step } = slotsOf(layout, cache.shape);
  const vector = pieces * length;
  const move = pieceMover(cache, rows, length);
  let row = 0;
  lengths.forEach((tokens, sequence) => {
    for (let first = 0; first < tokens; first += blockSize) {
      const column = columns[sequence] + first / blockSize;
      const count = Math.min(blockSize, tokens - first);
      const at = (row + first) * vector;
      if (column >= width) {
        const end = (row + tokens) * vector;
        (rows.data as Exclude<ByteStorage, BigInt64Array | BigUint64Array>).fill(
          0,
          rows.offset + at,
          rows.offset + end,
        );
        break;
      }
      const block = tables[sequence * width + column] * blockStep;
      if (pieces === 1) move(block, at, count, rowStep, vector);
      else for (let r = 0; r < count; r++) move(block + r * rowStep, at + r * vector, pieces, step, length);
    }
    row += tokens;
  });
}
