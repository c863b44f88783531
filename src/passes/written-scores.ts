/**
 * Attention written out, recognised: what stands between the product of queries and keys and its Softmax. One walk for two roads. A pass
 * asks it of the graph's own values, a rewrite of decoders of elements that are seen through their layouts; both get the same description,
 * and decide by themselves what its masks mean and whether the place is theirs.
 */

/** What scores are written in, and what is told of it. */
export interface Terms<T> {
  /** The operator that makes a term, and what it is made of; undefined where nothing is told. */
  callOf(term: T): Call<T> | undefined;
  /** The term that holds the same scores in another layout. */
  behindLayout?(term: T): T | undefined;
  numberOf(term: T): number | undefined;
  /** True for a product of queries and keys. */
  isProduct(term: T): boolean;
  /** True for a number so low that a key whose score it is counts for nothing. */
  hides(number: number): boolean;
  /** What a message calls a term that nothing is told of. */
  nameOf?(term: T): string | undefined;
}

interface Call<T> {
  readonly name: string;
  /** What a message calls it. */
  readonly label: string;
  readonly of: readonly T[];
}

/** A mask that is added, or a condition on which scores are kept or give way to a low number; `at` is the term that applies it. */
type Masking<T> =
  | { readonly kind: "added"; readonly mask: T; readonly at: T }
  | { readonly kind: "chosen"; readonly when: T; readonly keeps: boolean; readonly low: T; readonly at: T };

/** Scores taken apart. */
export interface WrittenScores<T> {
  readonly product: T;
  /** What the product is multiplied by, all in all. */
  readonly scale: number;
  /** softcap · tanh(scores / over); 0 for none. */
  readonly softcap: number;
  readonly over: number;
  /** In the order in which they are applied: behind scale and softcap. */
  readonly masks: readonly Masking<T>[];
  /** The terms from Softmax back to the product, which is left out. */
  readonly path: readonly T[];
}

/** Terms that scores and their masks may be made of: files may have chains of any length. */
const mostTerms = 200;

/** Takes scores apart; a sentence where they are not understood. */
export function takeApart<T>(scores: T, terms: Terms<T>): WrittenScores<T> | string {
  const known = new Map<T, boolean>();
  const holds = (term: T): boolean => {
    const before = known.get(term);
    if (before !== undefined) return before;
    if (known.size >= mostTerms) return false;
    known.set(term, false);
    const behind = terms.behindLayout?.(term);
    const found =
      terms.isProduct(term) || (behind === undefined ? (terms.callOf(term)?.of ?? []) : [behind]).some(holds);
    known.set(term, found);
    return found;
  };
  /** The scores `inner` with what the terms around it do to them. */
  const after = (
    around: readonly T[],
    inner: T,
    change: (found: WrittenScores<T>) => Partial<WrittenScores<T>> | string = () => ({}),
  ): WrittenScores<T> | string => {
    const found = split(inner);
    if (typeof found === "string") return found;
    const changed = change(found);
    return typeof changed === "string" ? changed : { ...found, ...changed, path: [...around, ...found.path] };
  };
  const split = (term: T): WrittenScores<T> | string => {
    if (terms.isProduct(term)) return { product: term, scale: 1, softcap: 0, over: 0, masks: [], path: [] };
    const behind = terms.behindLayout?.(term);
    if (behind !== undefined) return after([term], behind);
    const call = terms.callOf(term);
    if (call === undefined) {
      const name = terms.nameOf?.(term);
      return `${name === undefined ? "the scores are" : `"${name}" is`} no product of queries and keys`;
    }
    const { name, label, of } = call;
    if (name === "Where") return chosen(term, of);
    const [left, right] = of;
    if (of.length !== 2) return `${label} stands between the product of queries and keys and Softmax`;
    const [inner, other] = holds(left) ? [left, right] : [right, left];
    if (holds(other)) return `${label} combines several products of queries and keys`;
    const number = terms.numberOf(other);
    switch (name) {
      case "Add":
        return after([term], inner, ({ masks }) => ({ masks: [...masks, { kind: "added", mask: other, at: term }] }));
      case "Max":
        return number !== undefined && terms.hides(number) ? after([term], inner) : `${label} bounds the scores`;
      case "Mul":
        return scaled(term, inner, number, label);
      case "Div":
        return scaled(term, inner, number === undefined || inner !== left ? undefined : 1 / number, label);
      default:
        return `${label} stands between the product of queries and keys and Softmax`;
    }
  };
  const scaled = (term: T, inner: T, factor: number | undefined, label: string): WrittenScores<T> | string => {
    if (factor === undefined) return `${label} multiplies the scores by something that is not constant`;
    const call = terms.callOf(inner);
    if (call?.name === "Tanh") return capped(term, inner, call, factor);
    return after([term], inner, ({ masks, softcap, scale }) =>
      masks.length > 0 || softcap !== 0
        ? `${label} scales scores that are masked or capped already`
        : { scale: scale * factor },
    );
  };
  const capped = (term: T, tanh: T, { label, of }: Call<T>, softcap: number): WrittenScores<T> | string => {
    const [bent] = of;
    const division = terms.callOf(bent);
    const divisor = division?.name === "Div" ? terms.numberOf(division.of[1]) : undefined;
    const over = divisor ?? 1;
    const [around, inner] = divisor === undefined ? [[], bent] : [[bent], division!.of[0]];
    return after([term, tanh, ...around], inner, ({ masks, softcap: before, scale }) =>
      masks.length > 0 || before !== 0 || softcap <= 0
        ? `${label} caps scores that are masked already`
        : { scale: scale * (softcap / over), softcap, over },
    );
  };
  const chosen = (term: T, [when, yes, no]: readonly T[]): WrittenScores<T> | string => {
    const keeps = holds(yes);
    const [inner, low] = keeps ? [yes, no] : [no, yes];
    const number = terms.numberOf(low);
    if (number === undefined || !terms.hides(number)) return "the scores are chosen between two products";
    return after([term], inner, ({ masks }) => ({ masks: [...masks, { kind: "chosen", when, keeps, low, at: term }] }));
  };
  holds(scores);
  return known.size < mostTerms ? split(scores) : `the scores are made of ${mostTerms} terms or more`;
}
