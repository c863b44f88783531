/** How long the parts of a Split are. */
import {
  ceilDivideDims,
  type Dim,
  divideExactly,
  floorDivideDims,
  isKnown,
  multiplyDims,
  shapeText,
  subtractDims,
} from "../../graph/dim.js";
import type { CallContext } from "../../graph/op.js";

/** The lengths of the parts along an axis of `size`. */
export type PartRule = (size: Dim) => readonly Dim[];

/** Parts of the given lengths, which must add up to the axis. */
export function partsGiven(call: CallContext, split: readonly Dim[]): PartRule {
  return (size) => {
    call.check(
      split.every((part) => !isKnown(part) || part >= 0),
      () => `split must not be negative, got ${shapeText(split)}`,
      "invalid-argument",
    );
    const sum = split.every(isKnown) ? split.reduce((total, part) => total + part, 0) : undefined;
    call.check(
      sum === undefined || !isKnown(size) || sum === size,
      () => `split ${shapeText(split)} must add up to the length of the axis, ${size}`,
      "invalid-argument",
    );
    return split;
  };
}

/** `count` parts of one length. */
export function partsEqual(call: CallContext, count: number): PartRule {
  return (size) => {
    const part = divideExactly(size, count);
    call.check(
      part !== undefined || !isKnown(size),
      () => `an axis of ${size} cannot be split into ${count} equal parts`,
    );
    return new Array<Dim>(count).fill(part ?? floorDivideDims(size, count));
  };
}

/** `count` parts of one length, of which the last may be shorter. */
export function partsNearlyEqual(call: CallContext, count: number): PartRule {
  return (size) => {
    const part = ceilDivideDims(size, count);
    const last = subtractDims(size, multiplyDims(part, count - 1));
    call.check(
      !isKnown(last) || last >= 0,
      () => `an axis of ${size} cannot be split into ${count} parts of ${part}, the last one shorter`,
    );
    return [...new Array<Dim>(count - 1).fill(part), last];
  };
}
