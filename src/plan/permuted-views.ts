/**
 * Outputs whose elements lie as their operand's do, since only axes of one element change places: what exporters transpose for many tokens and
 * a run of one token need not move. They are shown where they lie, unless something in the program is overwritten whose readers the
 * plan has not ordered by them.
 */
import type { Node, Value } from "../graph/graph.js";
import type { Plan } from "./plan.js";
import { effectOf, inputPosition } from "./uses.js";

/** An operand that an output holds in another order of its axes. */
interface Permuted {
  readonly source: Value;
  readonly order: readonly number[];
}

/** What makes a value: an output of a node. */
interface Maker {
  readonly node: Node;
  readonly at: number;
}

/** What a node's output is a permutation of; undefined for others. */
export function permutedBy(node: Node, at: number, rank: number): Permuted | undefined {
  const { permutes } = node.op;
  if (permutes === undefined || at !== 0) return undefined;
  const source = node.inputs[inputPosition(node, permutes.input)];
  return source && { source, order: permutes.order(node.attrs, rank) };
}

/** True if elements in this order of the axes lie as before: only axes of one element change places. */
export function liesAlike(shape: readonly number[], order: readonly number[]): boolean {
  const longer = order.filter((axis) => shape[axis] !== 1);
  return longer.every((axis, at) => at === 0 || axis > longer[at - 1]);
}

/** True if the program overwrites nothing in place that its own steps have made: all that is written are inputs. */
export function overwritesNothingOfItsOwn({ inPlace }: Plan, nodes: readonly Node[]): boolean {
  const makers = new Map<Value, Maker>();
  for (const node of nodes)
    node.outputs.forEach((value, at) => {
      if (value !== undefined) makers.set(value, { node, at });
    });
  // Chains of views are as long as files make them.
  const given = new Set<Value>();
  const isMade = (written: Value): boolean => {
    let value: Value | undefined = written;
    while (value !== undefined && !given.has(value)) {
      given.add(value);
      const past: Value | undefined = inPlace.get(value);
      const maker: Maker | undefined = past === undefined ? makers.get(value) : undefined;
      const effect: ReturnType<typeof effectOf> = maker === undefined ? undefined : effectOf(maker.node, maker.at);
      if (maker !== undefined && effect?.kind !== "view") return true;
      value = past ?? effect?.sources[0];
    }
    return false;
  };
  return ![...inPlace.values()].some(isMade);
}
