/** What attention with a cache inside writes of its present: the rows after those of the past. */
import type { View } from "../../tensor/view.js";

/** The fresh rows of a present [batch, heads, rows, size]; all of it where it is no longer than the past. */
export function appendedRows(past: View | undefined, present: View | undefined): View[] {
  if (present === undefined) return [];
  const [from, to] = [past?.shape[2] ?? 0, present.shape[2]];
  return [to > from ? present.slice(2, from, to) : present];
}
