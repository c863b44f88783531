/** The moves behind Pad. */
import { copyView } from "../../tensor/copy.js";
import type { View } from "../../tensor/view.js";
import { fillView } from "../shared/loops/fill.js";

/** What the added elements are: one value, or elements of the tensor found by reflection, at the edge or by wrapping around. */
export type PadMode = "constant" | "reflect" | "edge" | "wrap";

/** Elements added before and after an axis; negative ones are taken off. */
export interface AxisPads {
  readonly axis: number;
  readonly begin: number;
  readonly end: number;
}

/** Which of `size` elements stands at `position`, which may lie outside. */
function sourceOf(mode: Exclude<PadMode, "constant">, position: number, size: number): number {
  if (position >= 0 && position < size) return position;
  switch (mode) {
    case "edge":
      return position < 0 ? 0 : size - 1;
    case "wrap":
      return ((position % size) + size) % size;
    case "reflect": {
      // The ends are not doubled, so the pattern repeats after twice the distance between them.
      const period = 2 * (size - 1);
      if (period === 0) return 0;
      const within = ((position % period) + period) % period;
      return within < size ? within : period - within;
    }
    default:
      return mode satisfies never;
  }
}

/** Copies `data` into its place in `output` and fills what is around it. */
export function padView(data: View, output: View, pads: readonly AxisPads[], mode: PadMode, value: View): void {
  if (output.size === 0) return;
  if (mode === "constant") fillView(output, value);
  let from = data;
  let to = output;
  for (const { axis, begin, end } of pads) {
    // What both have of this axis: [start, stop) of the output is [start − begin, stop − begin) of the data.
    const start = Math.max(begin, 0);
    const stop = Math.max(start, Math.min(output.shape[axis], data.shape[axis] + begin + Math.min(end, 0)));
    from = from.slice(axis, start - begin, stop - begin);
    to = to.slice(axis, start, stop);
  }
  if (from.size > 0) copyView(from, to);
  if (mode === "constant") return;
  // Axis by axis: a slice of what is filled already is copied to each place outside, its own pads of earlier axes included.
  for (const { axis, begin, end } of pads) {
    const start = Math.max(begin, 0);
    const size = output.shape[axis] - start - Math.max(end, 0);
    for (let at = 0; at < output.shape[axis]; at++) {
      const source = start + sourceOf(mode, at - start, size);
      if (source !== at) copyView(output.slice(axis, source, source + 1), output.slice(axis, at, at + 1));
    }
  }
}
