/**
 * One element of a tensor as an expression over its index: what a mask says about query i and key k, which element of a cache a repeated
 * key is. Expressions are kept simple as they are made, so that what means the same mostly looks the same. Knows no operator.
 */
import { InsituError } from "#insitu/base/error.js";
import { longestElement } from "#insitu/base/limits.js";
import { addDims, type Dim, multiplyDims, sameDim, subtractDims } from "#insitu/graph/dim.js";
import type { Node, Value } from "#insitu/graph/graph.js";
import type { Ranges } from "./ranges.js";

/** An element: a number, a truth, a choice between two, an element of a tensor, or an operator applied to elements. */
export type Element =
  | { readonly kind: "integer"; readonly value: Dim }
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "truth"; readonly value: boolean }
  /** True where the value is at least 0. */
  | { readonly kind: "at-least-zero"; readonly value: Dim }
  /** True where the value is 0. */
  | { readonly kind: "zero"; readonly value: Dim }
  | { readonly kind: "not"; readonly of: Element }
  | { readonly kind: "and" | "or"; readonly of: readonly Element[] }
  | { readonly kind: "choose"; readonly when: Element; readonly yes: Element; readonly no: Element }
  | { readonly kind: "read"; readonly from: Value; readonly index: readonly Dim[] }
  /** An element of a constant at a place along `axis` that is computed from indices and sizes; `index` has the places along the other axes. */
  | Lookup
  /** An operator that works element by element: the node's, with its attributes, or `as` where elements are combined more simply. */
  | { readonly kind: "call"; readonly node: Node; readonly as?: string; readonly of: readonly Element[] };

/** An element of a table of numbers, such as what is added for each bucket of distances. */
export interface Lookup {
  readonly kind: "lookup";
  readonly from: Value;
  readonly axis: number;
  readonly at: Element;
  /** What stands at `axis` means nothing. */
  readonly index: readonly Dim[];
}

/** A whole number, possibly of indices and sizes; there is one zero. */
export const integer = (value: Dim): Element => ({ kind: "integer", value: value === 0 ? 0 : value });

/** A plain number. */
export const numeric = (value: number): Element =>
  Number.isSafeInteger(value) ? integer(value) : { kind: "number", value };

/** True or false. */
export const truth = (value: boolean): Element => ({ kind: "truth", value });

/** An element of a tensor that is not looked behind. */
export const read = (from: Value, index: readonly Dim[]): Element => ({ kind: "read", from, index });

/** The number that an element is, whatever the index. */
export const constantOf = (element: Element): number | undefined =>
  element.kind === "number"
    ? element.value
    : element.kind === "integer" && typeof element.value === "number"
      ? element.value
      : undefined;

/** True where `value` is at least 0, decided where the ranges decide it. */
export function atLeastZero(value: Dim, ranges: Ranges): Element {
  if (ranges.isNeverNegative(value)) return truth(true);
  if (ranges.isNeverNegative(subtractDims(-1, value))) return truth(false);
  return { kind: "at-least-zero", value };
}

/** True where `value` is 0, decided where the ranges decide it. */
export function isZero(value: Dim, ranges: Ranges): Element {
  if (value === 0) return truth(true);
  const off = ranges.isNeverNegative(subtractDims(value, 1)) || ranges.isNeverNegative(subtractDims(-1, value));
  return off ? truth(false) : { kind: "zero", value };
}

/** The opposite. */
export function not(element: Element): Element {
  switch (element.kind) {
    case "truth":
      return truth(!element.value);
    case "at-least-zero":
      return { kind: "at-least-zero", value: subtractDims(-1, element.value) };
    case "not":
      return element.of;
    case "and":
    case "or":
      return joined(element.kind === "and" ? "or" : "and", element.of.map(not));
    default:
      return { kind: "not", of: element };
  }
}

/** All of them, or any of them. */
export function joined(kind: "and" | "or", elements: readonly Element[]): Element {
  const neutral = kind === "and";
  const parts = new Map<string, Element>();
  for (const element of elements)
    for (const part of element.kind === kind ? element.of : [element]) {
      if (part.kind !== "truth") parts.set(elementText(part), part);
      else if (part.value !== neutral) return part;
    }
  const of = [...parts.values()];
  return of.length === 0 ? truth(neutral) : of.length === 1 ? of[0] : { kind, of };
}

/** One of two. */
export function choose(when: Element, yes: Element, no: Element): Element {
  if (when.kind === "truth") return when.value ? yes : no;
  if (when.kind === "not") return choose(when.of, no, yes);
  if (elementText(yes) === elementText(no)) return yes;
  if (yes.kind === "truth" && no.kind === "truth") return yes.value ? when : not(when);
  if (yes.kind === "truth") return yes.value ? joined("or", [when, no]) : joined("and", [not(when), no]);
  if (no.kind === "truth") return no.value ? joined("or", [not(when), yes]) : joined("and", [when, yes]);
  return { kind: "choose", when, yes, no };
}

/** True for a number, a truth, and choices between those. */
const isDecided = (element: Element): boolean =>
  element.kind === "choose"
    ? isDecided(element.yes) && isDecided(element.no)
    : element.kind === "truth" || constantOf(element) !== undefined;

/**
 * Two elements combined by `combine`, which answers undefined where it needs the operator itself. Choices between constants are worked
 * into the result.
 */
export function combined(
  a: Element,
  b: Element,
  combine: (a: Element, b: Element) => Element | undefined,
  otherwise: (a: Element, b: Element) => Element,
): Element {
  if (a.kind === "choose" && b.kind === "choose" && elementText(a.when) === elementText(b.when))
    return choose(a.when, combined(a.yes, b.yes, combine, otherwise), combined(a.no, b.no, combine, otherwise));
  if (a.kind === "choose" && isDecided(b))
    return choose(a.when, combined(a.yes, b, combine, otherwise), combined(a.no, b, combine, otherwise));
  if (b.kind === "choose" && isDecided(a))
    return choose(b.when, combined(a, b.yes, combine, otherwise), combined(a, b.no, combine, otherwise));
  return combine(a, b) ?? otherwise(a, b);
}

/** a + b, where both are numbers. */
export function sum(a: Element, b: Element): Element | undefined {
  if (a.kind === "integer" && b.kind === "integer") return integer(addDims(a.value, b.value));
  const [left, right] = [constantOf(a), constantOf(b)];
  if (left !== undefined && right !== undefined) return numeric(left + right);
  return left === 0 ? b : right === 0 ? a : undefined;
}

/** a · b, where both are numbers. */
export function product(a: Element, b: Element): Element | undefined {
  if (a.kind === "integer" && b.kind === "integer") return integer(multiplyDims(a.value, b.value));
  const [left, right] = [constantOf(a), constantOf(b)];
  if (left !== undefined && right !== undefined) return numeric(left * right);
  return left === 1 ? b : right === 1 ? a : undefined;
}

/** −a, where it is a number. */
export const negated = (a: Element): Element | undefined => product(a, integer(-1));

/** True if both are the same expression. */
export const sameElement = (a: Element, b: Element): boolean => elementText(a) === elementText(b);

/** True if some part of an element is as asked. */
export function mentions(element: Element, asked: (element: Element) => boolean): boolean {
  if (asked(element)) return true;
  switch (element.kind) {
    case "not":
      return mentions(element.of, asked);
    case "and":
    case "or":
    case "call":
      return element.of.some((part) => mentions(part, asked));
    case "choose":
      return [element.when, element.yes, element.no].some((part) => mentions(part, asked));
    case "lookup":
      return mentions(element.at, asked);
    default:
      return false;
  }
}

/** True if both are the same index. */
export const sameIndex = (a: readonly Dim[], b: readonly Dim[]): boolean =>
  a.length === b.length && a.every((dim, axis) => sameDim(dim, b[axis]));

const texts = new WeakMap<Element, string>();

/** The element as text; the same text is the same element, within one graph. */
export function elementText(element: Element): string {
  const known = texts.get(element);
  if (known !== undefined) return known;
  const text = textOf(element);
  // What is in it twice is in the text twice.
  if (text.length > longestElement)
    throw new InsituError(
      "invalid-graph",
      `an element of a mask or of positions is an expression of more than ${longestElement} characters: it is not one that can be rewritten`,
    );
  texts.set(element, text);
  return text;
}

function textOf(element: Element): string {
  switch (element.kind) {
    case "integer":
    case "number":
    case "truth":
      return String(element.value);
    case "at-least-zero":
      return `(${String(element.value)} >= 0)`;
    case "zero":
      return `(${String(element.value)} = 0)`;
    case "not":
      return `not ${elementText(element.of)}`;
    case "and":
    case "or":
      return `(${element.of.map(elementText).sort().join(` ${element.kind} `)})`;
    case "choose":
      return `(${elementText(element.when)} ? ${elementText(element.yes)} : ${elementText(element.no)})`;
    case "read":
      return `"${element.from.name}"[${element.index.map(String).join(",")}]`;
    case "lookup": {
      const places = element.index.map((dim, axis) => (axis === element.axis ? elementText(element.at) : String(dim)));
      return `"${element.from.name}"[${places.join(",")}]`;
    }
    case "call": {
      const { op, attributes } = element.node;
      const given = [...attributes].map(
        ([name, attribute]) => `${name}=${"value" in attribute ? String(attribute.value) : "…"}`,
      );
      return `${op.domain}${element.as ?? op.name}{${given.join()}}(${element.of.map(elementText).join(", ")})`;
    }
    default:
      return element satisfies never;
  }
}
