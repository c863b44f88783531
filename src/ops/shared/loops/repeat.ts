/** Copying a tensor many times over: what broadcasting and tiling come down to. */
import { copyView, elementCopier } from "../../../tensor/copy.js";
import { forEachIndex, View } from "../../../tensor/view.js";

/**
 * Copies a view, some of whose axes repeat the same elements (stride 0), to the contiguous view `to` of its shape. What repeats
 * is read once; the rest is copied inside `to`, in runs that double.
 */
export function copyRepeated(from: View, to: View): void {
  const { shape, strides, type } = to;
  if (to.size === 0) return;
  const repeated = shape.flatMap((dim, axis) => (dim > 1 && from.strides[axis] === 0 ? [axis] : []));
  const firstOf = (view: View): View => repeated.reduce((part, axis) => part.slice(axis, 0, 1), view);
  copyView(firstOf(from), firstOf(to));
  const copy = elementCopier(to, to);
  for (const axis of repeated.toReversed()) {
    // All axes after this one are complete; of those before it that repeat only the beginning is there.
    const outer = shape.slice(0, axis).map((dim, at) => (repeated.includes(at) ? 1 : dim));
    const [count, block] = [shape[axis], strides[axis]];
    forEachIndex(new View(type, outer, to.data, to.offset, strides.slice(0, axis)), (start) => {
      for (let done = 1; done < count; done *= 2)
        copy(start, start + done * block, Math.min(done, count - done) * block);
    });
  }
}
