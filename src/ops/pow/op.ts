/** Pow: X to the power Y. The result has the type of X, whatever the type of Y. */
import { reuse } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import { type BigInts, isWide, numberReader, numberWriter } from "../../tensor/access.js";
import type { View } from "../../tensor/view.js";
import { isInteger } from "../shared/families/binary.js";
import { anyNumberReader, forEachTogether } from "../shared/loops/elementwise.js";
import { broadcastShapes } from "../shared/rules/shapes.js";
import { floats, numeric } from "../shared/rules/types.js";

/** base^exponent modulo 2^64. A negative exponent gives the truncated fraction: 0 but for 1 and −1. */
function integerPower(base: bigint, exponent: bigint): bigint {
  if (exponent < 0n) return base === 1n ? 1n : base === -1n ? (exponent % 2n === 0n ? 1n : -1n) : 0n;
  let result = 1n;
  let square = base;
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = BigInt.asIntN(64, result * square);
    square = BigInt.asIntN(64, square * square);
  }
  return result;
}

/** JavaScript has 1^±Infinity, (−1)^±Infinity and 1^NaN as NaN; IEEE 754 has them as 1. */
const floatPower = (base: number, exponent: number): number =>
  base === 1 || (base === -1 && Math.abs(exponent) === Infinity) ? 1 : base ** exponent;

/** The power of an integer to a float, truncated toward zero; 0 where it is no finite number. */
function truncatedPower(base: bigint, exponent: number): bigint {
  const power = Math.trunc(floatPower(Number(base), exponent));
  return Number.isFinite(power) ? BigInt(power) : 0n;
}

function bigintReader(view: View): (index: number) => bigint {
  if (isWide(view.type)) {
    const source = view.data as BigInts;
    return (index) => source[index];
  }
  const read = numberReader(view);
  return (index) => BigInt(read(index));
}

/** A function that gives the power of an integer base, by the storage indices of base and exponent. */
function integerPowers(base: View, exponent: View): (i: number, j: number) => bigint {
  const readBase = bigintReader(base);
  if (isInteger(exponent.type)) {
    const readExponent = bigintReader(exponent);
    return (i, j) => integerPower(readBase(i), readExponent(j));
  }
  const readExponent = numberReader(exponent);
  return (i, j) => truncatedPower(readBase(i), readExponent(j));
}

/** X^Y with broadcasting. Integer results wrap; a fraction truncates toward zero. */
export const Pow = defineOp({
  name: "Pow",
  since: 7,
  types: { T: [...floats, "int32", "int64"], T1: numeric },
  inputs: { X: tensor("T"), Y: tensor("T1") },
  outputs: { Z: tensor("T") },
  effects: { Z: reuse("X") },
  infer: (call) => ({ Z: { shape: broadcastShapes(call, [call.inputs.X.shape, call.inputs.Y.shape]) } }),

  reference({ inputs: { X, Y }, outputs: { Z } }) {
    if (!isInteger(Z.type)) {
      const [readBase, readExponent] = [numberReader(X), anyNumberReader(Y)];
      const write = numberWriter(Z);
      return forEachTogether(Z.shape, [X, Y], (at, [i, j]) =>
        write(Z.offset + at, floatPower(readBase(i), readExponent(j))),
      );
    }
    const power = integerPowers(X, Y);
    if (isWide(Z.type)) {
      const target = Z.data as BigInts;
      return forEachTogether(Z.shape, [X, Y], (at, [i, j]) => (target[Z.offset + at] = power(i, j)));
    }
    const write = numberWriter(Z);
    forEachTogether(Z.shape, [X, Y], (at, [i, j]) => write(Z.offset + at, Number(BigInt.asIntN(32, power(i, j)))));
  },
});
