/** The four operations. Integers wrap; integer division truncates toward zero, and by zero it gives 0. */
import {
  addDims,
  type Dim,
  divideExactly,
  floorDivideDims,
  isKnown,
  multiplyDims,
  subtractDims,
} from "../../graph/dim.js";
import type { ElementType } from "../../tensor/element-type.js";
import { binaryOp, isInteger } from "../shared/families/binary.js";
import type { Binary } from "../shared/loops/elementwise.js";
import { isNonNegative } from "../shared/rules/integer-facts.js";
import { numeric } from "../shared/rules/types.js";

interface Operation {
  readonly floats: Binary["number"];
  /** On integers of up to 32 bits, where it differs. */
  readonly integers?: Binary["number"];
  readonly bigint: NonNullable<Binary["bigint"]>;
  readonly integer: (x: Dim, y: Dim) => Dim | undefined;
}

const arithmeticOp = (name: string, { floats, integers = floats, bigint, integer }: Operation) =>
  binaryOp({
    name,
    since: 7,
    types: numeric,
    apply: (_, type: ElementType) => ({ number: isInteger(type) ? integers : floats, bigint }),
    integer,
  });

/** The quotient of integers in symbols: exact, or a floor where neither side can be negative. */
function quotient(x: Dim, y: Dim): Dim | undefined {
  if (y === 0) return undefined;
  if (isKnown(x) && isKnown(y)) return Math.trunc(x / y);
  return divideExactly(x, y) ?? (isNonNegative(x) && isNonNegative(y) ? floorDivideDims(x, y) : undefined);
}

/** A + B. */
export const Add = arithmeticOp("Add", { floats: (x, y) => x + y, bigint: (x, y) => x + y, integer: addDims });

/** A − B. */
export const Sub = arithmeticOp("Sub", { floats: (x, y) => x - y, bigint: (x, y) => x - y, integer: subtractDims });

/** A · B. */
export const Mul = arithmeticOp("Mul", {
  floats: (x, y) => x * y,
  integers: Math.imul,
  bigint: (x, y) => x * y,
  integer: multiplyDims,
});

/** A / B. */
export const Div = arithmeticOp("Div", {
  floats: (x, y) => x / y,
  integers: (x, y) => (y === 0 ? 0 : Math.trunc(x / y)),
  bigint: (x, y) => (y === 0n ? 0n : x / y),
  integer: quotient,
});
