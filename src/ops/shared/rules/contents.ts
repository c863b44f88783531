/**
 * Integer contents as symbols tell them: what shape arithmetic (Shape → Gather → Concat → Reshape) hands from node to node.
 * Only small contents are followed; whatever is larger is data, not shape.
 */
import { type Dim, isSize, subtractDims } from "../../../graph/dim.js";
import { type Fact, integersOf } from "../../../graph/fact.js";
import { isWide, readBigInts, readNumbers } from "../../../tensor/access.js";
import { traitsOf } from "../../../tensor/element-type.js";
import { elementCount, View } from "../../../tensor/view.js";

/** The longest contents that are followed. */
export const longestContents = 1024;

/** True if every entry can be told as a number; the ends of the 64-bit range pass, as they do for Slice. */
function isTellable(view: View): boolean {
  if (!isWide(view.type)) return true;
  return readBigInts(view).every((value: bigint) => {
    const number = Number(value);
    return Number.isSafeInteger(number) || number === 2 ** 63 || number === -(2 ** 63);
  });
}

/** The contents of a small integer (or bool) tensor, row-major; undefined where they are unknown, long or past 2^53. */
export function contentsOf(fact: Fact | undefined): readonly Dim[] | undefined {
  if (fact === undefined) return undefined;
  if (fact.integers !== undefined) return fact.integers.length <= longestContents ? fact.integers : undefined;
  const { constant } = fact;
  const { kind } = traitsOf(fact.type);
  if (constant === undefined || (kind !== "integer" && kind !== "bool")) return undefined;
  return constant.size <= longestContents && isTellable(constant) ? integersOf(fact) : undefined;
}

/**
 * Contents after an operator that only moves elements: `move` is run on a tensor of positions. Undefined where the contents
 * or the shape they come in are not known, or where the result is long.
 */
export function movedContents(
  fact: Fact,
  shape: readonly number[],
  move: (from: View, to: View) => void,
): readonly Dim[] | undefined {
  const contents = contentsOf(fact);
  const numeric = fact.shape?.every((dim) => typeof dim === "number") ? (fact.shape as readonly number[]) : undefined;
  if (contents === undefined || numeric === undefined || elementCount(shape) > longestContents) return undefined;
  const from = new View(
    "int32",
    numeric,
    Int32Array.from(contents, (_, position) => position),
  );
  const to = View.allocate("int32", shape);
  move(from, to);
  return Array.from(readNumbers(to), (position) => contents[position]);
}

/** True if the dimension is known not to be negative, every symbol standing for a size. */
export function isNonNegative(dim: Dim): boolean {
  if (typeof dim === "number") return dim >= 0;
  return dim.terms.every(
    ({ coefficient, atoms }) =>
      coefficient >= 0 &&
      atoms.every(({ key, operation }) => {
        if (operation === undefined) return isSize(key);
        const left = isNonNegative(operation.left);
        const right = isNonNegative(operation.right);
        if (operation.name === "mod") return right;
        return operation.name === "max" ? left || right : left && right;
      }),
  );
}

/** True if a ≤ b is known, every symbol standing for a size. */
export const isAtMost = (a: Dim, b: Dim): boolean => isNonNegative(subtractDims(b, a));
