/**
 * Characters as bytes: an automaton that reads bytes and says at the end of each character of which class it is. Characters are UTF-8, and inside of
 * JSON strings escaped where they must be.
 */
import type { Partition } from "./characters.js";

/** How characters are written: as they are, as JSON strings write them, or so and with escapes wherever JSON allows them. */
export type Encoding = "plain" | "string" | "free-string";

/** In a row: no character goes on so. */
export const dead = -1;

/** In a row: a character of a class ends here; and of such an entry, the class. */
export const ends = (class_: number): number => -2 - class_;

/** Escapes of one letter. */
const letters: Readonly<Record<string, number>> = { '"': 0x22, "\\": 0x5c, b: 8, f: 12, n: 10, r: 13, t: 9 };

/** The letters of a second half of a pair, place by place. */
const lowHalfLetters = ["\\", "u", "dD", "cdefCDEF", "0123456789abcdefABCDEF", "0123456789abcdefABCDEF"];

/** Reads characters byte by byte. State 0 is between two of them. */
export class Decoder {
  /** For each state 256 next ones, or how a character ends. */
  readonly rows: Int16Array[] = [];
  /** For each state the classes that characters may still have. */
  readonly reach: (readonly number[])[] = [];
  readonly #partition: Partition;
  readonly #isWanted: readonly boolean[];
  readonly #known = new Map<string, number>();
  /** States that read second halves of pairs, by what comes of them. */
  readonly #lowHalves = new Map<number, number>();

  /** `isWanted`: by class, whether its characters are read at all. */
  constructor(partition: Partition, isWanted: readonly boolean[], encoding: Encoding) {
    this.#partition = partition;
    this.#isWanted = isWanted;
    const first = newRow();
    this.#add(first);
    this.#utf8(first);
    if (encoding !== "plain") this.#quoted(first, encoding === "free-string");
    this.rows.forEach((row, state) => void (this.reach[state] ??= this.#classesOf(row)));
  }

  get states(): number {
    return this.rows.length;
  }

  #utf8(first: Int16Array): void {
    for (let byte = 0; byte < 0x80; byte++) first[byte] = this.#end(byte);
    for (let byte = 0xc2; byte < 0xe0; byte++) first[byte] = this.#block((byte & 31) << 6, 1);
    for (let byte = 0xe0; byte < 0xf0; byte++) first[byte] = this.#block((byte & 15) << 12, 2);
    for (let byte = 0xf0; byte < 0xf5; byte++) first[byte] = this.#block((byte & 7) << 18, 3);
  }

  /** The state that reads `bytes` more bytes of characters from one on. Shorter forms of characters, and what is none, are left out. */
  #block(from: number, bytes: number): number {
    const size = 64 ** bytes;
    const least = [0, 0x80, 0x800, 0x10000][bytes];
    const isWhole = from >= least && from + size - 1 <= 0x10ffff;
    const same = isWhole ? this.#partition.ofAll(from, from + size - 1) : undefined;
    if (same !== undefined && (same < 0 || !this.#isWanted[same])) return dead;
    const row = newRow();
    for (let part = 0; part < 64; part++) {
      const start = from + part * (size / 64);
      if (start + size / 64 <= least || start > 0x10ffff) continue;
      row[0x80 + part] =
        bytes === 1 ? this.#end(start) : same !== undefined && part > 0 ? row[0x80] : this.#block(start, bytes - 1);
    }
    return this.#add(row);
  }

  #end(code: number): number {
    const class_ = this.#partition.of(code);
    return class_ < 0 || !this.#isWanted[class_] ? dead : ends(class_);
  }

  /** What JSON strings do not have as it is, and how they write it. */
  #quoted(first: Int16Array, isFree: boolean): void {
    for (let byte = 0; byte < 0x20; byte++) first[byte] = dead;
    first[0x22] = dead;
    const escape = newRow();
    for (const [letter, code] of Object.entries(letters)) escape[letter.charCodeAt(0)] = this.#end(code);
    if (isFree) escape[0x2f] = this.#end(0x2f);
    const short = new Set(Object.values(letters));
    const isWritten = (code: number): boolean => isFree || (code < 0x20 && !short.has(code));
    escape[0x75] = this.#hex(0, 4, isWritten);
    first[0x5c] = this.#add(escape);
  }

  /** The state that reads `digits` more digits of a number of 16 bits. */
  #hex(from: number, digits: number, isWritten: (code: number) => boolean): number {
    const size = 16 ** (digits - 1);
    const isFree = isWritten(0xffff);
    const same = isFree ? this.#partition.ofAll(from, from + 16 * size - 1) : undefined;
    const isUniform = same !== undefined && same >= 0;
    const row = newRow();
    let next = dead;
    for (let digit = 0; digit < 16; digit++) {
      const code = from + digit * size;
      if (!isUniform || digit === 0) next = this.#hexDigit(code, size, digits, isWritten);
      for (const letter of new Set([digit.toString(16), digit.toString(16).toUpperCase()]))
        row[letter.charCodeAt(0)] = next;
    }
    return this.#add(row);
  }

  /** What follows on a digit; whether numbers are written is asked of the first and the last of a block. */
  #hexDigit(code: number, size: number, digits: number, isWritten: (code: number) => boolean): number {
    if (!isWritten(code) && !isWritten(code + size - 1)) return dead;
    if (digits > 1) return this.#hex(code, digits - 1, isWritten);
    return code >= 0xd800 && code < 0xdc00 ? this.#lowHalf(code) : this.#end(code);
  }

  /** The state that reads the second half of a pair whose first half was written. */
  #lowHalf(high: number): number {
    const first = 0x10000 + ((high - 0xd800) << 10);
    const class_ = this.#partition.ofAll(first, first + 0x3ff);
    if (class_ === undefined || !this.#isWanted[class_]) return dead;
    const known = this.#lowHalves.get(class_);
    if (known !== undefined) return known;
    const state = lowHalfLetters.reduceRight((next, each) => {
      const row = newRow();
      for (const letter of each) row[letter.charCodeAt(0)] = next;
      return this.#add(row);
    }, ends(class_));
    this.#lowHalves.set(class_, state);
    return state;
  }

  /** The state of a row; rows alike are one state, and one that leads nowhere is none. */
  #add(row: Int16Array): number {
    const key = row.join();
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    if (this.rows.length > 0 && row.every((next) => next === dead)) return dead;
    this.rows.push(row);
    const state = this.rows.length - 1;
    // The first row is filled in later.
    if (state > 0) this.#known.set(key, state);
    return state;
  }

  #classesOf(row: Int16Array): readonly number[] {
    const classes = new Set<number>();
    for (const next of new Set(row)) {
      if (next < dead) classes.add(ends(next));
      else if (next > 0) for (const each of (this.reach[next] ??= this.#classesOf(this.rows[next]))) classes.add(each);
    }
    return [...classes];
  }
}

const newRow = (): Int16Array => new Int16Array(256).fill(dead);
