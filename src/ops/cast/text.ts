/** Numbers as text and back, as Cast converts between strings and numbers. */
import { type ElementType, isPacked } from "../../tensor/element-type.js";
import { encodeFloat, isSmallFloat } from "../../tensor/float.js";

const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

/** The number that a string spells in plain or scientific notation, "INF" and "NaN" in any case included; undefined if none. */
export function parseNumber(text: string): number | undefined {
  const spelled = text.trim();
  if (decimal.test(spelled)) return Number(spelled);
  switch (spelled.toLowerCase()) {
    case "inf":
    case "+inf":
    case "infinity":
    case "+infinity":
      return Infinity;
    case "-inf":
    case "-infinity":
      return -Infinity;
    case "nan":
    case "+nan":
    case "-nan":
      return NaN;
    default:
      return undefined;
  }
}

/** The integer that a string spells: digits exactly, other numbers truncated; undefined if none. */
export function parseInteger(text: string): bigint | undefined {
  const spelled = text.trim();
  if (/^[+-]?\d+$/.test(spelled)) return BigInt(spelled.replace("+", ""));
  const number = parseNumber(spelled);
  return number === undefined || !Number.isFinite(number) ? undefined : BigInt(Math.trunc(number));
}

/** The truth that a string spells: a number other than 0, or a word; undefined if none. */
export function parseBool(text: string): boolean | undefined {
  const word = text.trim().toLowerCase();
  if (word === "true" || word === "false") return word === "true";
  const number = parseNumber(word);
  return number === undefined ? undefined : number !== 0;
}

/** True if both numbers are the same element of the type. */
function sameElement(type: ElementType, a: number, b: number): boolean {
  // The narrowest floats clamp what is past their largest; their elements are short in decimals anyway.
  if (isPacked(type)) return a === b;
  if (isSmallFloat(type)) return encodeFloat(type, a) === encodeFloat(type, b);
  return type === "float32" ? Math.fround(a) === Math.fround(b) : a === b;
}

/** Few digits, but as many as it takes to read the same element back; `1.0`, `314.15926`, and powers of ten past 1e-4 and 1e16. */
export function formatFloat(x: number, type: ElementType): string {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "INF" : "-INF";
  if (x === 0) return Object.is(x, -0) ? "-0.0" : "0.0";
  if (Number.isInteger(x) && Math.abs(x) < 1e16) return x.toFixed(1);
  let digits = 1;
  while (digits < 17 && !sameElement(type, Number(x.toPrecision(digits)), x)) digits++;
  const [mantissa, power] = x.toExponential(digits - 1).split("e");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16)
    return `${mantissa}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  return Number(x.toPrecision(digits)).toFixed(Math.max(digits - 1 - exponent, 1));
}
