/** Sets of code points, as classes of regular expressions write them. Halves of surrogate pairs are in none: no text of tokens has them. */

/** Code points from the first to the last, both inside. */
type Range = readonly [first: number, last: number];

const last = 0x10ffff;
const surrogates: Range = [0xd800, 0xdfff];

/** A set of code points. */
export class CharacterSet {
  /** In order, with gaps in between. */
  readonly ranges: readonly Range[];

  constructor(ranges: readonly Range[]) {
    this.ranges = merged(ranges);
  }

  has(code: number): boolean {
    let [low, high] = [0, this.ranges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ranges[middle][1] < code) low = middle + 1;
      else high = middle;
    }
    return low < this.ranges.length && this.ranges[low][0] <= code;
  }

  /** Says which set it is: sets alike have one key. */
  get key(): string {
    return this.ranges.map(([from, to]) => `${from.toString(36)}-${to.toString(36)}`).join();
  }

  get others(): CharacterSet {
    const gaps: Range[] = [];
    let next = 0;
    for (const [from, to] of this.ranges) {
      if (from > next) gaps.push([next, from - 1]);
      next = to + 1;
    }
    if (next <= last) gaps.push([next, last]);
    return new CharacterSet(gaps);
  }
}

function merged(ranges: readonly Range[]): readonly Range[] {
  const whole = ranges.flatMap(([from, to]): Range[] => {
    const [low, high] = surrogates;
    const parts: Range[] = [
      [from, Math.min(to, low - 1)],
      [Math.max(from, high + 1), to],
    ];
    return parts.filter((part) => part[0] <= part[1]);
  });
  const out: [number, number][] = [];
  for (const [from, to] of whole.sort((a, b) => a[0] - b[0])) {
    const before = out.at(-1);
    if (before !== undefined && from <= before[1] + 1) before[1] = Math.max(before[1], to);
    else out.push([from, to]);
  }
  return out;
}

const setOf = (text: string): CharacterSet =>
  new CharacterSet(Array.from(text, (each) => [each.codePointAt(0)!, each.codePointAt(0)!] as const));

/** All characters. */
export const anyCharacter: CharacterSet = new CharacterSet([[0, last]]);

const digits = new CharacterSet([[0x30, 0x39]]);
const word = new CharacterSet([
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
]);
const lineEnds = setOf("\n\r\u2028\u2029");
const blanks = setOf(
  "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
);

/** What letters after a backslash stand for. */
const escapes: Readonly<Record<string, CharacterSet>> = {
  d: digits,
  D: digits.others,
  w: word,
  W: word.others,
  s: blanks,
  S: blanks.others,
  t: setOf("\t"),
  n: setOf("\n"),
  v: setOf("\v"),
  f: setOf("\f"),
  r: setOf("\r"),
  b: setOf("\b"),
  0: setOf("\0"),
};

/** Properties of Unicode that were looked up, by their source, the last of them. */
const properties = new Map<string, CharacterSet>();
const keptProperties = 64;

/** Properties in a set's source that are still to be looked up, which takes long. */
export const freshProperties = (source: string): number =>
  new Set(source.match(/\\[pP]\{[^}]*\}/g)?.filter((each) => !properties.has(each))).size;

/** All characters in order, to look properties up in. */
const textOfAll = (): string => {
  const parts: string[] = [];
  for (let from = 0; from <= last; from += 0x1000) {
    const codes = Array.from({ length: 0x1000 }, (_, at) => from + at).filter((code) => anyCharacter.has(code));
    if (codes.length > 0) parts.push(String.fromCodePoint(...codes));
  }
  return parts.join("");
};

function property(source: string): CharacterSet {
  let found = properties.get(source);
  if (found === undefined) {
    const ranges = Array.from(textOfAll().matchAll(new RegExp(`${source}+`, "gu")), ({ 0: run }): Range => {
      const from = run.codePointAt(0)!;
      const tail = run.codePointAt(run.length - 2)!;
      return [from, run.length > 1 && tail > 0xffff ? tail : run.codePointAt(run.length - 1)!];
    });
    found = new CharacterSet(ranges);
    properties.set(source, found);
    const [oldest] = properties.keys();
    if (properties.size > keptProperties) properties.delete(oldest);
  }
  return found;
}

/** The pieces of a class, or one by itself. */
const piece =
  /\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\[pP]\{[^}]*\}|\\u\{[\da-fA-F]+\}|\\u[\da-fA-F]{4}|\\x[\da-fA-F]{2}|\\c[A-Za-z]|\\?[^]/uy;

/** One piece, and its code point where it is one character. */
function readPiece(source: string): { readonly set: CharacterSet; readonly code?: number } {
  const single = (code: number): { readonly set: CharacterSet; readonly code: number } => ({
    set: new CharacterSet([[code, code]]),
    code,
  });
  if (!source.startsWith("\\")) return single(source.codePointAt(0)!);
  const kind = source[1];
  if (/^\\[pP]\{/.test(source)) return { set: property(source) };
  if (source.length > 6 && /^\\u[^{]/.test(source))
    return single(String.fromCharCode(parseInt(source.slice(2, 6), 16), parseInt(source.slice(8), 16)).codePointAt(0)!);
  if (/^\\[ux].+/u.test(source)) return single(parseInt(source.replace(/[\\ux{}]/g, ""), 16));
  if (/^\\c./.test(source)) return single(source.charCodeAt(2) % 32);
  const known = Object.hasOwn(escapes, kind) ? escapes[kind] : undefined;
  if (known === undefined) return single(source.codePointAt(1)!);
  return known.ranges.length === 1 && known.ranges[0][0] === known.ranges[0][1]
    ? { set: known, code: known.ranges[0][0] }
    : { set: known };
}

/** A set by its source in a regular expression with the flag u, which `RegExp` has accepted: a class, an escape, a dot or a character. */
export function readSet(source: string): CharacterSet {
  if (source === ".") return lineEnds.others;
  if (!source.startsWith("[") || source.length === 1) return readPiece(source).set;
  const inverted = source.startsWith("[^");
  const inside = source.slice(inverted ? 2 : 1, -1);
  const pieces = Array.from(inside.matchAll(new RegExp(piece.source, "gu")), ([text]) => text);
  const ranges: Range[] = [];
  for (let at = 0; at < pieces.length; at++) {
    const { set, code } = readPiece(pieces[at]);
    const isRange = code !== undefined && pieces[at + 1] === "-" && at + 2 < pieces.length;
    const end = isRange ? readPiece(pieces[at + 2]).code : undefined;
    if (isRange && end !== undefined) {
      ranges.push([code, end]);
      at += 2;
    } else ranges.push(...set.ranges);
  }
  const set = new CharacterSet(ranges);
  return inverted ? set.others : set;
}

/**
 * Characters that no set tells apart, as classes: for each place where one begins, its number. Places are in order; the class of a character is
 * that of the last place up to it.
 */
export class Partition {
  readonly #places: readonly number[];
  readonly #classes: readonly number[];
  /** A character of each class. */
  readonly examples: readonly number[];

  constructor(sets: readonly CharacterSet[]) {
    const all = [anyCharacter, ...sets];
    const places = new Set(all.flatMap(({ ranges }) => ranges.flatMap(([from, to]) => [from, to + 1])));
    this.#places = [...places].filter((place) => place <= last).sort((a, b) => a - b);
    const examples: number[] = [];
    const known = new Map<string, number>();
    this.#classes = this.#places.map((place) => {
      if (!anyCharacter.has(place)) return -1;
      const key = sets.map((set) => (set.has(place) ? 1 : 0)).join("");
      const found = known.get(key) ?? known.size;
      if (found === known.size) {
        known.set(key, found);
        examples.push(place);
      }
      return found;
    });
    this.examples = examples;
  }

  /** The class of a character; -1 for halves of surrogate pairs. */
  of(code: number): number {
    return this.#classes[this.#at(code)];
  }

  /** The class of all characters from one to another, where it is one. */
  ofAll(from: number, to: number): number | undefined {
    const at = this.#at(from);
    return at + 1 >= this.#places.length || this.#places[at + 1] > to ? this.#classes[at] : undefined;
  }

  #at(code: number): number {
    let [low, high] = [0, this.#places.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#places[middle] <= code) low = middle;
      else high = middle;
    }
    return low;
  }
}
