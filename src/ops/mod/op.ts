/** Mod: the rest of a division, by floor (fmod 0) or by truncation (fmod 1). A rest by the integer 0 is 0. */
import { flag } from "../../graph/attribute.js";
import { type Dim, isKnown, moduloDims } from "../../graph/dim.js";
import { traitsOf } from "../../tensor/element-type.js";
import { binaryOp } from "../shared/families/binary.js";
import { isNonNegative } from "../shared/rules/integer-facts.js";
import { numeric } from "../shared/rules/types.js";

/** x − floor(x/y)·y: the sign of y, also on zero. JavaScript's rest is exact, so one addition corrects it. */
function floored(x: number, y: number): number {
  const rest = x % y;
  if (rest === 0) return y < 0 ? -0 : 0;
  return rest < 0 !== y < 0 ? rest + y : rest;
}

function flooredWide(x: bigint, y: bigint): bigint {
  if (y === 0n) return 0n;
  const rest = x % y;
  return rest !== 0n && rest < 0n !== y < 0n ? rest + y : rest;
}

/** JavaScript's rest by 0 is NaN, which an integer cannot be. */
const integral =
  (rest: (x: number, y: number) => number) =>
  (x: number, y: number): number =>
    y === 0 ? 0 : rest(x, y);

function declareMod(since: number, floatsMayFloor: boolean) {
  return binaryOp({
    name: "Mod",
    since,
    types: numeric,
    attrs: { fmod: flag(false) },
    check(call, { fmod }, type) {
      const allowed = fmod || floatsMayFloor || traitsOf(type).kind !== "float";
      call.check(allowed, () => `fmod must be 1 for floats before opset 28, got 0 with ${type}`, "invalid-argument");
    },
    apply({ fmod }, type) {
      const number = fmod ? (x: number, y: number): number => x % y : floored;
      return {
        number: traitsOf(type).kind === "integer" ? integral(number) : number,
        bigint: fmod ? (x, y) => (y === 0n ? 0n : x % y) : flooredWide,
      };
    },
    integer(x: Dim, y: Dim, { fmod }) {
      if (y === 0) return undefined;
      if (isKnown(x) && isKnown(y)) return fmod ? x % y : moduloDims(x, y);
      return isNonNegative(x) && isNonNegative(y) ? moduloDims(x, y) : undefined;
    },
  });
}

/** The rest of A / B; floats only with fmod. */
export const Mod10 = declareMod(10, false);

/** The rest of A / B, for floats by floor too. */
export const Mod = declareMod(28, true);
