/** What operators do whose output is an operand's own bytes, or starts as a copy of them. */
import { cloneView, copyView } from "../../../tensor/copy.js";
import type { View } from "../../../tensor/view.js";

/** Copies `from` to the contiguous `to`, row-major, whatever shape `to` has; nothing is done where both are the same bytes. */
export function copyUnlessShared(from: View, to: View): void {
  if (to.data !== from.data || to.offset !== from.offset) copyView(from, to.reshape(from.shape));
}

/** The view, or a copy of it where writing to `target` could change it. */
export const apartFrom = (view: View, target: View): View => (view.data === target.data ? cloneView(view) : view);
