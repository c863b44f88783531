/** A regular expression as an automaton over bytes: what a text may be, character by character, in an encoding. Every state leads to an end. */
import { Partition } from "./characters.js";
import { dead, Decoder, type Encoding, ends } from "./encoding.js";
import type { Regular, Regulars } from "./regular.js";

/** Reads a part of a text byte by byte. States are numbers; -1 is none. */
export interface Automaton {
  readonly start: number;
  /** The state after a byte. */
  next(state: number, byte: number): number;
  /** True if the part may end here. */
  accepts(state: number): boolean;
  /** True if the part may go on. */
  goesOn(state: number): boolean;
  /** What it takes, about. */
  readonly bytes: number;
}

/** From each state the fewest characters to one where a text may end; none where no text ends. */
function charactersLeft(states: readonly Regular[], table: readonly number[], classes: number): readonly number[] {
  const before: number[][] = states.map(() => []);
  table.forEach((next, at) => {
    if (next >= 0) before[next].push(Math.floor(at / classes));
  });
  const left = states.map(({ nullable }) => (nullable ? 0 : Infinity));
  let reached = left.flatMap((count, state) => (count === 0 ? [state] : []));
  for (let count = 1; reached.length > 0; count++)
    reached = reached.flatMap((state) =>
      before[state].filter((from) => {
        const isNew = left[from] === Infinity;
        if (isNew) left[from] = count;
        return isNew;
      }),
    );
  return left;
}

/**
 * Texts that an expression has, in an encoding, of so many characters at most: they are counted beside the expression, which need not know of them. A
 * state is how far the text is, in whole characters, how many those are, and how far the character is that is being read. It is there once it was made.
 */
export class TextAutomaton implements Automaton {
  readonly start = 0;
  readonly #encoding: Encoding;
  #decoder: Decoder | undefined;
  /** For each state the next one by class. */
  #table = new Int32Array(0);
  #classes = 0;
  #accepts: readonly boolean[] = [];
  readonly #most: number;
  /** From each state the fewest characters to the end. */
  #left: readonly number[] = [];
  /** Whether a character that has begun can end well, by pair. */
  readonly #open = new Map<number, boolean>();

  constructor(encoding: Encoding, most: number = Infinity) {
    this.#encoding = encoding;
    this.#most = most;
  }

  /** Makes it; false if the expression has no text. `breathe` is awaited now and then. */
  async make(regulars: Regulars, expression: Regular, breathe: () => Promise<void>): Promise<boolean> {
    const partition = new Partition(regulars.setsOf(expression));
    const { examples } = partition;
    const numbers = new Map<Regular, number>([[expression, 0]]);
    const states = [expression];
    const table: number[] = [];
    for (let state = 0; state < states.length; state++) {
      if (state % 16 === 15) await breathe();
      for (const example of examples) {
        const next = regulars.after(states[state], example);
        let number = next === regulars.none ? dead : numbers.get(next);
        if (number === undefined) {
          number = states.length;
          numbers.set(next, number);
          states.push(next);
        }
        table.push(number);
      }
    }
    this.#left = charactersLeft(states, table, examples.length);
    if (this.#left[0] === Infinity || this.#left[0] > this.#most) return false;
    this.#table = Int32Array.from(table, (next) => (next >= 0 && this.#left[next] < Infinity ? next : dead));
    this.#classes = examples.length;
    this.#accepts = states.map(({ nullable }) => nullable);
    const isWanted = examples.map(() => false);
    this.#table.forEach((next, at) => (isWanted[at % examples.length] ||= next >= 0));
    this.#decoder = new Decoder(partition, isWanted, this.#encoding);
    return true;
  }

  get bytes(): number {
    return 4 * this.#table.length + 17 * this.#accepts.length + 520 * (this.#decoder?.states ?? 0);
  }

  next(state: number, byte: number): number {
    // One that has no text goes nowhere.
    if (this.#decoder === undefined) return dead;
    const { states, rows } = this.#decoder;
    const within = state % states;
    const whole = (state - within) / states;
    const next = rows[within][byte];
    if (next === dead) return dead;
    if (next < 0) {
      const after = this.#after(whole, ends(next));
      return after < 0 ? dead : after * states;
    }
    const pair = whole * states + next;
    return this.#isOpen(pair, whole, next) ? pair : dead;
  }

  /** Where whole characters are after one more, with their count where that is bounded. */
  #after(whole: number, kind: number): number {
    if (this.#most === Infinity) return this.#table[whole * this.#classes + kind];
    const counts = this.#most + 1;
    const count = whole % counts;
    const after = this.#table[((whole - count) / counts) * this.#classes + kind];
    return after < 0 || count + 1 + this.#left[after] > this.#most ? dead : after * counts + count + 1;
  }

  accepts(state: number): boolean {
    if (this.#decoder === undefined) return false;
    const { states } = this.#decoder;
    const whole = state / states;
    return (
      state % states === 0 && this.#accepts[this.#most === Infinity ? whole : Math.floor(whole / (this.#most + 1))]
    );
  }

  goesOn(state: number): boolean {
    const decoder = this.#decoder;
    if (decoder === undefined) return false;
    const within = state % decoder.states;
    return this.#isOpen(state, (state - within) / decoder.states, within);
  }

  #isOpen(pair: number, whole: number, within: number): boolean {
    let open = this.#open.get(pair);
    if (open === undefined) {
      open = this.#decoder!.reach[within].some((each) => this.#after(whole, each) >= 0);
      this.#open.set(pair, open);
    }
    return open;
  }
}

/** One of some texts, as bytes: a tree of them, in which a state is a node. */
export class Literals implements Automaton {
  readonly start = 0;
  /** Of each node its byte, the first node below it, the next one beside it, and whether a text ends there; 0 where there is no node. */
  readonly #byte: Uint8Array;
  readonly #below: Int32Array;
  readonly #beside: Int32Array;
  readonly #ends: Uint8Array;

  constructor(texts: readonly string[]) {
    const encoder = new TextEncoder();
    const sorted = texts.map((text) => encoder.encode(text)).sort(compareBytes);
    const nodes = 1 + sorted.reduce((sum, { length }) => sum + length, 0);
    const [byte, below, beside] = [new Uint8Array(nodes), new Int32Array(nodes), new Int32Array(nodes)];
    const ends = new Uint8Array(nodes);
    let count = 1;
    /** The nodes of the text before: what a text shares with it is there. */
    let path = [0];
    let before = new Uint8Array(0);
    for (const text of sorted) {
      let depth = 0;
      while (depth < before.length && depth < text.length && before[depth] === text[depth]) depth++;
      let sibling = path[depth + 1] ?? 0;
      path = path.slice(0, depth + 1);
      for (; depth < text.length; depth++, count++) {
        byte[count] = text[depth];
        if (sibling > 0) beside[sibling] = count;
        else below[path[depth]] = count;
        sibling = 0;
        path.push(count);
      }
      ends[path[text.length]] = 1;
      before = text;
    }
    this.#byte = byte.slice(0, count);
    this.#below = below.slice(0, count);
    this.#beside = beside.slice(0, count);
    this.#ends = ends.slice(0, count);
  }

  get bytes(): number {
    return 100 + 10 * this.#byte.length;
  }

  next(state: number, byte: number): number {
    let node = this.#below[state];
    while (node > 0 && this.#byte[node] !== byte) node = this.#beside[node];
    return node > 0 ? node : dead;
  }

  accepts(state: number): boolean {
    return this.#ends[state] === 1;
  }

  goesOn(state: number): boolean {
    return this.#below[state] > 0;
  }
}

/** The order of texts by their bytes. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at++) if (a[at] !== b[at]) return a[at] - b[at];
  return a.length - b.length;
}

/** Any text up to a mark that comes first at its end; or, without its end, text in which the mark is not. */
export class TextUntil implements Automaton {
  readonly start = 0;
  readonly #mark: Uint8Array;
  readonly #endsWithMark: boolean;
  readonly bytes = 256;

  constructor(mark: string, endsWithMark: boolean) {
    this.#mark = new TextEncoder().encode(mark);
    this.#endsWithMark = endsWithMark;
  }

  /** States count the bytes of the mark that the text ends with. */
  next(state: number, byte: number): number {
    const mark = this.#mark;
    if (state === mark.length) return dead;
    let count = state;
    while (count > 0 && mark[count] !== byte) count = this.#shorter(count);
    if (mark[count] === byte) count++;
    return count === mark.length && !this.#endsWithMark ? dead : count;
  }

  accepts(state: number): boolean {
    return this.#endsWithMark === (state === this.#mark.length);
  }

  goesOn(state: number): boolean {
    return state < this.#mark.length;
  }

  /** The longest part shorter than this with which the first `count` bytes of the mark begin and end. */
  #shorter(count: number): number {
    for (let length = count - 1; length > 0; length--)
      if (this.#mark.subarray(0, length).every((byte, at) => byte === this.#mark[count - length + at])) return length;
    return 0;
  }
}

/** The texts of another automaton that do not have a mark. */
export class TextWithout implements Automaton {
  readonly start: number;
  readonly bytes: number;
  readonly #texts: Automaton;
  readonly #marks: TextUntil;
  /** States of the other automaton are counted by the mark's. */
  readonly #count: number;

  constructor(texts: Automaton, mark: string) {
    this.#texts = texts;
    this.#marks = new TextUntil(mark, false);
    this.#count = new TextEncoder().encode(mark).length + 1;
    this.start = texts.start * this.#count;
    this.bytes = texts.bytes + this.#marks.bytes;
  }

  next(state: number, byte: number): number {
    const text = this.#texts.next(Math.floor(state / this.#count), byte);
    const mark = this.#marks.next(state % this.#count, byte);
    return text === dead || mark === dead ? dead : text * this.#count + mark;
  }

  accepts(state: number): boolean {
    return this.#texts.accepts(Math.floor(state / this.#count));
  }

  goesOn(state: number): boolean {
    return this.#texts.goesOn(Math.floor(state / this.#count));
  }
}

/** Any text whose first byte, but for blanks, is none of these letters. */
export class TextNotBeginning implements Automaton {
  readonly start = 0;
  readonly #letters: ReadonlySet<number>;
  readonly bytes = 128;

  constructor(letters: string) {
    this.#letters = new Set(new TextEncoder().encode(letters));
  }

  next(state: number, byte: number): number {
    if (state === 1) return 1;
    if (byte === 0x20 || (byte >= 9 && byte <= 13)) return 0;
    return this.#letters.has(byte) ? dead : 1;
  }

  accepts(): boolean {
    return true;
  }

  goesOn(): boolean {
    return true;
  }
}
