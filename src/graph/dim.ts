/**
 * Symbolic dimensions: numbers, or polynomials over named symbols with integer coefficients.
 * `batch * (past + seq)` has one canonical form, so equal expressions are found equal. Division, minimum and maximum that do
 * not come out exactly become opaque atoms that still print and evaluate. What would take too many terms, too long a text or,
 * all in all, too much work is a dimension that nothing is known about: products of sums multiply, and a file asks for one in 20 bytes.
 */
import { longestDimension, mostTerms } from "../base/limits.js";

/** A dimension, or any host-side integer: a number or an expression over symbols. */
export type Dim = number | SymbolicDim;

/** Dimensions of a value, outermost first. */
export type Shape = readonly Dim[];

type Opaque = "floor" | "max" | "min" | "mod";

/** A factor of a term: a symbol, or an operation that has no polynomial form. */
interface Atom {
  readonly key: string;
  readonly operation?: { readonly name: Opaque; readonly left: Dim; readonly right: Dim };
}

interface Term {
  readonly coefficient: number;
  readonly atoms: readonly Atom[]; // sorted by key
}

/** A sum of terms in canonical order. Never a plain number: see `simplify`. */
export class SymbolicDim {
  readonly terms: readonly Term[];
  readonly #text: string;
  constructor(terms: readonly Term[], text: string = print(terms)) {
    this.terms = terms;
    this.#text = text;
  }
  /** The canonical text; equal dimensions have equal texts. */
  toString(): string {
    return this.#text;
  }
}

const keyOf = (atoms: readonly Atom[]): string => atoms.map((atom) => atom.key).join("*");

function print(terms: readonly Term[]): string {
  let text = "";
  for (const { coefficient, atoms } of terms) {
    const size = Math.abs(coefficient);
    const factors = [...(size !== 1 || atoms.length === 0 ? [String(size)] : []), ...atoms.map((atom) => atom.key)];
    text += coefficient < 0 ? (text === "" ? "-" : " - ") : text === "" ? "" : " + ";
    text += factors.join("*");
  }
  return text;
}

/** Terms that may still be worked on. */
let allowance = Infinity;

/** Does what works on symbols; once it has gone through so many terms, whatever else it computes of symbols is unknown. */
export function withTermAllowance<T>(terms: number, work: () => T): T {
  const outer = allowance;
  const own = Math.min(outer, terms);
  allowance = own;
  try {
    return work();
  } finally {
    allowance = outer - (own - allowance);
  }
}

/** Terms that may still be worked on here. */
export const termsLeft = (): number => allowance;

/** Counts terms that were worked on elsewhere, where what came of it is taken over. */
export const countTerms = (terms: number): void => {
  allowance -= terms;
};

const termsOf = (dim: Dim): readonly Term[] =>
  typeof dim === "number" ? (dim === 0 ? [] : [{ coefficient: dim, atoms: [] }]) : dim.terms;

/** True if the terms are too many, or too long as text. Counts them against the allowance. */
function areTooMany(terms: readonly Term[], most: number, longest: number): boolean {
  let length = 0;
  for (const { atoms } of terms) {
    allowance -= 1 + atoms.length;
    for (const { key } of atoms) length += key.length + 1;
    if (length > longest) return true;
  }
  return allowance < 0 || terms.length > most;
}

/** What `simplify` makes of one term, which is most of them. */
function simplifyOne(term: Term): Dim {
  if (term.coefficient === 0) return 0;
  if (term.atoms.length === 0) return term.coefficient;
  return areTooMany([term], mostTerms, longestDimension) ? untoldInteger() : new SymbolicDim([term]);
}

/** Collects equal monomials, drops zeros, sorts (constants last) and returns a number where no symbol is left. */
function simplify(terms: readonly Term[]): Dim {
  if (terms.length === 1) return simplifyOne(terms[0]);
  // Equal ones may still cancel.
  if (areTooMany(terms, 2 * mostTerms, 4 * longestDimension)) return untoldInteger();
  const byKey = new Map<string, Term>();
  for (const term of terms) {
    const key = keyOf(term.atoms);
    const coefficient = (byKey.get(key)?.coefficient ?? 0) + term.coefficient;
    byKey.set(key, { coefficient, atoms: term.atoms });
  }
  const kept = [...byKey].filter(([, term]) => term.coefficient !== 0);
  if (kept.length === 0) return 0;
  if (kept.length === 1 && kept[0][0] === "") return kept[0][1].coefficient;
  kept.sort(([a], [b]) => (a === "" ? 1 : b === "" ? -1 : a < b ? -1 : a > b ? 1 : 0));
  const left = kept.map(([, term]) => term);
  return areTooMany(left, mostTerms, longestDimension) ? untoldInteger() : new SymbolicDim(left);
}

/** The dimension named `name`. */
export const symbol = (name: string): Dim => new SymbolicDim([{ coefficient: 1, atoms: [{ key: name }] }], name);

let unknowns = 0;

/** A dimension that nothing is known about; different from every other. */
export const unknownDim = (): Dim => symbol(`?${unknowns++}`);

/** What a computation becomes that is not followed: an integer that nothing is known about, not even that it is a size. */
const untoldInteger = (): Dim => symbol(`?~${unknowns++}`);

/** True for a dimension, or for the name of a symbol, that stands for nothing that a file names. */
export const isFresh = (dim: Dim | string): boolean => typeof dim !== "number" && /^\?~?\d+$/.test(String(dim));

/** True if the symbol of this name stands for a size, and so for nothing below 0. */
export const isSize = (name: string): boolean => !name.startsWith("?~");

/** True if the dimension is a number. */
export const isKnown = (dim: Dim): dim is number => typeof dim === "number";

/** True if every dimension is a number. */
export const isKnownShape = (shape: Shape | undefined): shape is readonly number[] =>
  shape !== undefined && shape.every(isKnown);

/** a + b */
export function addDims(a: Dim, b: Dim): Dim {
  if (typeof a === "number" && typeof b === "number") return a + b;
  if (a === 0) return b;
  if (b === 0) return a;
  return simplify([...termsOf(a), ...termsOf(b)]);
}

/** a − b */
export function subtractDims(a: Dim, b: Dim): Dim {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return addDims(a, multiplyDims(b, -1));
}

/** a · b */
export function multiplyDims(a: Dim, b: Dim): Dim {
  if (typeof a === "number" && typeof b === "number") return a * b;
  if (a === 0 || b === 0) return 0;
  if (a === 1) return b;
  if (b === 1) return a;
  const [lefts, rights] = [termsOf(a), termsOf(b)];
  if (lefts.length * rights.length > mostTerms || allowance < 0) return untoldInteger();
  const product: Term[] = [];
  for (const left of lefts) {
    for (const right of rights) {
      const atoms = [...left.atoms, ...right.atoms].sort((x, y) => (x.key < y.key ? -1 : x.key > y.key ? 1 : 0));
      product.push({ coefficient: left.coefficient * right.coefficient, atoms });
    }
  }
  return simplify(product);
}

/** The product of a shape's dimensions; 1 for a scalar. */
export function productOf(shape: Shape): Dim {
  let [known, symbolic]: [number, Dim] = [1, 1];
  for (const dim of shape) {
    if (typeof dim === "number") known *= dim;
    else symbolic = multiplyDims(symbolic, dim);
  }
  return multiplyDims(symbolic, known);
}

/** True if the two are the same for every value of their symbols. */
export const sameDim = (a: Dim, b: Dim): boolean =>
  typeof a === "number" ? a === b : typeof b !== "number" && a.toString() === b.toString();

/** True if both shapes have the same rank and the same dimensions. */
export const sameShape = (a: Shape, b: Shape): boolean =>
  a.length === b.length && a.every((dim, axis) => sameDim(dim, b[axis]));

/** The exact quotient, or undefined if the division leaves a rest (or cannot be shown not to). */
export function divideExactly(a: Dim, b: Dim): Dim | undefined {
  if (typeof b === "number") {
    if (b === 0) return undefined;
    if (termsOf(a).some((term) => term.coefficient % b !== 0)) return undefined;
    return simplify(termsOf(a).map((term) => ({ coefficient: term.coefficient / b, atoms: term.atoms })));
  }
  const lead = b.terms[0];
  let rest: Dim = a;
  let quotient: Dim = 0;
  for (let step = 0; step < 64; step++) {
    if (rest === 0) return quotient;
    const next: Term | undefined = termsOf(rest)[0];
    const atoms = next === undefined ? undefined : removeAtoms(next.atoms, lead.atoms);
    if (next === undefined || atoms === undefined || next.coefficient % lead.coefficient !== 0) return undefined;
    const part = simplify([{ coefficient: next.coefficient / lead.coefficient, atoms }]);
    quotient = addDims(quotient, part);
    rest = subtractDims(rest, multiplyDims(part, b));
  }
  return undefined;
}

/** `from` without each of `what`, or undefined if one is missing. */
function removeAtoms(from: readonly Atom[], what: readonly Atom[]): Atom[] | undefined {
  const left = [...from];
  for (const { key } of what) {
    const at = left.findIndex((atom) => atom.key === key);
    if (at < 0) return undefined;
    left.splice(at, 1);
  }
  return left;
}

function opaque(name: Opaque, left: Dim, right: Dim): Dim {
  const [first, second] = [String(left), String(right)];
  if (--allowance < 0 || first.length + second.length > longestDimension) return untoldInteger();
  const key = name === "floor" ? `floor((${first})/(${second}))` : `${name}(${first}, ${second})`;
  return new SymbolicDim([{ coefficient: 1, atoms: [{ key, operation: { name, left, right } }] }]);
}

/** ⌊a / b⌋ */
export function floorDivideDims(a: Dim, b: Dim): Dim {
  if (typeof a === "number" && typeof b === "number") return Math.floor(a / b);
  return divideExactly(a, b) ?? opaque("floor", a, b);
}

/** ⌈a / b⌉ */
export const ceilDivideDims = (a: Dim, b: Dim): Dim =>
  divideExactly(a, b) ?? floorDivideDims(addDims(a, subtractDims(b, 1)), b);

/** The smaller of two. */
export function minDim(a: Dim, b: Dim): Dim {
  if (typeof a === "number" && typeof b === "number") return Math.min(a, b);
  return sameDim(a, b) ? a : opaque("min", a, b);
}

/** The larger of two. */
export function maxDim(a: Dim, b: Dim): Dim {
  if (typeof a === "number" && typeof b === "number") return Math.max(a, b);
  return sameDim(a, b) ? a : opaque("max", a, b);
}

/** a modulo b, with the sign of b. */
export function moduloDims(a: Dim, b: Dim): Dim {
  if (typeof a === "number" && typeof b === "number") return a - Math.floor(a / b) * b;
  return divideExactly(a, b) === undefined ? opaque("mod", a, b) : 0;
}

/** The symbols a dimension depends on, opaque operations included. */
export function symbolsOf(dim: Dim): Set<string> {
  const names = new Set<string>();
  for (const { atoms } of termsOf(dim)) {
    for (const { key, operation } of atoms) {
      if (operation === undefined) names.add(key);
      else for (const name of [...symbolsOf(operation.left), ...symbolsOf(operation.right)]) names.add(name);
    }
  }
  return names;
}

/** The dimension with every symbol that `bindings` knows replaced by its value. */
export function bindDim(dim: Dim, bindings: ReadonlyMap<string, Dim>): Dim {
  if (typeof dim === "number") return dim;
  let sum: Dim = 0;
  for (const { coefficient, atoms } of dim.terms) {
    let product: Dim = coefficient;
    for (const atom of atoms) product = multiplyDims(product, bindAtom(atom, bindings));
    sum = addDims(sum, product);
  }
  return sum;
}

function bindAtom({ key, operation }: Atom, bindings: ReadonlyMap<string, Dim>): Dim {
  if (operation === undefined) return bindings.get(key) ?? symbol(key);
  const left = bindDim(operation.left, bindings);
  const right = bindDim(operation.right, bindings);
  switch (operation.name) {
    case "floor":
      return floorDivideDims(left, right);
    case "max":
      return maxDim(left, right);
    case "min":
      return minDim(left, right);
    case "mod":
      return moduloDims(left, right);
    default:
      return operation.name satisfies never;
  }
}

/** The shape with every known symbol replaced. */
export const bindShape = (shape: Shape, bindings: ReadonlyMap<string, Dim>): Shape =>
  shape.map((dim) => bindDim(dim, bindings));

/** `[batch,8,past + seq,64]`; `[?]` stands for an unknown rank. */
export const shapeText = (shape: Shape | undefined): string =>
  shape === undefined ? "[?]" : `[${shape.map((dim) => String(dim)).join(",")}]`;
