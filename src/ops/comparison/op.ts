/** Comparisons: two operands of one type, a bool out. NaN is neither equal, less nor greater. */
import type { ElementType } from "../../tensor/element-type.js";
import { comparisonOp } from "../shared/families/binary.js";
import { compareDims } from "../shared/rules/integer-facts.js";
import { numeric } from "../shared/rules/types.js";

const comparable: readonly ElementType[] = [...numeric, "bool", "string"];

/** An answer from the sign of a − b. */
const decide =
  (answer: (order: number) => boolean): Parameters<typeof comparisonOp>[0]["integer"] =>
  (x, y) => {
    const order = compareDims(x, y);
    return order === undefined ? undefined : answer(order);
  };

/** A = B; strings compare by their characters. */
export const Equal = comparisonOp({
  name: "Equal",
  since: 7,
  types: comparable,
  test: (x, y) => x === y,
  integer: decide((order) => order === 0),
});

/** A > B. */
export const Greater = comparisonOp({
  name: "Greater",
  since: 7,
  types: numeric,
  test: (x, y) => x > y,
  integer: decide((order) => order > 0),
});

/** A ≥ B. */
export const GreaterOrEqual = comparisonOp({
  name: "GreaterOrEqual",
  since: 12,
  types: numeric,
  test: (x, y) => x >= y,
  integer: decide((order) => order >= 0),
});

/** A < B. */
export const Less = comparisonOp({
  name: "Less",
  since: 7,
  types: numeric,
  test: (x, y) => x < y,
  integer: decide((order) => order < 0),
});

/** A ≤ B. */
export const LessOrEqual = comparisonOp({
  name: "LessOrEqual",
  since: 12,
  types: numeric,
  test: (x, y) => x <= y,
  integer: decide((order) => order <= 0),
});
