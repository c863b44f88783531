/** Reading the operands that decide shapes: axes, shapes, pads, counts. Fails where they have the wrong form, naming operand and value. */
import type { Dim } from "../../../graph/dim.js";
import { isKnown, shapeText } from "../../../graph/dim.js";
import type { Fact } from "../../../graph/fact.js";
import type { CallContext } from "../../../graph/op.js";
import { isWide, readBigInts, readNumbers } from "../../../tensor/access.js";
import { traitsOf } from "../../../tensor/element-type.js";

/** The most entries that a list of axes or dimensions may have. */
const longestList = 4096;

/** What an operand may be beside a list of exact numbers. */
interface Leniency {
  /** Entries past 2^53 count as the nearest number, since they are clamped to a dimension anyway; else they are refused. */
  readonly clamped?: boolean;
  /** A scalar stands for a list of one entry. */
  readonly scalar?: boolean;
}

/** The entries of a small integer tensor, where they are known. */
function entriesOf(
  call: CallContext,
  name: string,
  fact: Fact,
  { clamped = false }: Leniency,
): readonly Dim[] | undefined {
  if (fact.integers !== undefined) return fact.integers;
  if (fact.shape?.includes(0)) return []; // there is nothing to know
  const { constant } = fact;
  if (constant === undefined || traitsOf(fact.type).kind !== "integer") return undefined;
  if (!isWide(constant.type)) return Array.from(readNumbers(constant));
  return Array.from(readBigInts(constant), (value, position) => {
    const number = Number(value);
    call.check(
      clamped || Number.isSafeInteger(number),
      () => `${name}[${position}] must be an index or a size, got ${value}`,
      "invalid-argument",
    );
    return number;
  });
}

/** The entries of a list operand (one dimension) as far as symbols tell; undefined where unknown or where the operand is left out. */
export function listOf(
  call: CallContext,
  name: string,
  fact: Fact | undefined,
  leniency: Leniency = {},
): readonly Dim[] | undefined {
  if (fact === undefined) return undefined;
  if (fact.shape !== undefined) {
    call.check(
      fact.shape.length === 1 || (leniency.scalar === true && fact.shape.length === 0),
      () => `${name} must have 1 dimension, got ${fact.type}${shapeText(fact.shape)}`,
    );
    const length = fact.shape[0];
    if (isKnown(length)) {
      call.check(
        length <= longestList,
        () => `${name} may have ${longestList} entries at most, got ${length}`,
        "invalid-argument",
      );
    }
  }
  return entriesOf(call, name, fact, leniency);
}

/** The entries of the operand `axes`, a list or one axis alone, if all of them are numbers. */
export function axesOf(call: CallContext, fact: Fact | undefined): readonly number[] | undefined {
  const entries = listOf(call, "axes", fact, { scalar: true });
  return entries?.every(isKnown) ? (entries as readonly number[]) : undefined;
}

/** How many entries a list operand (or one value alone) has, where that is known. */
export function lengthOf(fact: Fact): number | undefined {
  if (fact.shape?.length === 0) return 1;
  const length = fact.shape?.[0];
  return length !== undefined && isKnown(length) ? length : undefined;
}

/** Fails unless a tensor that stands for one value, a scalar or [1], holds exactly one element. */
export function checkOneElement(call: CallContext, name: string, fact: Fact | undefined): void {
  if (fact?.shape === undefined) return;
  const single = fact.shape.every((dim) => !isKnown(dim) || dim === 1);
  call.check(single, () => `${name} must hold exactly one element, got ${fact.type}${shapeText(fact.shape)}`);
}

/** The value of an integer tensor that holds exactly one element, where it is known. */
export function scalarOf(
  call: CallContext,
  name: string,
  fact: Fact | undefined,
  leniency: Leniency = {},
): Dim | undefined {
  if (fact === undefined) return undefined;
  checkOneElement(call, name, fact);
  return entriesOf(call, name, fact, leniency)?.[0];
}
