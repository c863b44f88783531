/**
 * Which caches meet in one step, and which weights lie nearest to them in the plan's order. For backends with several memories, where
 * what one kernel reads must lie together. Decides no place itself.
 */
import type { Node, Value } from "../graph/graph.js";
import type { View } from "../tensor/view.js";
import type { Pair } from "./pairs.js";
import type { Plan } from "./plan.js";

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
  const groups: { pairs: Pair[]; nodes: Set<Node> }[] = [];
  for (const pair of plan.pairs) {
    const nodes = stepsOf(plan, pair.past);
    const met = groups.filter((group) => [...nodes].some((node) => group.nodes.has(node)));
    const first = met[0] ?? { pairs: [], nodes: new Set<Node>() };
    if (met.length === 0) groups.push(first);
    for (const other of met.slice(1)) {
      first.pairs.push(...other.pairs);
      for (const node of other.nodes) first.nodes.add(node);
      groups.splice(groups.indexOf(other), 1);
    }
    first.pairs.push(pair);
    for (const node of nodes) first.nodes.add(node);
  }
  const heavy = heavyWeights(plan);
  const positions = new Map(plan.order.map((node, position) => [node, position]));
  return groups.map(({ pairs, nodes }) => ({
    pairs,
    weights: nearest(heavy, Math.min(...[...nodes].map((node) => positions.get(node) ?? 0))),
  }));
}

/** Every node that reads or writes the bytes of a cache, also through views and after updates in place. */
function stepsOf({ uses, inPlace }: Plan, past: Value): Set<Node> {
  const nodes = new Set<Node>();
  const seen = new Set<Value>([past]);
  for (const value of seen) {
    for (const same of uses.sameBytes(value)) seen.add(same);
    for (const node of uses.readers.get(value) ?? []) nodes.add(node);
    for (const [present, source] of inPlace) if (source === value) seen.add(present);
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

function nearest(heavy: readonly Heavy[], position: number): View | undefined {
  let best: Heavy | undefined;
  for (const each of heavy)
    if (best === undefined || Math.abs(each.position - position) < Math.abs(best.position - position)) best = each;
  return best?.view;
}
