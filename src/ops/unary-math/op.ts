/** Mathematical functions of one operand. Floats are computed in float64 and rounded once; integers wrap. */
import { isKnown, multiplyDims } from "../../graph/dim.js";
import type { ElementType } from "../../tensor/element-type.js";
import { roundToEven } from "../../tensor/float.js";
import { erf } from "../shared/loops/error-function.js";
import { isNonNegative } from "../shared/rules/integer-facts.js";
import { floats, numeric, signedIntegers } from "../shared/rules/types.js";
import { unaryOp } from "../shared/families/unary.js";

const small = ["input", "output"] as const;

/** A function of floats whose operands ONNX calls input and output. */
const floatFunction = (name: string, since: number, number: (x: number) => number) =>
  unaryOp({ name, since, types: floats, names: small, apply: () => ({ number }) });

/** A function of floats whose operands ONNX calls X and Y. */
const capitalFunction = (name: string, since: number, number: (x: number) => number) =>
  unaryOp({ name, since, types: floats, apply: () => ({ number }) });

const signedNumeric: readonly ElementType[] = [...floats, ...signedIntegers];

/** The nearest integer, ties to even; the sign of zero is kept. */
const round = (x: number): number => (x < 0 || Object.is(x, -0) ? -roundToEven(-x) : roundToEven(x));

/** −1, 0 or 1; NaN stays, and −0 becomes 0. */
const sign = (x: number): number => (x === 0 ? 0 : Math.sign(x));

/** |X|. The least signed integer has no positive counterpart and stays itself. */
export const Abs = unaryOp({
  name: "Abs",
  since: 6,
  types: numeric,
  apply: () => ({ number: Math.abs, bigint: (x) => (x < 0n ? -x : x) }),
  integer: (x) => (isKnown(x) ? Math.abs(x) : isNonNegative(x) ? x : undefined),
});

/** −X. */
export const Neg = unaryOp({
  name: "Neg",
  since: 6,
  types: signedNumeric,
  apply: () => ({ number: (x) => -x, bigint: (x) => -x }),
  integer: (x) => multiplyDims(x, -1),
});

/** The sign of the operand: −1, 0 or 1. */
export const Sign = unaryOp({
  name: "Sign",
  since: 9,
  types: numeric,
  names: small,
  apply: () => ({ number: sign, bigint: (x) => (x > 0n ? 1n : x < 0n ? -1n : 0n) }),
});

/** The error function. Integers, which only opsets 9 to 12 allow, truncate. */
export const Erf = unaryOp({
  name: "Erf",
  since: 9,
  types: numeric,
  names: small,
  apply: () => ({ number: erf }),
});

/** Inverse cosine. */
export const Acos = floatFunction("Acos", 7, Math.acos);

/** Inverse hyperbolic cosine. */
export const Acosh = floatFunction("Acosh", 9, Math.acosh);

/** Inverse sine. */
export const Asin = floatFunction("Asin", 7, Math.asin);

/** Inverse hyperbolic sine. */
export const Asinh = floatFunction("Asinh", 9, Math.asinh);

/** Inverse tangent. */
export const Atan = floatFunction("Atan", 7, Math.atan);

/** Inverse hyperbolic tangent. */
export const Atanh = floatFunction("Atanh", 9, Math.atanh);

/** Cosine. */
export const Cos = floatFunction("Cos", 7, Math.cos);

/** Hyperbolic cosine. */
export const Cosh = floatFunction("Cosh", 9, Math.cosh);

/** Exponential. */
export const Exp = floatFunction("Exp", 6, Math.exp);

/** Natural logarithm. */
export const Log = floatFunction("Log", 6, Math.log);

/** Sine. */
export const Sin = floatFunction("Sin", 7, Math.sin);

/** Hyperbolic sine. */
export const Sinh = floatFunction("Sinh", 9, Math.sinh);

/** Tangent. */
export const Tan = floatFunction("Tan", 7, Math.tan);

/** Hyperbolic tangent. */
export const Tanh = floatFunction("Tanh", 6, Math.tanh);

/** The least integer that is not below. */
export const Ceil = capitalFunction("Ceil", 6, Math.ceil);

/** The greatest integer that is not above. */
export const Floor = capitalFunction("Floor", 6, Math.floor);

/** The nearest integer, ties to even. */
export const Round = capitalFunction("Round", 11, round);

/** 1 / X. */
export const Reciprocal = capitalFunction("Reciprocal", 6, (x) => 1 / x);

/** Square root. */
export const Sqrt = capitalFunction("Sqrt", 6, Math.sqrt);
