/**
 * Plan + shapes in numbers → Program: the steps that are left, and where each output's bytes lie. Pure: offsets, not memory.
 *
 * A step whose output shapes only data decide runs dynamically: it infers and allocates when it runs. All others know their
 * place beforehand, so that a run infers nothing and allocates nothing but the results.
 */
import { isKnownShape } from "../graph/dim.js";
import type { Fact } from "../graph/fact.js";
import { type Node, readsOf, type Value } from "../graph/graph.js";
import { type Inferred, inferLike } from "../graph/infer.js";
import { byteLengthOf } from "../tensor/element-type.js";
import { elementCount, type View } from "../tensor/view.js";
import { type DataCheck, type DataChecks, scheduleChecks, writesInput } from "./data-checks.js";
import { type Layout, layOut, layOutAgain, type LayoutOptions, type Placement } from "./layout.js";
import type { Plan, Verdict } from "./plan.js";
import { roomToGrow } from "./room.js";
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
  /** For programs that are compiled like this one. */
  readonly trail: Trail;
}

/** How a program came about: what another one of the same plan takes over where shapes differ little. */
interface Trail {
  readonly inferred: Inferred;
  readonly live: readonly Node[];
  readonly layout: Layout;
  readonly schedule: DataChecks;
}

/**
 * Compiles a plan for the given input types and shapes. What does not depend on how they differ from those of a program of the same plan and
 * options is taken over from it, whole steps included: the program is the same as without it, but for where in the arena values lie.
 */
export function compileProgram(
  plan: Plan,
  inputs: readonly Fact[],
  options: LayoutOptions = {},
  like?: Program,
): Program {
  const inferred = inferLike({ ...plan.graph, nodes: plan.order }, inputs, like?.trail.inferred);
  const { facts, changed = noValues } = inferred;
  const constants = like === undefined ? constantsOf(plan, facts) : constantsLike(like, facts, changed);
  // What is known of every value is as it was: numbers and contents differ, but nothing else does.
  const alike = like !== undefined && isKnownAlike(like.facts, facts, changed) ? like : undefined;
  const live = alike?.trail.live ?? neededNodes(plan, (value) => constants.has(value));
  const roomFor = (value: Value, bytes: number): number =>
    alike !== undefined && changed.has(value) ? roomToGrow(bytes, knownBytes(alike.facts.get(value))) : bytes;
  const layout =
    (alike && layOutAgain(alike.trail.layout, facts, changed)) ?? layOut(plan, live, facts, options, roomFor);
  const schedule = alike?.trail.schedule ?? scheduleChecks(plan, live, facts, (value) => constants.has(value));
  const overwriting = new Set(
    plan.verdicts.filter((verdict) => writesInput(plan, verdict) && !growsOnly(verdict, facts)).map(({ node }) => node),
  );
  const steps = live.map((node, position): Step => {
    const before = alike?.steps[position];
    if (before !== undefined && isUntouched(before, layout, changed)) return before;
    const placements = node.outputs.map((value) => value && layout.placements.get(value));
    return {
      node,
      placements,
      dynamic: placements.some((placement) => placement?.kind === "dynamic"),
      updates: placements.some((placement) => placement?.kind === "shared" && placement.effect === "update"),
      overwrites: overwriting.has(node),
      keeps: schedule.kept.has(node),
      checks: schedule.before.get(node) ?? noChecks,
    };
  });
  const trail = { inferred, live, layout, schedule };
  const { arenaBytes, arenaBuffers } = layout;
  return { plan, steps, checks: schedule.first, facts, constants, arenaBytes, arenaBuffers, trail };
}

const noValues: ReadonlySet<Value> = new Set();

/** What shapes alone decide. */
function constantsOf(plan: Plan, facts: ReadonlyMap<Value, Fact>): Map<Value, View> {
  const constants = new Map<Value, View>();
  for (const { outputs } of plan.order)
    for (const value of outputs) {
      const constant = value && facts.get(value)?.constant;
      if (constant !== undefined) constants.set(value!, constant);
    }
  return constants;
}

/** The same, with what differs. */
function constantsLike(
  { plan, constants: before }: Program,
  facts: ReadonlyMap<Value, Fact>,
  changed: ReadonlySet<Value>,
): Map<Value, View> {
  const constants = new Map(before);
  for (const value of changed) {
    const constant = facts.get(value)?.constant;
    if (constant === undefined) constants.delete(value);
    else if (!plan.graph.inputs.includes(value)) constants.set(value, constant);
  }
  return constants;
}

/** True if of every changed value there is known what was known before: whether its shape is in numbers, and whether it is a constant. */
function isKnownAlike(
  before: ReadonlyMap<Value, Fact>,
  now: ReadonlyMap<Value, Fact>,
  changed: ReadonlySet<Value>,
): boolean {
  for (const value of changed) {
    const [then, fact] = [before.get(value), now.get(value)];
    if ((then?.constant === undefined) !== (fact?.constant === undefined)) return false;
    if (isKnownShape(then?.shape) !== isKnownShape(fact?.shape)) return false;
  }
  return true;
}

/** True if a step reads and makes what it did before, in the same places of the arena. */
function isUntouched({ node, placements }: Step, layout: Layout, changed: ReadonlySet<Value>): boolean {
  for (let at = 0; at < node.outputs.length; at++) {
    const value = node.outputs[at];
    if (value !== undefined && layout.placements.get(value) !== placements[at]) return false;
  }
  return !readsOf(node).some((value) => changed.has(value));
}

const knownBytes = (fact: Fact | undefined): number =>
  isKnownShape(fact?.shape) ? byteLengthOf(fact.type, elementCount(fact.shape)) : 0;

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
