/** Logic on bools. */
import { type Dim, isKnown } from "../../graph/dim.js";
import { binaryOp } from "../shared/families/binary.js";
import { unaryOp } from "../shared/families/unary.js";

function logicOp(name: string, answer: (x: boolean, y: boolean) => boolean) {
  const number = (x: number, y: number): number => Number(answer(x !== 0, y !== 0));
  const integer = (x: Dim, y: Dim): Dim | undefined => (isKnown(x) && isKnown(y) ? number(x, y) : undefined);
  return binaryOp({ name, since: 7, types: ["bool"], apply: () => ({ number }), integer });
}

/** A and B. */
export const And = logicOp("And", (x, y) => x && y);

/** A or B. */
export const Or = logicOp("Or", (x, y) => x || y);

/** Either A or B. */
export const Xor = logicOp("Xor", (x, y) => x !== y);

/** Not X. */
export const Not = unaryOp({
  name: "Not",
  since: 1,
  types: ["bool"],
  apply: () => ({ number: (x) => Number(x === 0) }),
  integer: (x) => (isKnown(x) ? Number(x === 0) : undefined),
});
