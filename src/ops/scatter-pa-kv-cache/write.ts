/** Moves checked vectors into one cache. Source and cache are contiguous and do not overlap. */
import type { View } from "../../tensor/view.js";
import { moveVectors } from "../shared/paged/rows.js";
import { pieceMover, slotsOf, startOf } from "../shared/paged/layouts.js";
import { averager } from "./mean.js";
import type { Scenario } from "./scenario.js";
import type { Run, Writes } from "./writes.js";

/** Writes the vectors of one source into one cache. `place` says where rows lie in a buffer that holds more than them. */
export function writeVectors(
  source: View,
  cache: View,
  scenario: Scenario,
  writes: Writes,
  place: { readonly stride: number; readonly offset: number },
): void {
  if (writes.kind === "runs") return writeRuns(source, cache, writes.runs);
  const { layout, strided } = scenario as Scenario & { readonly kind: "tokens" };
  const places = slotsOf(layout, cache.shape);
  const vector = places.pieces * places.length;
  const [first, step] = strided ? [place.offset, place.stride] : [0, vector];
  if (places.pieces === 1) return moveVectors(source, cache, vector, writes.slots, first, step);
  const move = pieceMover(source, cache, places.length);
  const { slots } = writes;
  for (let token = 0; token < slots.length; token++) {
    if (slots[token] < 0) continue;
    move(token * vector, startOf(places, slots[token]), places.pieces, places.length, places.step);
  }
}

/** Rows are [tokens, heads, size]; a slot holds the vector of one head. */
function writeRuns(source: View, cache: View, runs: readonly Run[]): void {
  const [heads, size] = source.shape.slice(-2);
  const move = pieceMover(source, cache, size);
  const average = averager(source, cache);
  const step = heads * size;
  for (const { slot, row, head, lead, window, tail, length } of runs) {
    const first = row * step + head * size;
    const at = slot * size;
    if (lead > 0) move(first, at, lead, step, size);
    if (window > 0) average(first + lead * step, step, window, at + lead * size, size);
    const stored = lead + (window > 0 ? 1 : 0);
    if (tail < length) move(first + tail * step, at + stored * size, length - tail, step, size);
  }
}
