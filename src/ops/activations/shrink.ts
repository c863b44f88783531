/** The function behind Shrink. */
import type { Unary } from "../shared/loops/elementwise.js";

/** Moves x towards 0 by bias outside [−lambd, lambd]; inside it is 0. 64-bit integers past 2^53 stay exact. */
export function shrink(bias: number, lambd: number): Unary {
  const number = (x: number): number => (x < -lambd ? x + bias : x > lambd ? x - bias : 0);
  return {
    number,
    bigint(x) {
      const moved = number(Number(x));
      if (Number.isSafeInteger(Number(x)) || !Number.isFinite(bias))
        return Number.isFinite(moved) ? BigInt(Math.trunc(moved)) : 0n;
      const step = BigInt(Math.trunc(bias));
      return Number(x) < -lambd ? x + step : Number(x) > lambd ? x - step : 0n;
    },
  };
}
