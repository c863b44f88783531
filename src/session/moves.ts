/** What a run leaves to be brought to its place: into caches, and into tensors that the caller gave. Reads everything before it is overwritten. */
import { cloneView, copyView } from "../tensor/copy.js";
import { sameNumbers, type View } from "../tensor/view.js";

/** Elements and where they go. */
export interface Move {
  readonly from: View;
  readonly to: View;
}

/**
 * Makes all moves as if at once: what an earlier one would overwrite is copied first. Where two go to the same place, the later one is what
 * stays. `overlap` tells whether two views may have a byte in common.
 */
export function moveAll(moves: readonly Move[], overlap: (a: View, b: View) => boolean): void {
  const sources = moves.map(({ from }, at) => {
    for (let earlier = 0; earlier < at; earlier++) if (overlap(from, moves[earlier].to)) return cloneView(from);
    return from;
  });
  moves.forEach(({ to }, at) => {
    if (!isThere(sources[at], to)) copyView(sources[at], to);
  });
}

/** True if elements of one shape lie where they are to go. */
const isThere = (from: View, to: View): boolean =>
  from.data === to.data && from.offset === to.offset && sameNumbers(from.strides, to.strides);
