/** The write of a key's or value's rows into its cache, as a step of operators that stand for several. */
import { int, string } from "../../../graph/attribute-values.js";
import { overwrittenParts } from "../../../graph/call.js";
import { View } from "../../../tensor/view.js";
import { TensorScatter } from "../../tensor-scatter/op.js";
import { type BodyStep, callableOf, step } from "./composed.js";

/** How the rows of both caches are written. */
interface WriteSettings {
  readonly axis: number;
  readonly mode: "linear" | "circular";
  readonly hasIndices: boolean;
}

/** TensorScatter of `rows` into a cache. */
export const writeStep = (which: "key" | "value", rows: string, { axis, mode, hasIndices }: WriteSettings): BodyStep =>
  step(TensorScatter, [`past_${which}`, rows, hasIndices ? "write_indices" : undefined], [`present_${which}`], {
    axis: int(axis),
    mode: string(mode),
  });

/** The parts of a present that its write overwrites with rows of a shape; none where it is left out. */
export function writtenParts(
  write: BodyStep,
  label: string,
  past: View,
  rows: readonly number[],
  indices: View | undefined,
  present: View | undefined,
): readonly View[] {
  if (present === undefined) return [];
  // Only the shape of what is written is looked at.
  const written = new View(
    past.type,
    rows,
    past.data,
    past.offset,
    rows.map(() => 0),
  );
  return overwrittenParts(callableOf(write, label), [past, written, indices], [present], () => true);
}
