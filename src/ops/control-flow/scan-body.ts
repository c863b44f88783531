/** What the two kinds of Scan have in common: how operands part, what the body must keep, how it is run. */
import { type Shape, shapeText } from "../../graph/dim.js";
import { type Fact, factText } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { contiguous } from "../../tensor/copy.js";
import type { View } from "../../tensor/view.js";
import { unifyDims } from "../shared/rules/shapes.js";
import { checkReturned, checkSameElement, withoutContents } from "./body.js";

/** Operands in two parts: initial states, then what is scanned. */
export function parted<V>(
  call: CallContext,
  operands: readonly V[],
  scanned: number,
): { states: readonly V[]; sequences: readonly V[] } {
  call.check(
    scanned >= 1 && scanned <= operands.length,
    () => `num_scan_inputs must lie in [1, ${operands.length}], got ${scanned}`,
    "invalid-argument",
  );
  return { states: operands.slice(0, operands.length - scanned), sequences: operands.slice(operands.length - scanned) };
}

/** Fails unless a list of flags or axes has an entry for each of `count` values. */
export function checkList(call: CallContext, name: string, list: readonly number[] | undefined, count: number): void {
  call.check(
    list === undefined || list.length === count,
    () => `${name} needs ${count} entries, got ${list?.length}`,
    "invalid-argument",
  );
}

export function checkDirections(
  call: CallContext,
  name: string,
  list: readonly number[] | undefined,
  count: number,
): void {
  checkList(call, name, list, count);
  call.check(
    list === undefined || list.every((direction) => direction === 0 || direction === 1),
    () => `${name} must be 0 or 1, got [${list?.join(",")}]`,
    "invalid-argument",
  );
}

/** The state's shape, which the body must keep. */
function keptShape(call: CallContext, at: number, before: Shape | undefined, after: Fact): Shape | undefined {
  if (before === undefined || after.shape === undefined) return before ?? after.shape;
  const rule = `body must keep the shape of state ${at}`;
  call.check(before.length === after.shape.length, () => `${rule}, got ${shapeText(before)} and ${factText(after)}`);
  return before.map((dim, axis) => unifyDims(call, dim, after.shape![axis], rule));
}

/** Infers the body from facts of states and elements; checks what it returns for the states. */
export function inferElements(
  call: CallContext & {
    readonly outputCount: number;
    inferBody(attribute: "body", inputs: readonly Fact[]): readonly Fact[];
  },
  states: readonly Fact[],
  elements: readonly Fact[],
): { kept: readonly (Shape | undefined)[]; yields: readonly Fact[] } {
  const returned = call.inferBody("body", [...states, ...elements].map(withoutContents));
  checkReturned(call, "body", returned.length, Math.max(call.outputCount, states.length));
  const kept = states.map((state, at) => {
    call.check(
      returned[at].type === state.type,
      () => `body must return state ${at} as ${state.type}, got ${returned[at].type}`,
      "type-mismatch",
    );
    return keptShape(call, at, state.shape, returned[at]);
  });
  return { kept, yields: returned.slice(states.length) };
}

/** What the runs of a body leave: the last states, and what it yielded, run by run. */
interface Left {
  readonly states: readonly View[];
  readonly yields: readonly (readonly View[])[];
}

/** Runs the body `length` times; `elementsAt` gives the scanned elements of a run. */
export function runBody(
  call: CallContext & { run(attribute: "body", inputs: readonly View[]): readonly View[] },
  initial: readonly View[],
  length: number,
  yieldCount: number,
  elementsAt: (step: number) => readonly View[],
): Left {
  let states = initial;
  const yields = Array.from({ length: yieldCount }, (): View[] => []);
  for (let step = 0; step < length; step++) {
    const returned = call.run("body", [...states, ...elementsAt(step).map(contiguous)]);
    states = returned.slice(0, initial.length);
    states.forEach((state, at) => checkSameElement(call, `state ${at}`, initial[at], state));
    yields.forEach((list, at) => {
      const element = returned[initial.length + at];
      if (list.length > 0) checkSameElement(call, `scan output ${at}`, list[0], element);
      list.push(element);
    });
  }
  return { states, yields };
}
