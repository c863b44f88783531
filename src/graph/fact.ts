/** What is known about a value before (or while) the graph runs: element type, shape, and contents where they are known. */
import type { ElementType } from "../tensor/element-type.js";
import { traitsOf } from "../tensor/element-type.js";
import { readIntegers, writeIntegers } from "../tensor/access.js";
import { sameElements } from "../tensor/copy.js";
import { View } from "../tensor/view.js";
import { type Dim, isKnown, isKnownShape, sameShape, type Shape, shapeText } from "./dim.js";

/** Everything known about a value. */
export interface Fact {
  readonly type: ElementType;
  /** Undefined when not even the rank is known. */
  readonly shape: Shape | undefined;
  /** The contents of an integer tensor, row-major, as far as symbols can tell. */
  readonly integers?: readonly Dim[] | undefined;
  /** The contents, where they are known exactly: constants at load, every operand at run time. */
  readonly constant?: View | undefined;
}

/** Elements of constants that are compared to find out whether a fact changed. */
const mostComparedElements = 2 ** 12;

/** A fact from a view: everything is known. */
export const factOfView = (view: View): Fact => ({ type: view.type, shape: view.shape, constant: view });

/** True if two facts say the same, to the bit. Contents of many elements are not compared: they count as others. */
export function sameFact(a: Fact, b: Fact): boolean {
  if (a === b) return true;
  if (a.type !== b.type || !sameDims(a.shape, b.shape) || !sameDims(a.integers, b.integers)) return false;
  const [first, second] = [a.constant, b.constant];
  if (first === second) return true;
  if (first === undefined || second === undefined) return false;
  return first.size <= mostComparedElements && sameElements(first, second);
}

const sameDims = (a: readonly Dim[] | undefined, b: readonly Dim[] | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && sameShape(a, b));

/** The contents of an integer (or bool) tensor as dimensions, where known. */
export function integersOf(fact: Fact | undefined): readonly Dim[] | undefined {
  if (fact === undefined) return undefined;
  if (fact.integers !== undefined) return fact.integers;
  if (fact.constant === undefined) return undefined;
  const { kind } = traitsOf(fact.type);
  return kind === "integer" || kind === "bool" ? readIntegers(fact.constant) : undefined;
}

/** The contents of an integer tensor as plain numbers, if all of them are known. */
export function knownIntegers(fact: Fact | undefined): readonly number[] | undefined {
  const integers = integersOf(fact);
  return integers !== undefined && integers.every(isKnown) ? (integers as readonly number[]) : undefined;
}

/** The contents as a view, where they are known in numbers: a constant, or integers without symbols. */
export function knownView(fact: Fact): View | undefined {
  if (fact.constant !== undefined) return fact.constant;
  const integers = knownIntegers(fact);
  // What was rounded on the way tells a size, not the contents.
  if (integers === undefined || !integers.every(Number.isSafeInteger) || !isKnownShape(fact.shape)) return undefined;
  const view = View.allocate(fact.type, fact.shape);
  writeIntegers(view, integers);
  return view;
}

/** The number of elements, if the shape is known in numbers. */
export const knownSize = (fact: Fact): number | undefined =>
  isKnownShape(fact.shape) ? fact.shape.reduce((product, dim) => product * dim, 1) : undefined;

/** `float32[batch,64]` */
export const factText = (fact: Fact): string => `${fact.type}${shapeText(fact.shape)}`;
