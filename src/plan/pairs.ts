/**
 * Past → present pairs, found by structure: a graph output that is reached from a graph input through updates, views, and
 * Concats that append to it. What is paired can be held by a state between runs. Where several outputs come from one input, the one whose
 * name ends most like the input's is its present; of those that end alike one that keeps the input's shape; else the first of the graph's
 * outputs. What a caller names (named-pairs.ts) goes before all of that, and so does what the file's own graph says before passes change it.
 */
import { sameDim } from "../graph/dim.js";
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
  /** The nodes on the way that declare an update, or join. None where only the caller says that the one becomes the other. */
  readonly writers: readonly Node[];
  /** The axis of the sequence, counted from the front, where a declaration tells. */
  readonly axis: number | undefined;
  /** For a cache of the last rows, which counts none: the axis that they lie along, and how many there must be. */
  readonly keeps?: { readonly axis: number; readonly rows: number } | undefined;
}

interface Step {
  readonly source: Value;
  readonly node: Node;
  readonly kind: PairKind | "view";
  readonly axis?: number | undefined;
  readonly keeps?: Pair["keeps"];
}

/** Every pair that structure suggests, in the order of the graph's outputs: several of them may have the same past. */
export function candidatePairs(graph: Graph): Pair[] {
  const trails = new Map<Value, Trail>();
  // What a node carries on was made before: the way to it is known.
  for (const node of graph.nodes) {
    node.outputs.forEach((value, position) => {
      const step = value && stepOf(node, position);
      if (value !== undefined && step !== undefined) trails.set(value, follow(step, trails.get(step.source)));
    });
  }
  const inputs = new Set(graph.inputs);
  return graph.outputs.flatMap((present) => {
    const trail = trails.get(present);
    if (trail === undefined || !trail.written) return [];
    const { origin: past, kind, axis } = trail;
    if (!inputs.has(past) || past.initializer !== undefined) return [];
    const rank = past.fact?.shape?.length;
    const along = axis !== undefined && axis < 0 && rank !== undefined ? axis + rank : axis;
    let writers: readonly Node[] | undefined;
    const pair: Pair = {
      past,
      present,
      kind,
      axis: along,
      ...(trail.keeps === undefined ? {} : { keeps: trail.keeps }),
      // Of many candidates along one chain few are chosen.
      get writers() {
        return (writers ??= writersOf(present, trails));
      },
    };
    return mayBecome(pair) ? [pair] : [];
  });
}

/**
 * One present a past and one past a present, in the order of the graph's inputs. Those in `named` are settled already; `asFiled` are the
 * presents, by past, that were chosen in the graph before passes: how much is rewritten must not change what a state holds.
 */
export function choosePairs(
  graph: Graph,
  candidates: readonly Pair[],
  named: readonly Pair[] = [],
  asFiled: ReadonlyMap<string, string> = new Map(),
): Pair[] {
  const chosen = new Map(named.map((pair) => [pair.past, pair]));
  const presents = new Set(named.map(({ present }) => present));
  const settled = new Set(chosen.keys());
  for (const pair of candidates) {
    if (settled.has(pair.past) || presents.has(pair.present)) continue;
    const before = chosen.get(pair.past);
    if (before === undefined || isLikelier(pair, before, asFiled)) chosen.set(pair.past, pair);
  }
  return graph.inputs.flatMap((input) => chosen.get(input) ?? []);
}

/** The presents of a graph by past, as names. */
export const presentsOf = (graph: Graph): ReadonlyMap<string, string> =>
  new Map(choosePairs(graph, candidatePairs(graph)).map(({ past, present }) => [past.name, present.name]));

/** Outputs that could have been a pair's present by their structure, in the order of the graph's. */
export const otherPresents = (plan: { readonly candidates: readonly Pair[] }, { past, present }: Pair): Value[] =>
  plan.candidates.filter((other) => other.past === past && other.present !== present).map((other) => other.present);

function isLikelier(pair: Pair, other: Pair, asFiled: ReadonlyMap<string, string>): boolean {
  const isFiled = ({ past, present }: Pair): number => Number(asFiled.get(past.name) === present.name);
  const likeness = ({ past, present }: Pair): number => commonTail(past.name, present.name);
  const keepsShape = ({ past, present }: Pair): number => Number(haveOneShape(past, present));
  const ahead = (score: (each: Pair) => number): number => score(pair) - score(other);
  return (ahead(isFiled) || ahead(likeness) || ahead(keepsShape)) > 0;
}

/** How a value comes from the one at the start of its steps. */
interface Trail {
  readonly step: Step;
  readonly origin: Value;
  /** A chain needs at least one writer: views alone make no new content. */
  readonly written: boolean;
  /** Of the steps that are no plain update, the one nearest to the origin tells. */
  readonly kind: PairKind;
  readonly axis: number | undefined;
  readonly keeps: Pair["keeps"];
}

function follow(step: Step, before: Trail | undefined): Trail {
  const origin = before?.origin ?? step.source;
  if (step.kind === "view")
    return {
      step,
      origin,
      written: before?.written ?? false,
      kind: before?.kind ?? "update",
      axis: before?.axis,
      keeps: before?.keeps,
    };
  const kind = before === undefined || before.kind === "update" ? step.kind : before.kind;
  return { step, origin, written: true, kind, axis: before?.axis ?? step.axis, keeps: before?.keeps ?? step.keeps };
}

/** The nodes that write on the way to a value, the first one first. */
function writersOf(present: Value, trails: ReadonlyMap<Value, Trail>): Node[] {
  const writers: Node[] = [];
  for (let trail = trails.get(present); trail !== undefined; trail = trails.get(trail.step.source))
    if (trail.step.kind !== "view") writers.push(trail.step.node);
  return writers.reverse();
}

/** The way one step back from an output position: through an effect, or through a declared join. */
function stepOf(node: Node, position: number): Step | undefined {
  const effect = effectOf(node, position);
  if (effect?.kind === "update") {
    const [source] = effect.sources;
    const { grows, axis, keeps } = effect;
    return { source, node, kind: grows === undefined ? "update" : "grow", axis, keeps };
  }
  if (effect?.kind === "view") return { source: effect.sources[0], node, kind: "view" };
  const { appends } = node.op;
  if (appends === undefined || position !== 0) return undefined;
  // A join carries its first operand on: what comes after it is appended.
  const first = node.inputs[inputPosition(node, appends.to)];
  return first && { source: first, node, kind: "append", axis: Number(node.attrs[appends.along]) };
}

/** True if two values are known to have the same shape, whatever the sizes that symbols stand for. */
const haveOneShape = ({ fact: a }: Value, { fact: b }: Value): boolean =>
  a?.shape?.length === b?.shape?.length && (a?.shape?.every((dim, at) => sameDim(dim, b!.shape![at])) ?? false);

/** A present can take the past's place: same type and rank, and dimensions that may be the same. */
export function mayBecome({ past, present, kind, axis }: Pair): boolean {
  const [a, b] = [past.fact, present.fact];
  if (a === undefined || b === undefined) return true;
  if (a.type !== b.type) return false;
  if (a.shape === undefined || b.shape === undefined) return true;
  if (a.shape.length !== b.shape.length) return false;
  return a.shape.every((dim, at) => {
    const other = b.shape![at];
    if (typeof dim !== "number") return true;
    // What has been joined to is longer: a past of one fixed length cannot be it.
    return typeof other === "number" ? dim === other : kind !== "append" || at !== axis;
  });
}

function commonTail(a: string, b: string): number {
  let length = 0;
  while (length < Math.min(a.length, b.length) && a.at(-1 - length) === b.at(-1 - length)) length++;
  return length;
}
