/**
 * Plan + shapes in numbers → Program: the steps that are left, and where each output's bytes lie. Pure: offsets, not memory.
 *
 * A step whose output shapes only data decide runs dynamically: it infers and allocates when it runs. All others know their
 * place beforehand, so that a run infers nothing and allocates nothing but the results.
 */
import type { Fact } from "../graph/fact.js";
import type { Node, Value } from "../graph/graph.js";
import { type Facts, inferBody } from "../graph/infer.js";
import type { View } from "../tensor/view.js";
import { layOut, type LayoutOptions, type Placement } from "./layout.js";
import type { Plan } from "./plan.js";

/** One call, with a placement for every wanted output. */
export interface Step {
  readonly node: Node;
  readonly placements: readonly (Placement | undefined)[];
  readonly dynamic: boolean;
  /** An output is written into an operand's buffer. */
  readonly updates: boolean;
  /** The node has checks on data to make when the step runs: not all of them were made before the run's first write. */
  readonly validates: boolean;
}

/** A plan compiled for concrete shapes. */
export interface Program {
  readonly plan: Plan;
  readonly steps: readonly Step[];
  /** The steps that write a cache, or read one that the run writes, and have checks on data to run before anything is written. */
  readonly writers: readonly { readonly node: Node; readonly cache: Value }[];
  /** Types of all values, and shapes in numbers where the inputs' shapes decide them. */
  readonly facts: ReadonlyMap<Value, Fact>;
  /** Values that the shapes alone decide: computed while compiling. */
  readonly constants: ReadonlyMap<Value, View>;
  readonly arenaBytes: number;
}

/** Compiles a plan for the given input types and shapes. */
export function compileProgram(plan: Plan, inputs: readonly Fact[], options: LayoutOptions = {}): Program {
  const facts: Facts = new Map();
  inferBody({ ...plan.graph, nodes: plan.order }, inputs, facts, { rules: 0, believeDeclared: false });
  const constants = new Map<Value, View>();
  for (const value of plan.order.flatMap((node) => node.outputs)) {
    const constant = value && facts.get(value)?.constant;
    if (constant !== undefined) constants.set(value!, constant);
  }
  const live = neededNodes(plan, (value) => constants.has(value));
  const { placements, arenaBytes } = layOut(plan, live, facts, options);
  const writers = plan.verdicts
    .filter(({ node, isCache }) => isCache && node.op.validates && live.includes(node))
    .map(({ node, root }) => ({ node, cache: root }));
  writers.push(...checkedReaders(plan, live));
  const computed = new Set(live.flatMap((node) => node.outputs));
  const isChecked = (node: Node): boolean =>
    writers.some((writer) => writer.node === node) && !node.inputs.some((value) => value && computed.has(value));
  const steps = live.map((node): Step => {
    const places = node.outputs.map((value) => value && placements.get(value));
    const dynamic = places.some((placement) => placement?.kind === "dynamic");
    const updates = places.some((placement) => placement?.kind === "shared" && placement.effect === "update");
    return { node, placements: places, dynamic, updates, validates: node.op.validates && !isChecked(node) };
  });
  return { plan, steps, writers, facts, constants, arenaBytes };
}

/** Nodes with checks on data that read what a run writes into a cache: what they refuse must be refused before the write. */
function checkedReaders(plan: Plan, live: readonly Node[]): Program["writers"] {
  const written = new Map<Value, Value>();
  for (const { node, isCache, root } of plan.verdicts)
    if (isCache)
      for (const value of node.outputs) if (value !== undefined && !written.has(value)) written.set(value, root);
  const writing = new Set(plan.verdicts.map(({ node }) => node));
  return live.flatMap((node) => {
    const cache = node.inputs.find((value) => value !== undefined && written.has(value));
    return cache === undefined || !node.op.validates || writing.has(node) ? [] : [{ node, cache: written.get(cache)! }];
  });
}

/** The nodes whose results an output depends on, in the plan's order, without those whose results are known. */
function neededNodes(plan: Plan, isConstant: (value: Value) => boolean): Node[] {
  const needed = new Set<Value>(plan.graph.outputs);
  const kept: Node[] = [];
  for (const node of plan.order.toReversed()) {
    const wanted = node.outputs.some((value) => value !== undefined && needed.has(value) && !isConstant(value));
    if (!wanted) continue;
    kept.push(node);
    for (const value of node.inputs) if (value !== undefined) needed.add(value);
    for (const body of node.bodies.values()) for (const value of body.captured) needed.add(value);
  }
  return kept.toReversed();
}
