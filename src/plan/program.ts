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
import { type DataCheck, scheduleChecks, writesInput } from "./data-checks.js";
import { layOut, type LayoutOptions, type Placement } from "./layout.js";
import type { Plan, Verdict } from "./plan.js";
import { effectOf } from "./uses.js";

/** One call, with a placement for every wanted output. */
export interface Step {
  readonly node: Node;
  readonly placements: readonly (Placement | undefined)[];
  readonly dynamic: boolean;
  /** An output is written into an operand's buffer. */
  readonly updates: boolean;
  /** It overwrites rows of a cache that a state holds: what fails after it must put them back, or the state is lost. */
  readonly overwrites: boolean;
  /** Something after the step may still refuse the run: what it overwrites is kept until then. */
  readonly keeps: boolean;
  /** Checks on data to make before the step: not all could be made before the first one. */
  readonly checks: readonly DataCheck[];
}

/** A plan compiled for concrete shapes. */
export interface Program {
  readonly plan: Plan;
  readonly steps: readonly Step[];
  /** Checks on data to make before the first step. */
  readonly checks: readonly DataCheck[];
  /** Types of all values, and shapes in numbers where the inputs' shapes decide them. */
  readonly facts: ReadonlyMap<Value, Fact>;
  /** Values that the shapes alone decide: computed while compiling. */
  readonly constants: ReadonlyMap<Value, View>;
  readonly arenaBytes: number;
  /** The bytes of each buffer of the arena. */
  readonly arenaBuffers: readonly number[];
}

/** Compiles a plan for the given input types and shapes. */
export function compileProgram(plan: Plan, inputs: readonly Fact[], options: LayoutOptions = {}): Program {
  const facts: Facts = new Map();
  inferBody({ ...plan.graph, nodes: plan.order }, inputs, facts);
  const constants = new Map<Value, View>();
  for (const value of plan.order.flatMap((node) => node.outputs)) {
    const constant = value && facts.get(value)?.constant;
    if (constant !== undefined) constants.set(value!, constant);
  }
  const live = neededNodes(plan, (value) => constants.has(value));
  const { placements, arenaBytes, arenaBuffers } = layOut(plan, live, facts, options);
  const { first, before, kept } = scheduleChecks(plan, live, facts, (value) => constants.has(value));
  const overwriting = new Set(
    plan.verdicts.filter((verdict) => writesInput(plan, verdict) && !growsOnly(verdict, facts)).map(({ node }) => node),
  );
  const steps = live.map((node): Step => {
    const places = node.outputs.map((value) => value && placements.get(value));
    return {
      node,
      placements: places,
      dynamic: places.some((placement) => placement?.kind === "dynamic"),
      updates: places.some((placement) => placement?.kind === "shared" && placement.effect === "update"),
      overwrites: overwriting.has(node),
      keeps: kept.has(node),
      checks: before.get(node) ?? noChecks,
    };
  });
  return { plan, steps, checks: first, facts, constants, arenaBytes, arenaBuffers };
}

const noChecks: readonly DataCheck[] = [];

/** True if an update only adds rows after those there were: a run that fails has lost none. */
function growsOnly({ node, past, present }: Verdict, facts: ReadonlyMap<Value, Fact>): boolean {
  const axis = effectOf(node, node.outputs.indexOf(present))?.grows;
  if (axis === undefined) return false;
  const from = facts.get(past)?.shape?.[axis];
  const to = facts.get(present)?.shape?.[axis];
  return typeof from === "number" && typeof to === "number" && to > from;
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
