/**
 * When checks on data are made, so that a run that is refused has written nothing: as many as can be are made before the first write
 * into a cache; for the others, what is overwritten before them is kept. Pure; the executor makes the checks and keeps the bytes.
 */
import { isKnownShape } from "../graph/dim.js";
import type { Fact } from "../graph/fact.js";
import { type Graph, type Node, readsOf, type Value } from "../graph/graph.js";
import type { Plan, Verdict } from "./plan.js";

/** A node whose checks are to be made, and the cache that it writes or reads, for messages. */
export interface DataCheck {
  readonly node: Node;
  readonly cache: Value | undefined;
  /** All that it looks at never changes: one check is enough. */
  readonly constant: boolean;
}

/** When the checks on data of a program are made, and which writes are kept until they were. */
export interface DataChecks {
  /** Before the first step: those on inputs and constants. */
  readonly first: readonly DataCheck[];
  /** Before a step: its own where they were not made earlier, and at the first write those that can be made by then. */
  readonly before: ReadonlyMap<Node, readonly DataCheck[]>;
  /** Nodes that write a cache before something that may still refuse the run. */
  readonly kept: ReadonlySet<Node>;
}

/** The operands whose contents a node's checks read; none where it has nothing to check. */
function lookedAt({ op, inputs }: Node): Value[] {
  if (!op.validates) return [];
  const names = Object.keys(op.inputs);
  return inputs.filter((value, at): value is Value => {
    if (value === undefined || !op.looksAt.includes(names[Math.min(at, names.length - 1)])) return false;
    const type = value.fact?.type;
    return type === undefined || op.looksAtTypes === undefined || op.looksAtTypes.includes(type);
  });
}

/**
 * The order with all that checks on data look at moved before the first write in place, where it does not depend on one. Readers only
 * move forward, and bring what they depend on, so that every edge of the order holds.
 */
export function checkedFirst(order: readonly Node[], inPlace: ReadonlyMap<Value, Value>): readonly Node[] {
  const writes = (node: Node): boolean => node.outputs.some((value) => value !== undefined && inPlace.has(value));
  if (!order.some(writes)) return order;
  const makers = new Map(order.flatMap((node) => node.outputs.map((value) => [value, node] as const)));
  /** Nodes by whether nothing they depend on writes in place. */
  const unwritten = new Map<Node, boolean>();
  for (const node of order) {
    const sources = [...readsOf(node)].map((value) => makers.get(value));
    unwritten.set(node, !writes(node) && sources.every((maker) => maker === undefined || unwritten.get(maker)!));
  }
  const early = new Set<Node>();
  const pending = order.flatMap((node) => lookedAt(node).flatMap((value) => makers.get(value) ?? []));
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (early.has(node) || !unwritten.get(node)!) continue;
    early.add(node);
    for (const value of readsOf(node)) pending.push(...[makers.get(value)].filter((maker) => maker !== undefined));
  }
  return early.size === 0
    ? order
    : [...order.filter((node) => early.has(node)), ...order.filter((node) => !early.has(node))];
}

/** Decides when the checks of `live` nodes, which run in this order, are made. */
export function scheduleChecks(
  plan: Plan,
  live: readonly Node[],
  facts: ReadonlyMap<Value, Fact>,
  isConstant: (value: Value) => boolean,
): DataChecks {
  const position = new Map<Value, number>();
  live.forEach((node, at) => node.outputs.forEach((value) => value !== undefined && position.set(value, at)));
  /** The step after which an operand is known: -1 for inputs and constants. */
  const known = (value: Value): number => (isConstant(value) ? -1 : (position.get(value) ?? -1));
  const hasShape = (value: Value | undefined): boolean =>
    value === undefined || isKnownShape(facts.get(value)?.shape ?? value.fact?.shape);
  const writers = new Set(plan.verdicts.filter((verdict) => writesInput(plan, verdict)).map(({ node }) => node));
  const firstWrite = live.findIndex((node) => writers.has(node));
  const cacheOf = cachesBehind(plan);

  const first: DataCheck[] = [];
  const before = new Map<Node, DataCheck[]>();
  const add = (node: Node, check: DataCheck): void => {
    const list = before.get(node);
    if (list === undefined) before.set(node, [check]);
    else list.push(check);
  };
  let lastRefusal = plan.graph.outputs.every(hasShape) ? -1 : live.length;
  live.forEach((node, at) => {
    const shaped = node.inputs.every(hasShape);
    const looked = lookedAt(node);
    if (looked.length > 0) {
      const constant = looked.every((value) => isConstant(value) || value.initializer !== undefined);
      const check = { node, cache: cacheOf(node), constant };
      const last = shaped ? Math.max(...looked.map(known)) : at;
      if (last < 0) first.push(check);
      else if (last < firstWrite && firstWrite < at) add(live[firstWrite], check);
      else {
        add(node, check);
        lastRefusal = Math.max(lastRefusal, at);
      }
    }
    const dynamic = !shaped || !node.outputs.every(hasShape);
    if (dynamic || node.bodies.size > 0) lastRefusal = Math.max(lastRefusal, at);
  });
  const kept = new Set(live.filter((node, at) => writers.has(node) && at < lastRefusal));
  return { first, before, kept };
}

/** True if a verdict's output is written into the buffer of a graph input: one that a state holds. */
export const writesInput = (plan: Plan, { present, root }: Verdict): boolean =>
  plan.inPlace.has(present) && isInput(plan.graph, root);

const isInput = (graph: Graph, value: Value): boolean =>
  graph.inputs.includes(value) && value.initializer === undefined;

/** The cache that a node writes, or whose new value it reads, where there is one. */
function cachesBehind(plan: Plan): (node: Node) => Value | undefined {
  const writes = new Map<Node, Value>();
  const written = new Map<Value, Value>();
  for (const { node, isCache, root } of plan.verdicts) {
    if (!isCache) continue;
    if (!writes.has(node)) writes.set(node, root);
    for (const value of node.outputs) if (value !== undefined && !written.has(value)) written.set(value, root);
  }
  return (node) => {
    const cache = writes.get(node);
    if (cache !== undefined) return cache;
    const read = node.inputs.find((value) => value !== undefined && written.has(value));
    return read && written.get(read);
  };
}
