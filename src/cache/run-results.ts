/** What a run over pages gave, laid out by sequence: rows of logits, and the attention that rows got. */
import type { Logits } from "../decoder/logits.js";
import { readNumbers } from "../tensor/access.js";
import type { Tensor } from "../tensor/tensor.js";
import type { PagedEntry } from "./run-entries.js";

/** The logits after each of so many tokens up to one, one row after another. */
export function rowsBefore(logits: Logits, last: number, count: number): Float32Array {
  const rows = Array.from({ length: count }, (_, at) => logits.at(0, last - count + 1 + at));
  const all = new Float32Array(rows.reduce((sum, { length }) => sum + length, 0));
  rows.forEach((row, at) => all.set(row, at * row.length));
  return all;
}

/** Adds the attention of one layer, over all heads, to what the rows of each sequence got. */
export function addSums(sums: Tensor, entries: readonly PagedEntry[]): void {
  const [, heads, columns] = sums.dims;
  const numbers = readNumbers(sums.toView());
  entries.forEach(({ sequence }, sample) => {
    const rows = new Float64Array(Math.min(columns, sequence.length));
    for (let head = 0; head < heads; head++) {
      const start = (sample * heads + head) * columns;
      for (let row = 0; row < rows.length; row++) rows[row] += numbers[start + row];
    }
    sequence.addScores(rows);
  });
}
