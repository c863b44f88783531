/**
 * Numbers between bounds, as regular expressions of their decimals. Reading a decimal rounds it, and never past a bound; so that those beside a bound
 * that is not inside stay apart from it, they have no more digits than a double tells apart.
 */
import { CharacterSet } from "./characters.js";
import type { Regular, Regulars } from "./regular.js";

/** What a number must be. */
export interface NumberBounds {
  readonly isInteger: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

/** Digits before the point of numbers on the side where they have no bound, digits after it, and digits that doubles tell apart. */
const [mostDigits, mostFraction, toldApart] = [20, 20, 15];

/** The texts of the numbers within bounds. */
export function numberTexts(regulars: Regulars, bounds: NumberBounds): Regular {
  const { isInteger, minimum, maximum, exclusiveMinimum, exclusiveMaximum } = bounds;
  const given = [minimum, maximum, exclusiveMinimum, exclusiveMaximum].filter((each) => each !== undefined);
  if (given.length === 0) return isInteger ? integers(regulars) : regulars.sequence(integers(regulars), tail(regulars));
  const whole = Math.max(...given.map((each) => String(Math.trunc(Math.abs(each))).replace(/e.*/, "").length));
  const isLarge = given.some((each) => Math.abs(each) >= 10 ** toldApart);
  const places = isInteger || isLarge ? 0 : Math.max(0, toldApart - 1 - whole);
  const one = 10n ** BigInt(places);
  const least = [
    ...(minimum === undefined ? [] : [scaled(minimum, places, true)]),
    ...(exclusiveMinimum === undefined ? [] : [above(exclusiveMinimum, places)]),
  ];
  const most = [
    ...(maximum === undefined ? [] : [scaled(maximum, places, false)]),
    ...(exclusiveMaximum === undefined ? [] : [-above(-exclusiveMaximum, places)]),
  ];
  const end = 10n ** BigInt(mostDigits) * one - 1n;
  const low = least.reduce((a, b) => (a > b ? a : b), -end);
  const high = most.reduce((a, b) => (a < b ? a : b), end);
  const options: Regular[] = [];
  if (high >= 0n) options.push(between(regulars, low > 0n ? low : 0n, high, places));
  if (low < 0n) {
    const negative = between(regulars, high < 0n ? -high : 1n, -low, places);
    options.push(regulars.sequence(regulars.text("-"), negative));
  }
  return regulars.or(...options);
}

const digit = (regulars: Regulars, from: number, to: number): Regular =>
  from > to ? regulars.none : regulars.set(new CharacterSet([[0x30 + from, 0x30 + to]]));

const digits = (regulars: Regulars, least: number, most: number): Regular =>
  regulars.repeat(digit(regulars, 0, 9), least, most);

const optional = (regulars: Regulars, part: Regular): Regular => regulars.or(regulars.empty, part);

function integers(regulars: Regulars): Regular {
  const positive = regulars.sequence(digit(regulars, 1, 9), digits(regulars, 0, toldApart - 1));
  return regulars.sequence(optional(regulars, regulars.text("-")), regulars.or(regulars.text("0"), positive));
}

/** Fraction and exponent. */
function tail(regulars: Regulars): Regular {
  const fraction = regulars.sequence(regulars.text("."), digits(regulars, 1, mostFraction));
  const sign = optional(regulars, regulars.or(regulars.text("+"), regulars.text("-")));
  const exponent = regulars.sequence(regulars.or(regulars.text("e"), regulars.text("E")), sign, digits(regulars, 1, 2));
  return regulars.sequence(optional(regulars, fraction), optional(regulars, exponent));
}

/** A bound times 10 to the power of `places`, rounded to the inside. */
function scaled(bound: number, places: number, up: boolean): bigint {
  const [, sign, whole, fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(bound))!;
  const shift = places + Number(exponent) - fraction.length;
  const digitsOf = BigInt(`${sign}${whole}${fraction}`);
  if (shift >= 0) return digitsOf * 10n ** BigInt(shift);
  const by = 10n ** BigInt(-shift);
  const cut = digitsOf / by;
  const rest = digitsOf % by;
  if (rest === 0n) return cut;
  return up ? cut + (rest > 0n ? 1n : 0n) : cut - (rest < 0n ? 1n : 0n);
}

/** The least number of so many places that is larger than a bound. */
const above = (bound: number, places: number): bigint => scaled(bound, places, false) + 1n;

/** The numbers of at most `places` places from one to another, none negative, both in units of the last place. */
function between(regulars: Regulars, low: bigint, high: bigint, places: number): Regular {
  if (low > high) return regulars.none;
  const one = 10n ** BigInt(places);
  const [lowWhole, highWhole] = [low / one, high / one];
  const places_ = (value: bigint): string => (value % one).toString().padStart(places, "0").slice(0, places);
  const at = (whole: bigint, from: string | undefined, to: string | undefined): Regular =>
    regulars.sequence(regulars.text(String(whole)), fractions(regulars, from, to, places));
  if (lowWhole === highWhole) return at(lowWhole, places_(low), places_(high));
  const inside =
    lowWhole + 1n <= highWhole - 1n
      ? regulars.sequence(
          wholes(regulars, String(lowWhole + 1n), String(highWhole - 1n)),
          fractions(regulars, undefined, undefined, places),
        )
      : regulars.none;
  return regulars.or(at(lowWhole, places_(low), undefined), inside, at(highWhole, undefined, places_(high)));
}

/** Whole numbers from one to another by their digits. */
function wholes(regulars: Regulars, low: string, high: string): Regular {
  const options: Regular[] = [];
  for (let length = low.length; length <= high.length; length++) {
    const from = length === low.length ? low : `1${"0".repeat(length - 1)}`;
    const to = length === high.length ? high : "9".repeat(length);
    options.push(sameLength(regulars, from, to));
  }
  return regulars.or(...options);
}

/** Digits from one text of them to another of the same length. */
function sameLength(regulars: Regulars, from: string, to: string): Regular {
  if (from === "") return regulars.empty;
  const [first, last] = [Number(from[0]), Number(to[0])];
  const rest = from.length - 1;
  if (/^0+$/.test(from) && /^9+$/.test(to)) return digits(regulars, from.length, from.length);
  if (first === last)
    return regulars.sequence(digit(regulars, first, first), sameLength(regulars, from.slice(1), to.slice(1)));
  return regulars.or(
    regulars.sequence(digit(regulars, first, first), sameLength(regulars, from.slice(1), "9".repeat(rest))),
    regulars.sequence(digit(regulars, first + 1, last - 1), digits(regulars, rest, rest)),
    regulars.sequence(digit(regulars, last, last), sameLength(regulars, "0".repeat(rest), to.slice(1))),
  );
}

/** What may stand after a whole number: nothing, or a point and digits, from one text of them to another. */
function fractions(regulars: Regulars, from: string | undefined, to: string | undefined, places: number): Regular {
  const low = (from ?? "").replace(/0+$/, "");
  const some = regulars.sequence(
    regulars.text("."),
    regulars.and(
      atLeast(regulars, low, places),
      atMost(regulars, to, places),
      digits(regulars, 1, Math.max(1, places)),
    ),
  );
  if (places === 0) return regulars.empty;
  return low === "" ? optional(regulars, some) : some;
}

/** Digits after the point that say no less than these. */
function atLeast(regulars: Regulars, low: string, places: number): Regular {
  if (low === "") return digits(regulars, 0, places);
  const first = Number(low[0]);
  return regulars.or(
    regulars.sequence(digit(regulars, first, first), atLeast(regulars, low.slice(1), places - 1)),
    regulars.sequence(digit(regulars, first + 1, 9), digits(regulars, 0, places - 1)),
  );
}

/** Digits after the point that say no more than these, if there are such; those that follow are zeros. */
function atMost(regulars: Regulars, high: string | undefined, places: number): Regular {
  if (high === undefined) return digits(regulars, 0, places);
  if (high === "") return regulars.repeat(regulars.text("0"), 0, places);
  const first = Number(high[0]);
  return regulars.or(
    regulars.empty,
    regulars.sequence(digit(regulars, first, first), atMost(regulars, high.slice(1), places - 1)),
    regulars.sequence(digit(regulars, 0, first - 1), digits(regulars, 0, places - 1)),
  );
}
