/**
 * Element-wise arithmetic on what shape rules know of small integer tensors: numbers where they are known, symbols where not.
 * A result that would leave the element type's range, or that symbols cannot decide, is unknown; nothing here ever throws.
 */
import { type Dim, isKnown, isKnownShape, subtractDims, SymbolicDim } from "../../../graph/dim.js";
import { type Fact, knownSize } from "../../../graph/fact.js";
import { isWide, readBigInts, readIntegers } from "../../../tensor/access.js";
import { type ElementType, traitsOf } from "../../../tensor/element-type.js";
import { forEachIndex, View } from "../../../tensor/view.js";

const mostEntries = 1024;

/** The contents of an integer or bool tensor of at most 1024 elements, where known and small enough to be exact. */
export function smallIntegers(fact: Fact): readonly Dim[] | undefined {
  const { kind } = traitsOf(fact.type);
  const size = knownSize(fact);
  if ((kind !== "integer" && kind !== "bool") || size === undefined || size > mostEntries) return undefined;
  if (fact.integers !== undefined) return fact.integers;
  const { constant } = fact;
  if (constant === undefined) return undefined;
  if (isWide(constant.type)) {
    for (const value of readBigInts(constant)) if (!Number.isSafeInteger(Number(value))) return undefined;
  }
  return readIntegers(constant);
}

/** True if the integer lies in the range of the type; symbols are taken to. */
export function fitsType(type: ElementType, value: Dim): boolean {
  if (!isKnown(value)) return true;
  const { bits, signed, kind } = traitsOf(type);
  if (kind === "bool") return value === 0 || value === 1;
  const span = 2 ** bits;
  return Number.isSafeInteger(value) && value >= (signed ? -span / 2 : 0) && value < (signed ? span / 2 : span);
}

/** The shape that known shapes broadcast to, or undefined where they do not fit. */
function broadcastKnown(shapes: readonly (readonly number[])[]): readonly number[] | undefined {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length));
  const result = new Array<number>(rank).fill(1);
  for (const shape of shapes) {
    for (const [at, dim] of shape.entries()) {
      const axis = rank - shape.length + at;
      if (result[axis] === 1) result[axis] = dim;
      else if (dim !== 1 && dim !== result[axis]) return undefined;
    }
  }
  return result;
}

/** Combines the contents of operands, broadcast against each other; undefined unless every entry of the result is known. */
export function combineIntegers(
  facts: readonly Fact[],
  type: ElementType,
  combine: (operands: readonly Dim[]) => Dim | undefined,
): readonly Dim[] | undefined {
  const contents: (readonly Dim[])[] = [];
  const shapes: (readonly number[])[] = [];
  for (const fact of facts) {
    const integers = smallIntegers(fact);
    if (integers === undefined || !isKnownShape(fact.shape)) return undefined;
    contents.push(integers);
    shapes.push(fact.shape);
  }
  const shape = broadcastKnown(shapes);
  if (shape === undefined || shape.reduce((product, dim) => product * dim, 1) > mostEntries) return undefined;
  const operands = contents.map((content, k) => {
    const row: Dim[] = [];
    forEachIndex(new View("int8", shapes[k], new Int8Array(0)).broadcastTo(shape), (index) => row.push(content[index]));
    return row;
  });
  const result: Dim[] = [];
  for (let i = 0; i < operands[0].length; i++) {
    const value = combine(operands.map((row) => row[i]));
    if (value === undefined || !fitsType(type, value)) return undefined;
    result.push(value === 0 ? 0 : value); // no negative zero
  }
  return result;
}

/** True if the integer is at least 0 for every value of its symbols. Dimensions that nothing is known about prove nothing. */
export function isNonNegative(value: Dim): boolean {
  if (isKnown(value)) return value >= 0;
  return value.terms.every(({ coefficient, atoms }) => coefficient > 0 && atoms.every(isNonNegativeAtom));
}

function isNonNegativeAtom({ key, operation }: SymbolicDim["terms"][number]["atoms"][number]): boolean {
  if (operation === undefined) return !key.startsWith("?");
  const { name, left, right } = operation;
  switch (name) {
    case "max":
      return isNonNegative(left) || isNonNegative(right);
    case "min":
    case "floor":
      return isNonNegative(left) && isNonNegative(right);
    case "mod":
      return isNonNegative(right);
    default:
      return name satisfies never;
  }
}

/** The sign of a − b where symbols can tell: −1, 0 or 1. */
export function compareDims(a: Dim, b: Dim): -1 | 0 | 1 | undefined {
  const difference = subtractDims(a, b);
  if (isKnown(difference)) return difference < 0 ? -1 : difference > 0 ? 1 : 0;
  // Differences of at least one: only a strict sign decides anything.
  if (isNonNegative(subtractDims(difference, 1))) return 1;
  if (isNonNegative(subtractDims(subtractDims(b, a), 1))) return -1;
  return undefined;
}
