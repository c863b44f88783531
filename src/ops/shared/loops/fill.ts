/** Filling views with one element, whatever its type. */
import { unreachable } from "../../../base/error.js";
import { elementCopier } from "../../../tensor/copy.js";
import { View } from "../../../tensor/view.js";

/** A function that fills `count` consecutive elements of `target`, from a storage index on, with the one element of `value`. */
export function elementFiller(value: View, target: View): (start: number, count: number) => void {
  if (value.size !== 1) unreachable(`${target} filled with ${value}`);
  const place = elementCopier(value, target);
  const spread = elementCopier(target, target);
  return (start, count) => {
    if (count === 0) return;
    place(value.offset, start, 1);
    // What is filled already is copied behind itself, so that the filled part doubles.
    for (let done = 1; done < count; done *= 2) spread(start, start + done, Math.min(done, count - done));
  };
}

/** Fills a contiguous view with the one element of `value`. */
export function fillView(target: View, value: View): void {
  elementFiller(value, target)(target.offset, target.size);
}

/** The zero of a type: 0, false or the empty string. */
export const zeroOf = (type: View["type"]): View => View.allocate(type, []);
