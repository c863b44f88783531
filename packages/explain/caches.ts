/**
 * Every cache of a plan and its verdict: updates that the planner judged, updates inside bodies, pairs that are joined or laid
 * out anew for each token, and updates that are left out of the plan. Adds no verdict of its own to what is planned.
 */
import { type Graph, type Node, quoted, type Value } from "#insitu/graph/graph.js";
import type { Pair } from "#insitu/plan/pairs.js";
import type { Plan, Verdict } from "#insitu/plan/plan.js";
import { effectOf } from "#insitu/plan/uses.js";
import { type Chains, nameOf } from "./chains.js";

/** One cache update, as tools read it. */
export interface CacheJson {
  /** The node's name, or its first output's. */
  readonly node: string;
  readonly op: string;
  /** The graph input, initializer or value that the cache starts from. */
  readonly input: string;
  /** The value that the node makes of it. */
  readonly output: string;
  readonly inPlace: boolean;
  /** Why, in words that follow "in place: " or "copied: ". */
  readonly reason: string;
  /** The node, or the graph output, that stands in the way. */
  readonly reader?: string;
}

/** An update that a pass took out of the graph, and what became of it. */
export interface RemovedNode {
  readonly node: Node;
  readonly why: "constant" | "unneeded";
}

/** The nodes that passes took out on the way from one form of a graph to the other. */
export function removedNodes(before: Graph, after: Graph): RemovedNode[] {
  const made = new Set(after.nodes.flatMap((node) => node.outputs));
  return before.nodes
    .filter((node) => !node.outputs.some((value) => value !== undefined && made.has(value)))
    .map((node) => {
      const known = node.outputs.every((value) => value === undefined || value.fact?.constant !== undefined);
      return { node, why: known ? "constant" : "unneeded" };
    });
}

/** A cache update with the graph's own objects. */
export interface CacheEntry extends Pick<Verdict, "node" | "root" | "present" | "inPlace" | "reason" | "obstacle"> {
  /** The operand that is updated. */
  readonly past: Value;
  /** The graph output that shows the old value, where that stands in the way. */
  readonly shown?: Value | undefined;
  /** The node of the main graph whose body the update is in. */
  readonly within?: Node | undefined;
  /** True where past and present are no pair that a state can hold, since another layout lies between them. */
  readonly relaid?: boolean;
}

/** The cache updates of a plan, in the order of the inputs they start from, then of the file's nodes. */
export function cacheEntries(plan: Plan, chains: Chains, removed: readonly RemovedNode[] = []): CacheEntry[] {
  const { graph } = plan;
  const fed = new Set(graph.inputs);
  const entries: CacheEntry[] = [];
  const shown = outputsByBase(plan);
  for (const verdict of plan.verdicts) {
    const root = chains.rootOf(verdict.past);
    if (verdict.isCache || fed.has(root)) entries.push({ ...verdict, root, shown: shownOutput(plan, verdict, shown) });
  }
  for (const node of graph.nodes)
    for (const [attribute, body] of node.bodies)
      for (const entry of bodyEntries(body, { node, attribute }, fed, chains)) entries.push(entry);
  for (const pair of plan.pairs) {
    if (pair.writers.length === 0 && !plan.inPlace.has(pair.present)) entries.push(...carriedEntry(plan, pair));
    if (pair.kind !== "append") continue;
    const node = pair.writers.at(-1)!;
    const reason = `${node.op.name} makes a new, longer tensor for each token`;
    entries.push({ node, root: pair.past, past: pair.past, present: pair.present, inPlace: false, reason });
  }
  for (const entry of relaidPairs(plan, chains, entries)) entries.push(entry);
  const inputs = new Map(graph.inputs.map((value, at) => [value, at]));
  const nodes = new Map(graph.nodes.map((node, at) => [node, at]));
  const place = ({ root, node, within }: CacheEntry): number =>
    (inputs.get(root) ?? inputs.size) * nodes.size + nodes.get(within ?? node)!;
  return [...entries.sort((a, b) => place(a) - place(b)), ...removedEntries(removed, fed, chains)];
}

/** The first graph output that shows the bytes of each value that has bytes of its own. */
function outputsByBase({ graph, uses }: Plan): ReadonlyMap<Value, Value> {
  const outputs = new Map<Value, Value>();
  for (const output of graph.outputs) {
    const base = uses.baseOf(output);
    if (!outputs.has(base)) outputs.set(base, output);
  }
  return outputs;
}

/** A present that the caller named: computed elsewhere, and brought into its past's buffer when the run ends. */
function carriedEntry({ uses }: Plan, { past, present }: Pair): CacheEntry[] {
  const node = uses.producers.get(present);
  const reason = `"${present.name}" is computed elsewhere and copied into "${past.name}" after each run`;
  return node === undefined ? [] : [{ node, root: past, past, present, inPlace: false, reason }];
}

/** The graph output that shows the bytes an update would overwrite. */
function shownOutput(
  { uses, policy }: Plan,
  { past, inPlace, obstacle }: Verdict,
  shown: ReadonlyMap<Value, Value>,
): Value | undefined {
  return inPlace || obstacle !== undefined || policy === "never" ? undefined : shown.get(uses.baseOf(past));
}

/** The updates that a graph's nodes declare. General ones count where they start from an input of the main graph, `fed`. */
function* updatesIn(
  nodes: Iterable<Node>,
  fed: ReadonlySet<Value>,
  chains: Chains,
): Generator<Pick<CacheEntry, "node" | "root" | "past" | "present">> {
  for (const node of nodes) {
    for (const [position, present] of node.outputs.entries()) {
      const effect = effectOf(node, position);
      if (present === undefined || effect?.kind !== "update") continue;
      const [past] = effect.sources;
      const root = chains.rootOf(past);
      if (!effect.general || fed.has(root)) yield { node, root, past, present };
    }
  }
}

function bodyEntries(
  body: Graph,
  around: { readonly node: Node; readonly attribute: string },
  fed: ReadonlySet<Value>,
  chains: Chains,
): CacheEntry[] {
  const reason = `inside a body of ${around.node.label} (${around.attribute}), and bodies write nothing in place`;
  const entries = [...updatesIn(body.nodes, fed, chains)].map((update) => ({
    ...update,
    inPlace: false,
    reason,
    obstacle: around.node,
    within: around.node,
  }));
  for (const node of body.nodes)
    for (const [attribute, inner] of node.bodies)
      for (const entry of bodyEntries(inner, { node, attribute }, fed, chains))
        entries.push({ ...entry, within: around.node, obstacle: node });
  return entries;
}

/** Pasts that reach their present only through another layout: all their elements are copied on the way. */
function relaidPairs(plan: Plan, chains: Chains, listed: readonly CacheEntry[]): CacheEntry[] {
  const paired = new Set(plan.pairs.map((pair) => pair.present));
  const fed = new Set(plan.graph.inputs);
  const listedNodes = new Set(listed.map(({ node }) => node));
  return plan.graph.outputs.flatMap((present): CacheEntry[] => {
    const origin = chains.originOf(present);
    const { writer, layout } = chains.stepsTo(present);
    if (paired.has(present) || writer === undefined || layout === undefined) return [];
    if (!fed.has(origin) || origin.initializer !== undefined || !alike(origin, present)) return [];
    const { node } = listedNodes.has(writer.node) ? layout : writer;
    const reason = `${layout.node.label} copies ${quoted(layout.source)} into another layout for each token`;
    return [{ node, root: origin, past: origin, present, inPlace: false, reason, obstacle: layout.node, relaid: true }];
  });
}

const alike = ({ fact: a }: Value, { fact: b }: Value): boolean =>
  a?.type === b?.type && a?.shape?.length === b?.shape?.length;

function removedEntries(removed: readonly RemovedNode[], fed: ReadonlySet<Value>, chains: Chains): CacheEntry[] {
  return removed.flatMap(({ node, why }) =>
    [...updatesIn([node], fed, chains)].map((update) => ({
      ...update,
      inPlace: false,
      reason:
        why === "constant"
          ? "all its operands are constants, so it is computed once, when the model is loaded"
          : "nothing needs its result, so it is not run",
    })),
  );
}

/** A cache update as tools read it. */
export function cacheJson({ node, root, present, inPlace, reason, obstacle, shown }: CacheEntry): CacheJson {
  const reader = obstacle === undefined ? shown?.name : nameOf(obstacle);
  return {
    node: nameOf(node),
    op: node.op.name,
    input: root.name,
    output: present.name,
    inPlace,
    reason,
    ...(reader === undefined ? {} : { reader }),
  };
}
