/** Operations on the bits of integers, in two's complement. */
import { oneOf, required } from "../../graph/attribute.js";
import { traitsOf } from "../../tensor/element-type.js";
import { binaryOp } from "../shared/families/binary.js";
import type { Binary } from "../shared/loops/elementwise.js";
import { integers } from "../shared/rules/types.js";
import { unaryOp } from "../shared/families/unary.js";

// JavaScript's operators work on 32 bits; storing the result keeps the bits that the type has.
const bitwiseOp = (name: string, apply: Binary) => binaryOp({ name, since: 18, types: integers, apply: () => apply });

/** The bits that both operands have. */
export const BitwiseAnd = bitwiseOp("BitwiseAnd", { number: (x, y) => x & y, bigint: (x, y) => x & y });

/** The bits that either operand has. */
export const BitwiseOr = bitwiseOp("BitwiseOr", { number: (x, y) => x | y, bigint: (x, y) => x | y });

/** The bits in which the operands differ. */
export const BitwiseXor = bitwiseOp("BitwiseXor", { number: (x, y) => x ^ y, bigint: (x, y) => x ^ y });

/** Every bit flipped. */
export const BitwiseNot = unaryOp({
  name: "BitwiseNot",
  since: 18,
  types: integers,
  apply: () => ({ number: (x) => ~x, bigint: (x) => ~x }),
});

/**
 * X shifted by Y bits. A right shift of a negative X fills with its sign. A shift by a negative amount, or by all the bits
 * there are, leaves that fill alone: −1 for a right shift of a negative X, else 0.
 */
export const BitShift = binaryOp({
  name: "BitShift",
  since: 11,
  types: integers,
  names: ["X", "Y", "Z"],
  attrs: { direction: required(oneOf(["LEFT", "RIGHT"], "LEFT")) },
  apply({ direction }, type) {
    const { bits, signed } = traitsOf(type);
    const right = direction === "RIGHT";
    return {
      number(x, y) {
        if (y < 0 || y >= bits) return right && x < 0 ? -1 : 0;
        return right ? (signed ? x >> y : x >>> y) : x << y;
      },
      bigint(x, y) {
        if (y < 0n || y >= BigInt(bits)) return right && x < 0n ? -1n : 0n;
        return right ? x >> y : x << y;
      },
    };
  },
});
