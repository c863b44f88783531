/** What a run needs of a program: the steps behind the outputs that are asked for, checks on data that nobody has to look at. */
import { InsituError } from "../../base/error.js";
import { type Node, readsOf, type Value } from "../../graph/graph.js";
import type { DataCheck } from "../../plan/data-checks.js";
import type { Program } from "../../plan/program.js";
import { writeIntegers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { View } from "../../tensor/view.js";
import { checksOf } from "../bound-program.js";

/** Elements up to which whole numbers are computed on the host where all that they are made of is there. */
export const mostHostElements: number = 1 << 16;

/** Whole numbers between which all of a buffer's lie. */
export type Bounds = readonly [least: number, most: number];

/** The outputs that are wanted or that a state holds, and the nodes of the steps that they take; those that write caches are among them. */
export function neededSteps(
  { plan, steps }: Program,
  wanted: ReadonlyMap<Value, unknown>,
): { readonly live: ReadonlySet<Node>; readonly needed: ReadonlySet<Value> } {
  const held = new Set(plan.pairs.map(({ present }) => present));
  const needed = new Set(plan.graph.outputs.filter((value) => wanted.has(value) || held.has(value)));
  const read = new Set(needed);
  const live = new Set<Node>();
  for (const { node, overwrites, keeps } of steps.toReversed()) {
    const isRead = node.outputs.some((value) => value !== undefined && read.has(value));
    if (!isRead && !overwrites && !keeps) continue;
    live.add(node);
    for (const value of readsOf(node)) read.add(value);
  }
  return { live, needed };
}

/** The operands whose contents a check looks at. */
export function lookedAt({ node: { op, inputs } }: DataCheck): readonly Value[] {
  const names = Object.keys(op.inputs);
  return inputs.filter(
    (value, at): value is Value => value !== undefined && op.looksAt.includes(names[Math.min(at, names.length - 1)]),
  );
}

/**
 * True if a check holds for values that lie on the device between known bounds, so that no run has to look at them: what holds for both ends
 * holds for all that is between. Where it does not, it may still hold for what is there.
 */
export function holdsWithin(
  program: Program,
  check: DataCheck,
  bounds: ReadonlyMap<Value, Bounds>,
  factOf: (value: Value) => { readonly type: ElementType; readonly shape: readonly number[] },
): boolean {
  return ([0, 1] as const).every((end) => {
    const known = new Map(program.constants);
    for (const [value, own] of bounds) {
      const { type, shape } = factOf(value);
      const view = View.allocate(type, shape);
      writeIntegers(view, new Array<number>(view.size).fill(own[end]));
      known.set(value, view);
    }
    try {
      for (const make of checksOf(program, [check], known)) make();
      return true;
    } catch (error) {
      if (error instanceof InsituError) return false;
      throw error;
    }
  });
}
