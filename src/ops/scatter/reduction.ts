/** How ScatterElements and ScatterND combine what is there with what comes: element by element, in order, rounded each time. */
import type { CallContext } from "../../graph/op.js";
import { type BigInts, isWide, numberReader, numberWriter } from "../../tensor/access.js";
import { elementCopier } from "../../tensor/copy.js";
import { type ElementType, traitsOf } from "../../tensor/element-type.js";
import type { View } from "../../tensor/view.js";

/** What is done where an update meets an element. */
export type Reduction = "none" | "add" | "mul" | "max" | "min";

/** Combines `count` consecutive elements of the updates, from `source` on, with those of the target from `at` on. */
type Combiner = (source: number, at: number, count: number) => void;

/** Fails where a reduction has no meaning for the type. */
export function checkReduction(call: CallContext, reduction: Reduction, type: ElementType): void {
  const { kind } = traitsOf(type);
  const ordered = reduction === "max" || reduction === "min";
  const meaningless = kind === "string" ? reduction !== "none" : kind === "complex" && ordered;
  call.check(!meaningless, () => `reduction "${reduction}" has no meaning for ${type}`, "type-mismatch");
}

/** x·y for an integer type of up to 32 bits: the low bits of the product. Floats multiply as they are. */
const multiply = (type: ElementType): ((x: number, y: number) => number) =>
  traitsOf(type).kind === "integer" && traitsOf(type).bits === 32 ? Math.imul : (x, y) => x * y;

function numberRule(reduction: Exclude<Reduction, "none">, type: ElementType): (x: number, y: number) => number {
  switch (reduction) {
    case "add":
      return (x, y) => x + y;
    case "mul":
      return multiply(type);
    case "max":
      return Math.max;
    case "min":
      return Math.min;
    default:
      return reduction satisfies never;
  }
}

function bigintRule(reduction: Exclude<Reduction, "none">): (x: bigint, y: bigint) => bigint {
  switch (reduction) {
    case "add":
      return (x, y) => x + y;
    case "mul":
      return (x, y) => x * y;
    case "max":
      return (x, y) => (x > y ? x : y);
    case "min":
      return (x, y) => (x < y ? x : y);
    default:
      return reduction satisfies never;
  }
}

/** Sums and products of complex numbers, kept as pairs. */
function complexCombiner(reduction: Reduction, updates: View, target: View): Combiner {
  const from = updates.data as Float32Array | Float64Array;
  const to = target.data as Float32Array | Float64Array;
  return (source, at, count) => {
    for (let i = 0; i < count; i++) {
      const [re, im] = [from[2 * (source + i)], from[2 * (source + i) + 1]];
      const [oldRe, oldIm] = [to[2 * (at + i)], to[2 * (at + i) + 1]];
      to[2 * (at + i)] = reduction === "add" ? oldRe + re : oldRe * re - oldIm * im;
      to[2 * (at + i) + 1] = reduction === "add" ? oldIm + im : oldRe * im + oldIm * re;
    }
  };
}

/** The combiner of a reduction for the type of the views, which is one that `checkReduction` lets pass. */
export function combinerOf(reduction: Reduction, updates: View, target: View): Combiner {
  const { type } = target;
  if (reduction === "none") return elementCopier(updates, target);
  if (traitsOf(type).kind === "complex") return complexCombiner(reduction, updates, target);
  if (isWide(type)) {
    const rule = bigintRule(reduction);
    const from = updates.data as BigInts;
    const to = target.data as BigInts;
    return (source, at, count) => {
      for (let i = 0; i < count; i++) to[at + i] = rule(to[at + i], from[source + i]);
    };
  }
  const rule = numberRule(reduction, type);
  const readUpdate = numberReader(updates);
  const read = numberReader(target);
  const write = numberWriter(target);
  return (source, at, count) => {
    for (let i = 0; i < count; i++) write(at + i, rule(read(at + i), readUpdate(source + i)));
  };
}
