/**
 * Which caches meet in one step, and which weights lie nearest to them in the plan's order. For backends with several memories, where
 * what one kernel reads must lie together. Decides no place itself.
 */
import type { Node, Value } from "../../graph/graph.js";
import type { Pair } from "../../plan/pairs.js";
import type { Plan } from "../../plan/plan.js";
import type { View } from "../../tensor/view.js";

/** Caches that some step reads or writes together. */
export interface CacheGroup {
  /** In the order of the plan's pairs. */
  readonly pairs: readonly Pair[];
  /** The large weights whose steps run nearest to those of the caches; undefined where there are none. */
  readonly weights: View | undefined;
}

/** Weights of fewer bytes than this draw nothing to them. */
export const heavyBytes: number = 2 ** 13;

/** The groups of a plan's pairs, in the order of their first pair. */
export function cacheGroups(plan: Plan): readonly CacheGroup[] {
  const presents = new Map<Value, Value[]>();
  for (const [present, source] of plan.inPlace) presents.set(source, [...(presents.get(source) ?? []), present]);
  const positions = new Map(plan.order.map((node, position) => [node, position]));
  // Pairs that share a step are in one group: `leader` leads to the first of them.
  const leader = plan.pairs.map((_, at) => at);
  const leaderOf = (at: number): number => {
    let first = at;
    while (leader[first] !== first) first = leader[first] = leader[leader[first]];
    return first;
  };
  const firstAt = new Map<Node, number>();
  const earliest = plan.pairs.map(({ past }, at) => {
    let position = Infinity;
    for (const node of stepsOf(plan, past, presents)) {
      position = Math.min(position, positions.get(node) ?? 0);
      const other = firstAt.get(node);
      if (other === undefined) firstAt.set(node, at);
      else {
        const [one, two] = [leaderOf(other), leaderOf(at)];
        leader[Math.max(one, two)] = Math.min(one, two);
      }
    }
    return position;
  });
  const groups = new Map<number, { pairs: Pair[]; position: number }>();
  plan.pairs.forEach((pair, at) => {
    const first = leaderOf(at);
    const group = groups.get(first) ?? { pairs: [], position: Infinity };
    groups.set(first, group);
    group.pairs.push(pair);
    group.position = Math.min(group.position, earliest[at]);
  });
  const heavy = heavyWeights(plan);
  return [...groups.values()].map(({ pairs, position }) => ({ pairs, weights: nearest(heavy, position) }));
}

/** Every node that reads or writes the bytes of a cache, also through views and after updates in place. */
function stepsOf({ uses }: Plan, past: Value, presents: ReadonlyMap<Value, readonly Value[]>): Set<Node> {
  const nodes = new Set<Node>();
  const bases = new Set<Value>([uses.baseOf(past)]);
  // A set hands out what is added to it while it is walked.
  for (const base of bases) {
    for (const value of uses.sameBytes(base)) {
      for (const node of uses.readers.get(value) ?? []) nodes.add(node);
      for (const present of presents.get(value) ?? []) bases.add(uses.baseOf(present));
    }
  }
  return nodes;
}

interface Heavy {
  readonly position: number;
  readonly view: View;
}

/** Large weights of one step alone: tables that all layers share are near to none of them. */
const heavyWeights = ({ order, uses }: Plan): Heavy[] =>
  order.flatMap((node, position) =>
    node.inputs.flatMap((value) => {
      const view = value?.initializer;
      const own = value !== undefined && uses.readers.get(value)?.length === 1;
      return own && view !== undefined && view.byteLength >= heavyBytes ? [{ position, view }] : [];
    }),
  );

/** The weights nearest to a position; of two that are as near, the first. `heavy` is in the order of positions. */
function nearest(heavy: readonly Heavy[], position: number): View | undefined {
  /** The index of the first at this position or behind it. */
  const firstFrom = (from: number): number => {
    let [low, high] = [0, heavy.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (heavy[middle].position < from) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const after = firstFrom(position);
  const before = after === 0 ? undefined : heavy[firstFrom(heavy[after - 1].position)];
  const behind = heavy.at(after);
  if (before === undefined || behind === undefined) return (before ?? behind)?.view;
  return position - before.position <= behind.position - position ? before.view : behind.view;
}
