/** Copies between views, all as if at once: everything is read before it is overwritten. */
import { cloneView, copyView } from "../tensor/copy.js";
import { samePlace } from "../tensor/placed.js";
import { hostView, type View } from "../tensor/view.js";
import type { Move } from "./backend.js";

/**
 * Makes all moves as if at once: what an earlier one would overwrite is copied first. Where two go to the same place, the later one is what
 * stays. `overlap` tells whether two views may have a byte in common.
 */
export function moveAll(moves: readonly Move[], overlap: (a: View, b: View) => boolean): void {
  const [sources, targets] = [moves.map(({ from }) => hostView(from)), moves.map(({ to }) => hostView(to))];
  for (let at = 1; at < sources.length; at++)
    if (targets.slice(0, at).some((target) => overlap(sources[at], target))) sources[at] = cloneView(sources[at]);
  targets.forEach((to, at) => {
    if (!samePlace(sources[at], to)) copyView(sources[at], to);
  });
}
