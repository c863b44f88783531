/**
 * Index variables and how far they run. Answers, for polynomials over indices and sizes, whether they can be negative, and divides them
 * with that knowledge: (4·b + h) / 4 is b where h stays below 4. Claims nothing that does not hold for every size.
 */
import {
  addDims,
  type Dim,
  divideExactly,
  floorDivideDims,
  moduloDims,
  multiplyDims,
  subtractDims,
  symbol,
  SymbolicDim,
  symbolsOf,
} from "#insitu/graph/dim.js";

type Terms = SymbolicDim["terms"];
type Atom = Terms[number]["atoms"][number];

const termsOf = (dim: Dim): Terms =>
  typeof dim === "number" ? (dim === 0 ? [] : [{ coefficient: dim, atoms: [] }]) : dim.terms;

const termDim = (coefficient: number, atoms: readonly Atom[]): Dim =>
  atoms.length === 0 || coefficient === 0 ? coefficient : new SymbolicDim([{ coefficient, atoms }]);

const sumOf = (dims: Iterable<Dim>): Dim => {
  let sum: Dim = 0;
  for (const dim of dims) sum = addDims(sum, dim);
  return sum;
};

/** What an atom lies between. */
interface Span {
  readonly low: Dim;
  /** Undefined where no end is known. */
  readonly high: Dim | undefined;
}

/** The index variables of one question. */
export class Ranges {
  readonly #sizes = new Map<string, Dim>();
  /** Sizes that are at least 1. */
  readonly #positive: ReadonlySet<string>;

  constructor(positive: Iterable<string> = []) {
    this.#positive = new Set(positive);
  }

  /** An index that runs from 0 to below `size`; the index 0 itself where there is only one. */
  variable(name: string, size: Dim): Dim {
    if (size === 1) return 0;
    this.#sizes.set(name, size);
    return symbol(name);
  }

  /** True if the value is at least 0 for all indices and all sizes. */
  isNeverNegative(dim: Dim): boolean {
    let rest = dim;
    for (let step = 0; step < 32; step++) {
      const atom = this.#nextBounded(rest);
      if (atom === undefined) return this.#sizesAddUp(rest);
      const span = this.#spanOf(atom)!;
      const own = termsOf(rest).filter(({ atoms }) => atoms.some(({ key }) => key === atom.key));
      // Only where the atom occurs once in each term does its least or greatest value decide.
      if (own.some(({ atoms }) => atoms.filter(({ key }) => key === atom.key).length !== 1)) return false;
      const factor = sumOf(
        own.map(({ coefficient, atoms }) =>
          termDim(
            coefficient,
            atoms.filter(({ key }) => key !== atom.key),
          ),
        ),
      );
      const end = this.#hasSign(factor, 1) ? span.low : this.#hasSign(factor, -1) ? span.high : undefined;
      if (end === undefined) return false;
      const others = sumOf(
        termsOf(rest)
          .filter((term) => !own.includes(term))
          .map(({ coefficient, atoms }) => termDim(coefficient, atoms)),
      );
      rest = addDims(others, multiplyDims(factor, end));
    }
    return false;
  }

  /** True if the value is below `limit` for all indices and all sizes. */
  isBelow(dim: Dim, limit: Dim): boolean {
    return this.isNeverNegative(subtractDims(subtractDims(limit, dim), 1));
  }

  /** True if the value is an index into `size` elements. */
  isIndex(dim: Dim, size: Dim): boolean {
    return this.isNeverNegative(dim) && this.isBelow(dim, size);
  }

  /** True if the value is an index into a table: one with a fixed number of rows is taken to have as many as the caches ever hold. */
  isLookup(dim: Dim, size: Dim): boolean {
    if (this.isIndex(dim, size)) return true;
    if (typeof size !== "number" || !this.isNeverNegative(dim)) return false;
    return [...symbolsOf(dim)].some((name) => name === "past" || symbolsOf(this.#sizes.get(name) ?? 0).has("past"));
  }

  /** The quotient, rounded down, and what is left. */
  divide(dim: Dim, by: Dim): { readonly quotient: Dim; readonly rest: Dim } {
    if (by === 1) return { quotient: dim, rest: 0 };
    const exact = divideExactly(dim, by);
    if (exact !== undefined) return { quotient: exact, rest: 0 };
    let quotient: Dim = 0;
    for (const { coefficient, atoms } of termsOf(dim)) {
      const part = typeof by === "number" ? wholePart(coefficient, atoms, by) : leadingPart(coefficient, atoms, by);
      quotient = addDims(quotient, part);
    }
    const rest = subtractDims(dim, multiplyDims(quotient, by));
    if (this.isIndex(rest, by)) return { quotient, rest };
    return { quotient: addDims(quotient, floorDivideDims(rest, by)), rest: moduloDims(rest, by) };
  }

  /** An atom whose bounds are known and that is no plain size. */
  #nextBounded(dim: Dim): Atom | undefined {
    for (const { atoms } of termsOf(dim)) for (const atom of atoms) if (this.#spanOf(atom) !== undefined) return atom;
    return undefined;
  }

  #spanOf({ key, operation }: Atom): Span | undefined {
    const size = this.#sizes.get(key);
    if (size !== undefined) return { low: 0, high: subtractDims(size, 1) };
    if (operation === undefined) return undefined;
    const { name, left, right } = operation;
    if (name === "mod") return { low: 0, high: subtractDims(right, 1) };
    if (name !== "floor" || !this.isNeverNegative(left)) return undefined;
    const [only, ...others] = termsOf(left);
    const limit =
      others.length === 0 && only?.coefficient === 1 && only.atoms.length === 1
        ? this.#sizes.get(only.atoms[0].key)
        : undefined;
    const known = typeof limit === "number" && typeof right === "number" ? Math.floor((limit - 1) / right) : undefined;
    return { low: 0, high: known };
  }

  /** True if every term has the sign and no atom can be negative. */
  #hasSign(dim: Dim, sign: 1 | -1): boolean {
    return termsOf(dim).every(
      ({ coefficient, atoms }) => coefficient * sign >= 0 && atoms.every((atom) => this.#isCount(atom)),
    );
  }

  #isCount({ key, operation }: Atom): boolean {
    if (operation === undefined) return !key.startsWith("?");
    const [left, right] = [operation.left, operation.right].map((dim) => this.isNeverNegative(dim));
    switch (operation.name) {
      case "mod":
        return right;
      case "max":
        return left || right;
      case "floor":
      case "min":
        return left && right;
      default:
        return operation.name satisfies never;
    }
  }

  /** True if a sum over sizes alone cannot be negative. */
  #sizesAddUp(dim: Dim): boolean {
    let sum: Dim = 0;
    for (const { coefficient, atoms } of termsOf(dim)) {
      let product: Dim = coefficient;
      for (const atom of atoms) {
        const own = termDim(1, [atom]);
        product = multiplyDims(product, this.#positive.has(atom.key) ? addDims(own, 1) : own);
      }
      sum = addDims(sum, product);
    }
    return this.#hasSign(sum, 1);
  }
}

/** As many whole multiples of `by` as a coefficient holds. */
const wholePart = (coefficient: number, atoms: readonly Atom[], by: number): Dim =>
  termDim(Math.trunc(coefficient / by), atoms);

/** What a term is divided by the first term of `by`, where that comes out. */
function leadingPart(coefficient: number, atoms: readonly Atom[], by: SymbolicDim): Dim {
  const [lead] = by.terms;
  const left = [...atoms];
  for (const { key } of lead.atoms) {
    const at = left.findIndex((atom) => atom.key === key);
    if (at < 0) return 0;
    left.splice(at, 1);
  }
  return coefficient % lead.coefficient === 0 ? termDim(coefficient / lead.coefficient, left) : 0;
}
