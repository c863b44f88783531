/**
 * Past → present pairs, found by structure: a graph output that is reached from a graph input through updates, views, and
 * Concats that append to it. Names only settle a tie. What is paired can be held by a state between runs.
 */
import type { Graph, Node, Value } from "../graph/graph.js";
import { effectOf, inputPosition } from "./uses.js";

/** How the present comes from the past. */
export type PairKind = "update" | "grow" | "append";

/** An input that a state can hold, and the output that becomes its next content. */
export interface Pair {
  readonly past: Value;
  readonly present: Value;
  /** `update`: same shape, partly written. `grow`: longer, same reserve. `append`: longer, made anew by joining. */
  readonly kind: PairKind;
  /** The nodes on the way that declare an update, or join. */
  readonly writers: readonly Node[];
  /** The axis of the sequence, counted from the front, where a declaration tells. */
  readonly axis: number | undefined;
}

interface Step {
  readonly source: Value;
  readonly node: Node;
  readonly kind: PairKind | "view";
  readonly axis?: number | undefined;
}

/** The pairs of a graph, in the order of its inputs. */
export function findPairs(graph: Graph): Pair[] {
  const steps = new Map<Value, readonly Step[]>();
  for (const node of graph.nodes) {
    node.outputs.forEach((value, position) => {
      if (value !== undefined) steps.set(value, stepsOf(node, position));
    });
  }
  const inputs = new Set(graph.inputs);
  const candidates: Pair[] = [];
  for (const present of graph.outputs) {
    for (const pair of trace(present, steps, inputs)) candidates.push(pair);
  }
  return chooseOne(candidates, graph);
}

/** The ways one step back from an output position: through an effect, or through a declared join. */
function stepsOf(node: Node, position: number): readonly Step[] {
  const effect = effectOf(node, position);
  if (effect?.kind === "update") {
    const [source] = effect.sources;
    return [{ source, node, kind: effect.grows === undefined ? "update" : "grow", axis: effect.axis }];
  }
  if (effect?.kind === "view") return [{ source: effect.sources[0], node, kind: "view" }];
  const { appends } = node.op;
  if (appends === undefined || position !== 0) return [];
  // A join carries its first operand on: what comes after it is appended.
  const first = node.inputs[inputPosition(node, appends.to)];
  return first === undefined ? [] : [{ source: first, node, kind: "append", axis: Number(node.attrs[appends.along]) }];
}

/** Follows steps back to graph inputs. A chain needs at least one writer: views alone make no new content. */
function* trace(
  present: Value,
  steps: ReadonlyMap<Value, readonly Step[]>,
  inputs: ReadonlySet<Value>,
): Generator<Pair> {
  const writers: Node[] = [];
  let kind: PairKind = "update";
  let axis: number | undefined;
  let value = present;
  for (let step = steps.get(value)?.[0]; step !== undefined; step = steps.get(value)?.[0]) {
    if (step.kind !== "view") {
      writers.unshift(step.node);
      if (step.kind !== "update") kind = step.kind;
      axis = step.axis ?? axis;
    }
    value = step.source;
  }
  if (inputs.has(value) && value.initializer === undefined && writers.length > 0 && compatible(value, present, kind)) {
    const rank = value.fact?.shape?.length;
    yield {
      past: value,
      present,
      kind,
      writers,
      axis: axis !== undefined && axis < 0 && rank !== undefined ? axis + rank : axis,
    };
  }
}

/** A present can take the past's place: same type and rank, and dimensions that may be the same. */
function compatible(past: Value, present: Value, kind: PairKind): boolean {
  const [a, b] = [past.fact, present.fact];
  if (a === undefined || b === undefined) return true;
  if (a.type !== b.type) return false;
  if (a.shape === undefined || b.shape === undefined) return true;
  if (a.shape.length !== b.shape.length) return false;
  if (kind !== "update") return true;
  return a.shape.every(
    (dim, axis) => typeof dim !== "number" || typeof b.shape![axis] !== "number" || dim === b.shape![axis],
  );
}

/** One present a past and one past a present: by likeness of names, else the first. */
function chooseOne(candidates: readonly Pair[], graph: Graph): Pair[] {
  const byPast = new Map<Value, Pair>();
  const likeness = (pair: Pair): number => commonTail(pair.past.name, pair.present.name);
  for (const pair of candidates) {
    const before = byPast.get(pair.past);
    if (before === undefined || likeness(pair) > likeness(before)) byPast.set(pair.past, pair);
  }
  return graph.inputs.flatMap((input) => byPast.get(input) ?? []);
}

function commonTail(a: string, b: string): number {
  let length = 0;
  while (length < Math.min(a.length, b.length) && a.at(-1 - length) === b.at(-1 - length)) length++;
  return length;
}
