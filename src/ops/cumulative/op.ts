/** CumSum and CumProd: running sums and products along an axis. */
import { flag } from "../../graph/attribute.js";
import { isKnown } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import { defineOp, tensor } from "../../graph/op.js";
import { isWide, readBigInts, readIntegers, readNumbers, writeBigInts, writeNumbers } from "../../tensor/access.js";
import { type ElementType, traitsOf } from "../../tensor/element-type.js";
import { forEachLine, type Line } from "../shared/loops/along.js";
import { checkOneElement, scalarOf } from "../shared/rules/operands.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { floats, indexTypes } from "../shared/rules/types.js";

const types: readonly ElementType[] = ["uint32", "uint64", "int32", "int64", ...floats];

/** Fills `result` with what each line adds up to; `exclusive` leaves out the element itself, `reverse` starts at the end. */
function accumulate<V extends number | bigint>(
  values: ArrayLike<V>,
  result: { [at: number]: V },
  { start, step, length }: Line,
  { exclusive, reverse }: { exclusive: boolean; reverse: boolean },
  first: V,
  combine: (total: V, value: V) => V,
): void {
  let total = first;
  for (let i = 0; i < length; i++) {
    const at = start + (reverse ? length - 1 - i : i) * step;
    const next = combine(total, values[at]);
    result[at] = exclusive ? total : next;
    total = next;
  }
}

interface Rule {
  readonly first: number;
  readonly combine: (total: number, value: number) => number;
  /** For 32-bit integers, whose results wrap. */
  readonly combineIntegers: (total: number, value: number) => number;
  readonly combineBigInts: (total: bigint, value: bigint) => bigint;
}

function cumulativeOp(name: string, since: number, rule: Rule) {
  return defineOp({
    name,
    since,
    types: { T: types, T2: indexTypes },
    inputs: { x: tensor("T"), axis: tensor("T2") },
    outputs: { y: tensor("T") },
    attrs: { exclusive: flag(false), reverse: flag(false) },
    effects: { y: reuse("x") },
    infer(call) {
      checkOneElement(call, "axis", call.inputs.axis);
      return { y: { shape: call.inputs.x.shape } };
    },
    looksAt: ["axis"],
    validate(call) {
      const { shape } = call.inputs.x;
      const axis = scalarOf(call, "axis", call.inputs.axis);
      if (shape !== undefined && axis !== undefined && isKnown(axis)) normalizeAxis(call, axis, shape.length);
    },
    reference(call) {
      const { inputs, outputs, attrs } = call;
      const { x } = inputs;
      const axis = normalizeAxis(call, readIntegers(inputs.axis)[0], x.rank);
      if (isWide(x.type)) {
        const values = readBigInts(x);
        const result = new BigUint64Array(x.size);
        // The low 64 bits are the same with and without a sign.
        const combine = (total: bigint, value: bigint): bigint => BigInt.asUintN(64, rule.combineBigInts(total, value));
        forEachLine(x.shape, axis, (line) => accumulate(values, result, line, attrs, BigInt(rule.first), combine));
        writeBigInts(outputs.y, result);
        return;
      }
      const values = readNumbers(x);
      const result = new Float64Array(x.size);
      const combine = traitsOf(x.type).kind === "integer" ? rule.combineIntegers : rule.combine;
      forEachLine(x.shape, axis, (line) => accumulate(values, result, line, attrs, rule.first, combine));
      writeNumbers(outputs.y, result);
    },
  });
}

/** Running sums along `axis`. */
export const CumSum = cumulativeOp("CumSum", 11, {
  first: 0,
  combine: (total, value) => total + value,
  combineIntegers: (total, value) => (total + value) | 0,
  combineBigInts: (total, value) => total + value,
});

/** Running products along `axis`. */
export const CumProd = cumulativeOp("CumProd", 26, {
  first: 1,
  combine: (total, value) => total * value,
  combineIntegers: Math.imul,
  combineBigInts: (total, value) => total * value,
});
