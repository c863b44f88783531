/** What is measured of numbers that the host knows before a run, where dispatches are chosen by it. */
import { readIntegers } from "../tensor/access.js";
import type { View } from "../tensor/view.js";

/** A number that some values come to. All layers ask the same: it is found once a run for the same values. */
export type Measure = (views: readonly View[]) => number;

/** The largest of numbers. */
export const largest: Measure = ([view]) => readIntegers(view).reduce((a, b) => Math.max(a, b), -Infinity);

/** The largest step from one number to the next. */
export const largestStep: Measure = ([view]) =>
  readIntegers(view).reduce(
    (most, number, at, all) => (at === 0 ? most : Math.max(most, number - all[at - 1])),
    -Infinity,
  );
