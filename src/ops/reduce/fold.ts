/**
 * What the reductions do with one row: in float64 for floats, in exact integers for integers and bools.
 * Integer results are brought into the type's range by whoever stores them.
 */
import { addDims, type Dim, maxDim, minDim, multiplyDims } from "../../graph/dim.js";
import type { Numbers } from "../../tensor/access.js";
import { type ElementType, traitsOf } from "../../tensor/element-type.js";

/** A reduction of the elements from `start` to `end` (exclusive). */
export interface Fold {
  number(values: Numbers, start: number, end: number): number;
  integer(values: ArrayLike<bigint>, start: number, end: number, type: ElementType): bigint;
  /** The same on host-side integers, for the reductions that shape arithmetic uses. */
  dims?(values: readonly Dim[]): Dim | undefined;
}

/** The least and the greatest value of an integer or bool type. */
function rangeOf(type: ElementType): { least: bigint; greatest: bigint } {
  const { bits, signed, kind } = traitsOf(type);
  if (kind === "bool") return { least: 0n, greatest: 1n };
  return signed
    ? { least: -(1n << BigInt(bits - 1)), greatest: (1n << BigInt(bits - 1)) - 1n }
    : { least: 0n, greatest: (1n << BigInt(bits)) - 1n };
}

/** A float as an integer of the type: truncated, infinities at the ends of the range, NaN as 0. */
function toInteger(value: number, type: ElementType): bigint {
  if (Number.isNaN(value)) return 0n;
  if (Number.isFinite(value)) return BigInt(Math.trunc(value));
  return value < 0 ? rangeOf(type).least : rangeOf(type).greatest;
}

/** ⌊√value⌋ of a value that is not negative. */
function integerRoot(value: bigint): bigint {
  let root = BigInt(Math.floor(Math.sqrt(Number(value))));
  while (root * root > value) root--;
  while ((root + 1n) * (root + 1n) <= value) root++;
  return root;
}

/** A sum of what `term` makes of each element. */
function sumOf(term: (x: number) => number, integerTerm: (x: bigint) => bigint): Pick<Fold, "number" | "integer"> {
  return {
    number(values, start, end) {
      let total = 0;
      for (let i = start; i < end; i++) total += term(values[i]);
      return total;
    },
    integer(values, start, end) {
      let total = 0n;
      for (let i = start; i < end; i++) total += integerTerm(values[i]);
      return total;
    },
  };
}

/** x₁ + x₂ + … */
export const sum: Fold = {
  ...sumOf(
    (x) => x,
    (x) => x,
  ),
  dims: (values) => values.reduce<Dim>(addDims, 0),
};

/** |x₁| + |x₂| + … */
export const absoluteSum: Fold = sumOf(Math.abs, (x) => (x < 0n ? -x : x));

/** x₁² + x₂² + … */
export const squareSum: Fold = sumOf(
  (x) => x * x,
  (x) => x * x,
);

/** √(x₁² + x₂² + …) */
export const norm: Fold = {
  number: (values, start, end) => Math.sqrt(squareSum.number(values, start, end)),
  integer: (values, start, end, type) => integerRoot(squareSum.integer(values, start, end, type)),
};

/** (x₁ + x₂ + …) / n; NaN, or 0 for integers, of nothing. Integers truncate. */
export const mean: Fold = {
  number: (values, start, end) => sum.number(values, start, end) / (end - start),
  integer: (values, start, end, type) =>
    end === start ? 0n : sum.integer(values, start, end, type) / BigInt(end - start),
};

/** x₁ · x₂ · … */
export const productOfAll: Fold = {
  number(values, start, end) {
    let total = 1;
    for (let i = start; i < end; i++) total *= values[i];
    return total;
  },
  // Wrapped at every step: an exact product of many factors would grow without bound.
  integer(values, start, end) {
    let total = 1n;
    for (let i = start; i < end; i++) total = BigInt.asIntN(64, total * values[i]);
    return total;
  },
  dims: (values) => values.reduce<Dim>(multiplyDims, 1),
};

/** The greatest element; NaN where one is NaN, the type's least value of nothing. */
export const maximum: Fold = {
  number(values, start, end) {
    let best = -Infinity;
    for (let i = start; i < end; i++) best = Math.max(best, values[i]);
    return best;
  },
  integer(values, start, end, type) {
    let best = rangeOf(type).least;
    for (let i = start; i < end; i++) if (values[i] > best) best = values[i];
    return best;
  },
  dims: (values) => (values.length === 0 ? undefined : values.reduce(maxDim)),
};

/** The least element; NaN where one is NaN, the type's greatest value of nothing. */
export const minimum: Fold = {
  number(values, start, end) {
    let best = Infinity;
    for (let i = start; i < end; i++) best = Math.min(best, values[i]);
    return best;
  },
  integer(values, start, end, type) {
    let best = rangeOf(type).greatest;
    for (let i = start; i < end; i++) if (values[i] < best) best = values[i];
    return best;
  },
  dims: (values) => (values.length === 0 ? undefined : values.reduce(minDim)),
};

/** log(x₁ + x₂ + …) */
export const logSum: Fold = {
  number: (values, start, end) => Math.log(sum.number(values, start, end)),
  integer: (values, start, end, type) => toInteger(Math.log(Number(sum.integer(values, start, end, type))), type),
};

/** log(exp(x₁) + exp(x₂) + …), without overflow on the way. */
export const logSumExp: Fold = {
  number(values, start, end) {
    const greatest = maximum.number(values, start, end);
    // An infinity would meet itself in the difference; it is its own answer, as is NaN.
    if (!Number.isFinite(greatest)) return greatest;
    let total = 0;
    for (let i = start; i < end; i++) total += Math.exp(values[i] - greatest);
    return greatest + Math.log(total);
  },
  integer(values, start, end, type) {
    const row = Float64Array.from({ length: end - start }, (_, i) => Number(values[start + i]));
    return toInteger(logSumExp.number(row, 0, row.length), type);
  },
};
