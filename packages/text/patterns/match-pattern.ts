/**
 * Runs a pattern's program on one text. A step that failed at a place is never tried there again, whatever led to it, so that all
 * matches of a text together take at most steps × characters. Knows nothing of RegExp.
 */
import { mostMemoryBits, mostStepsPerCharacter, type PatternWork, refusePattern } from "./limits.js";
import { kindOf, nowhere, type PatternProgram } from "./compile-pattern.js";

/** Where a match and its groups begin and end: slots 2i and 2i + 1 are group i, -1 where it matched nothing. */
type Slots = readonly number[];

/** What is undone when a way fails: another way is tried, a fork has failed for good, a slot gets its old value back. */
const other = 0;
const failed = 1;
const restore = 2;

/** One text and what is known about it. */
export class PatternMatcher {
  readonly text: string;
  readonly #program: PatternProgram;
  readonly #places: number;
  /** Forks at places that are known to fail, or that are being tried. */
  readonly #failed: Uint32Array;
  /** Forks of looks at places that are known to match. */
  readonly #matched: Uint32Array;
  /** Answers of looks: 0 not asked, 1 yes, 2 no. */
  readonly #answers: Uint8Array;
  readonly #slots: number[];
  /** Three numbers for each thing to be undone. */
  readonly #stack: number[] = [];
  readonly #work: PatternWork;

  constructor(program: PatternProgram, text: string, work: PatternWork) {
    this.#work = work;
    this.text = text;
    this.#program = program;
    this.#places = text.length + 1;
    const bits = (program.forks + 8 * program.looks) * this.#places;
    if (bits > mostMemoryBits)
      refusePattern(program.source, `is too large for a text of ${text.length} characters: give it less at a time`);
    const words = Math.ceil((program.forks * this.#places) / 32);
    this.#failed = new Uint32Array(words);
    this.#matched = new Uint32Array(program.looks > 0 ? words : 0);
    this.#answers = new Uint8Array(program.looks * this.#places);
    this.#slots = new Array<number>(2 * program.groups + 2).fill(nowhere);
  }

  /** The match that begins at a place; undefined where there is none. */
  matchAt(place: number): Slots | undefined {
    this.#slots.fill(nowhere);
    const end = this.#run(this.#program.entry, place, true);
    if (end === nowhere) return undefined;
    this.#slots[0] = place;
    this.#slots[1] = end;
    return this.#slots;
  }

  /** Where the program from a step on ends, or `nowhere`. Only the main program captures; only a look remembers what matched. */
  #run(entry: number, start: number, main: boolean): number {
    const { kinds, first, second, memos, sets, source } = this.#program;
    const text = this.text;
    const stack = this.#stack;
    const base = stack.length;
    const work = this.#work;
    let at = entry;
    let place = start;
    for (;;) {
      if (--work.left < 0) refusePattern(source, `takes more than ${mostStepsPerCharacter} steps for each character`);
      let next: number = nowhere;
      switch (at === nowhere ? kindOf.nowhere : kinds[at]) {
        case kindOf.take: {
          const code = text.codePointAt(place);
          if (code === undefined || !sets[second[at]].has(code)) break;
          place += code > 0xffff ? 2 : 1;
          next = first[at];
          break;
        }
        case kindOf.takeBack: {
          const code = codePointBefore(text, place);
          if (code === undefined || !sets[second[at]].has(code)) break;
          place -= code > 0xffff ? 2 : 1;
          next = first[at];
          break;
        }
        case kindOf.fork: {
          const bit = memos[at] * this.#places + place;
          if (!main && isSet(this.#matched, bit)) return this.#succeed(base, place, main);
          if (isSet(this.#failed, bit)) break;
          setBit(this.#failed, bit);
          stack.push(other, at, place);
          next = first[at];
          break;
        }
        case kindOf.look:
          if (this.#looks(second[at], memos[at], place)) next = first[at];
          break;
        case kindOf.lookNot:
          if (!this.#looks(second[at], memos[at], place)) next = first[at];
          break;
        case kindOf.begins:
          if (place === 0) next = first[at];
          break;
        case kindOf.ends:
          if (place === text.length) next = first[at];
          break;
        case kindOf.note:
          if (main) this.#note(second[at], place);
          next = first[at];
          break;
        case kindOf.forget:
          if (main) for (let slot = second[at]; slot < memos[at]; slot++) this.#note(slot, nowhere);
          next = first[at];
          break;
        case kindOf.done:
          return this.#succeed(base, place, main);
      }
      at = next;
      // Goes back to the last fork that has another way.
      while (at === nowhere) {
        if (stack.length === base) return nowhere;
        const value = stack.pop()!;
        const what = stack.pop()!;
        const kind = stack.pop()!;
        if (kind === restore) this.#slots[what] = value;
        if (kind !== other) continue;
        stack.push(failed, what, value);
        at = second[what];
        place = value;
      }
    }
  }

  #note(slot: number, place: number): void {
    this.#stack.push(restore, slot, this.#slots[slot]);
    this.#slots[slot] = place;
  }

  #looks(entry: number, memo: number, place: number): boolean {
    const index = memo * this.#places + place;
    if (this.#answers[index] === 0) this.#answers[index] = this.#run(entry, place, false) === nowhere ? 2 : 1;
    return this.#answers[index] === 1;
  }

  /** Forks on the way to a match have not failed; those of a look have matched. */
  #succeed(base: number, place: number, main: boolean): number {
    const { memos } = this.#program;
    const stack = this.#stack;
    while (stack.length > base) {
      const value = stack.pop()!;
      const what = stack.pop()!;
      if (stack.pop() === restore) continue;
      const bit = memos[what] * this.#places + value;
      clearBit(this.#failed, bit);
      if (!main) setBit(this.#matched, bit);
    }
    return place;
  }
}

const isSet = (bits: Uint32Array, bit: number): boolean => (bits[bit >>> 5] & (1 << (bit & 31))) !== 0;

const setBit = (bits: Uint32Array, bit: number): void => {
  bits[bit >>> 5] |= 1 << (bit & 31);
};

const clearBit = (bits: Uint32Array, bit: number): void => {
  bits[bit >>> 5] &= ~(1 << (bit & 31));
};

/** The character that ends at a place. */
function codePointBefore(text: string, place: number): number | undefined {
  if (place === 0) return undefined;
  const last = text.charCodeAt(place - 1);
  const isPair = last >= 0xdc00 && last <= 0xdfff && place > 1;
  const before = isPair ? text.codePointAt(place - 2)! : 0;
  return before > 0xffff ? before : last;
}
