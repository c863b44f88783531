/** Operands that a step would write over before it has read them. */
import type { Step } from "../plan/program.js";
import { effectOf } from "../plan/uses.js";
import { cloneView } from "../tensor/copy.js";
import type { View } from "../tensor/view.js";
import type { Engine } from "./engine.js";

/** Operands that lie in a buffer the step writes, other than the one it updates, are copied first: the source may overlap. */
export function separateOverlaps(
  engine: Pick<Engine, "overlap">,
  step: Step,
  views: readonly (View | undefined)[],
  outputs: readonly (View | undefined)[],
): readonly (View | undefined)[] {
  if (!step.updates) return views;
  let copies: (View | undefined)[] | undefined;
  views.forEach((view, at) => {
    const overlaps =
      view !== undefined &&
      step.placements.some(
        (placement, output) =>
          placement?.kind === "shared" &&
          placement.effect === "update" &&
          effectOf(step.node, output)?.position !== at &&
          engine.overlap(view, outputs[output]!),
      );
    if (overlaps) (copies ??= [...views])[at] = cloneView(view);
  });
  return copies ?? views;
}
