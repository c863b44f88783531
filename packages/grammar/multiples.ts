/** Decimals that are multiples of a number, of those that another automaton has: how far the other is, and what is left over so far. */
import type { Automaton } from "./automaton.js";
import { dead } from "./encoding.js";

/** What decimals must be multiples of: so many units of the last place that they may have. */
interface Multiple {
  readonly units: number;
  readonly places: number;
}

/** What is a multiple of all of them; undefined where that is too fine or too large to be told by what is left over. */
export function commonMultiple(multiples: readonly number[], mostUnits: number): Multiple | undefined {
  const read = multiples.map((each) => {
    const [, whole, fraction = "", exponent = "0"] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(each))!;
    return { digits: BigInt(whole + fraction), places: fraction.length - Number(exponent) };
  });
  const places = Math.max(0, ...read.map((each) => each.places));
  const units = read
    .map((each) => each.digits * 10n ** BigInt(places - each.places))
    .reduce((a, b) => (a * b) / greatestDivisor(a, b), 1n);
  return units > BigInt(mostUnits) || places > 15 ? undefined : { units: Number(units), places };
}

const greatestDivisor = (a: bigint, b: bigint): bigint => (b === 0n ? a : greatestDivisor(b, a % b));

/** Bytes that decimals are written with. */
const bytes = Array.from("0123456789-.", (each) => each.charCodeAt(0));

/** Multiples among the decimals of another automaton. It is there once it was made, of the other once that was. */
export class MultipleAutomaton implements Automaton {
  readonly start = 0;
  readonly #decimals: Automaton;
  readonly #multiple: Multiple;
  /** For each state the next one by byte, and whether a number may end there. */
  #table = new Int32Array(0);
  #accepts: readonly boolean[] = [];

  constructor(decimals: Automaton, multiple: Multiple) {
    this.#decimals = decimals;
    this.#multiple = multiple;
  }

  /** Makes it; false if there is no such number, undefined if it would have more states than may be. */
  make(mostStates: number): boolean | undefined {
    const { units, places } = this.#multiple;
    const inner = this.#decimals;
    // Of the digits: how many stand behind the point, one more; 0 before it.
    const keyOf = (state: number, behind: number, left: number): number =>
      (state * (places + 2) + behind) * units + left;
    const states: { readonly state: number; readonly behind: number; readonly left: number }[] = [
      { state: inner.start, behind: 0, left: 0 },
    ];
    const numbers = new Map([[keyOf(inner.start, 0, 0), 0]]);
    const table: number[] = [];
    for (let at = 0; at < states.length; at++) {
      if (states.length > mostStates) return undefined;
      const { state, behind, left } = states[at];
      for (const byte of bytes) {
        const isDigit = byte >= 0x30 && byte <= 0x39;
        const next = inner.next(state, byte);
        const isTooLong = behind > (isDigit ? places : 0) || (byte === 0x2e && places === 0);
        if (next < 0 || isTooLong) {
          table.push(dead);
          continue;
        }
        const to = {
          state: next,
          behind: byte === 0x2e ? 1 : isDigit && behind > 0 ? behind + 1 : behind,
          left: isDigit ? (left * 10 + byte - 0x30) % units : left,
        };
        const key = keyOf(to.state, to.behind, to.left);
        const known = numbers.get(key) ?? states.length;
        if (known === states.length) {
          numbers.set(key, known);
          states.push(to);
        }
        table.push(known);
      }
    }
    this.#accepts = states.map(({ state, behind, left }) => {
      const missing = places - Math.max(0, behind - 1);
      return inner.accepts(state) && Number((BigInt(left) * 10n ** BigInt(missing)) % BigInt(units)) === 0;
    });
    const isLive = this.#live(table);
    this.#table = Int32Array.from(table, (next) => (next >= 0 && isLive[next] ? next : dead));
    return isLive[0];
  }

  #live(table: readonly number[]): readonly boolean[] {
    const before: number[][] = this.#accepts.map(() => []);
    table.forEach((next, at) => next >= 0 && before[next].push(Math.floor(at / bytes.length)));
    const isLive = [...this.#accepts];
    const open = isLive.flatMap((live, state) => (live ? [state] : []));
    for (let state = open.pop(); state !== undefined; state = open.pop())
      for (const from of before[state])
        if (!isLive[from]) {
          isLive[from] = true;
          open.push(from);
        }
    return isLive;
  }

  get bytes(): number {
    return 4 * this.#table.length + 9 * this.#accepts.length;
  }

  next(state: number, byte: number): number {
    const column = bytes.indexOf(byte);
    return column < 0 ? dead : this.#table[state * bytes.length + column];
  }

  accepts(state: number): boolean {
    return this.#accepts[state];
  }

  goesOn(state: number): boolean {
    return bytes.some((_, column) => this.#table[state * bytes.length + column] >= 0);
  }
}
