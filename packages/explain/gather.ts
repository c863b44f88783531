/** All that there is to tell about a plan, gathered once for every printer. */
import type { Node } from "#insitu/graph/graph.js";
import type { Plan } from "#insitu/plan/plan.js";
import type { StepAccount } from "#insitu/backends/step-account.js";
import { type CacheBytes, cacheBytes, cachePaths, type Sizes } from "./bytes.js";
import { cacheEntries, type CacheEntry, type RemovedNode } from "./caches.js";
import { Chains } from "./chains.js";

/** What a plan cannot know by itself. */
export interface SessionFacts {
  readonly weightBytes: number;
  /** What programs need for values in between; undefined where that is not known yet. */
  readonly arenaBytes: number | undefined;
  /** Updates that a pass took out of the graph. */
  readonly removed?: readonly RemovedNode[];
  /** Sizes to give bytes for. */
  readonly sizes?: Sizes;
  /** How the steps of one program run; nodes that it does without are left out. */
  readonly accounts?: ReadonlyMap<Node, StepAccount>;
}

/** All that the printers tell about a plan. */
export interface Explanation {
  readonly plan: Plan;
  readonly chains: Chains;
  readonly caches: readonly CacheEntry[];
  readonly bytes: CacheBytes | undefined;
  /** Operators of the main graph and how often each is called, most frequent first. */
  readonly operators: readonly (readonly [op: string, count: number])[];
}

/** Gathers what there is to tell. */
export function explanationOf(plan: Plan, { removed, sizes }: Pick<SessionFacts, "removed" | "sizes">): Explanation {
  const chains = new Chains(plan.graph);
  const caches = cacheEntries(plan, chains, removed);
  const counts = new Map<string, number>();
  for (const { op } of plan.order) counts.set(op.name, (counts.get(op.name) ?? 0) + 1);
  return {
    plan,
    chains,
    caches,
    bytes: cacheBytes(cachePaths(plan, chains, caches), sizes),
    operators: [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)),
  };
}
