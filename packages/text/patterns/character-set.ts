/** A set of characters, as one class of a regular expression writes it. What is in it is asked of `RegExp` once a character. */
import { refusePattern } from "./limits.js";

/** Code points whose answers are kept in an array. */
const low = 0x500;

/** A set of characters. */
export class CharacterSet {
  readonly #pattern: RegExp;
  /** 0: not asked yet; 1: outside; 2: inside. */
  readonly #low = new Uint8Array(low);
  readonly #high = new Map<number, boolean>();

  constructor(source: string) {
    try {
      this.#pattern = new RegExp(`^${source}$`, "u");
    } catch {
      refusePattern(source, "is no set of characters");
    }
  }

  has(codePoint: number): boolean {
    if (codePoint < low) {
      const known = this.#low[codePoint];
      if (known > 0) return known === 2;
      const inside = this.#pattern.test(String.fromCodePoint(codePoint));
      this.#low[codePoint] = inside ? 2 : 1;
      return inside;
    }
    let inside = this.#high.get(codePoint);
    if (inside === undefined) {
      inside = this.#pattern.test(String.fromCodePoint(codePoint));
      this.#high.set(codePoint, inside);
    }
    return inside;
  }
}
