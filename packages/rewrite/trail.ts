/**
 * Caches, found by following the graph: from an output back to the node that adds rows, and from there back to an input. Names are not
 * looked at. Says where a trail ends that does not arrive; judges no attention.
 */
import { type Dim, isKnown, symbol } from "#insitu/graph/dim.js";
import { type Graph, type Node, readsOf, type Value } from "#insitu/graph/graph.js";
import { findPairs } from "#insitu/plan/named-pairs.js";
import { spend } from "./effort.js";
import { Elements } from "./elements.js";
import { Ranges } from "./ranges.js";

/** How new rows get into a cache: joined behind it, written into it, inside an attention operator, or already by TensorScatter. */
type WriterKind = "join" | "scatter" | "attention" | "in-place";

/** One cache: an input, the output that becomes its next content, and the node between them. */
export interface Trail {
  readonly past: Value;
  readonly present: Value;
  readonly writer: Node;
  readonly kind: WriterKind;
  /** The writer's output, and its operand that holds the old rows. */
  readonly written: Value;
  readonly operand: Value;
  /** For each axis of what is written, the axis of the input and of the output that it is. */
  readonly order: readonly number[];
}

/** A trail that ends before it arrives. */
export interface LostTrail {
  /** The graph input or output that it began from. */
  readonly from: Value;
  readonly node: Node | undefined;
  readonly reason: string;
}

/** What was found in a graph. */
interface Trails {
  readonly found: readonly Trail[];
  readonly lost: readonly LostTrail[];
}

const attentionOperators = new Set(["Attention", "GroupQueryAttention", "MultiHeadAttention"]);

/** The writer's kind and the operand that holds the old rows, for the output at a position. */
function writes(
  node: Node,
  output: Value,
): { readonly kind: WriterKind; readonly operand: Value | undefined } | undefined {
  const { name, domain, inputs, outputs, effects } = node.op;
  spend();
  const position = node.outputs.indexOf(output);
  const effect = effects[Object.keys(outputs)[position]];
  const operandNamed = (of: string): Value | undefined => node.inputs[Object.keys(inputs).indexOf(of)];
  if (attentionOperators.has(name) && effect?.kind === "update")
    return { kind: "attention", operand: operandNamed(effect.of) };
  if (domain !== "") return undefined;
  if (name === "TensorScatter" && effect?.kind === "update")
    return { kind: "in-place", operand: operandNamed(effect.of) };
  if (name === "ScatterND" || name === "ScatterElements") return { kind: "scatter", operand: node.inputs[0] };
  if (name === "Concat" && node.inputs.length === 2) return { kind: "join", operand: node.inputs[0] };
  return undefined;
}

/** Finds the caches of a graph whose values have facts. */
export function findTrails(graph: Graph): Trails {
  const inputs = new Set(graph.inputs.filter((value) => value.initializer === undefined));
  const found: Trail[] = [];
  const lost: LostTrail[] = [];
  const taken = new Set<Value>();
  const shown = new Set<Value>();
  for (const present of graph.outputs) {
    const rank = present.fact?.shape?.length;
    if (rank === undefined || rank < 3) continue;
    const trail = followBack(present, rank, graph, inputs);
    if (trail === undefined) continue;
    if ("shown" in trail) shown.add(trail.shown);
    else if ("reason" in trail) lost.push(trail);
    else if (!taken.has(trail.past)) {
      taken.add(trail.past);
      found.push(trail);
    }
  }
  // An input that leaves as it came, such as an encoder's keys, is no cache.
  const presents = new Set(found.map(({ present }) => present));
  for (const past of inputs) if (!taken.has(past) && !shown.has(past)) lost.push(...unfinished(past, graph, presents));
  const place = new Map(graph.inputs.map((value, at) => [value, at]));
  found.sort((a, b) => place.get(a.past)! - place.get(b.past)!);
  // Nor is what keeps its size and has no rows: it stays as it is.
  const states = lost.length === 0 ? new Map<Value, Value>() : statesWithoutRows(graph);
  return { found, lost: lost.filter(({ from }) => !states.has(from)) };
}

/** States that have no rows, and what becomes of them: they stay as they are, whatever becomes of the caches. */
export function statesWithoutRows(graph: Graph): ReadonlyMap<Value, Value> {
  const { pairs } = findPairs(graph, {});
  const isWithoutRows = ({ past, kind, axis, writers }: (typeof pairs)[number]): boolean =>
    kind === "update" &&
    axis === undefined &&
    past.fact?.shape?.slice(1).every(isKnown) === true &&
    writers.every(({ op }) =>
      Object.values(op.effects).every((effect) => effect.kind === "update" && effect.general !== true),
    );
  return new Map(pairs.filter(isWithoutRows).map(({ past, present }) => [past, present]));
}

/** The trail behind an output; undefined where nothing on the way looks like a cache. */
function followBack(
  present: Value,
  rank: number,
  graph: Graph,
  inputs: ReadonlySet<Value>,
): Trail | LostTrail | { readonly shown: Value } | undefined {
  const { elements, index } = indexed(present, rank, graph);
  const end = walk(elements, present, index, (value) => {
    const node = elements.producerOf(value);
    return node !== undefined && writes(node, value) !== undefined;
  });
  const writer = elements.producerOf(end.value);
  const written = writer && writes(writer, end.value);
  if (inputs.has(end.value)) return { shown: end.value };
  if (writer === undefined || written?.operand === undefined) return undefined;
  const order = end.index.map((dim) => index.findIndex((own) => own === dim || String(own) === String(dim)));
  const operandIndex = end.index;
  const start = walk(elements, written.operand, operandIndex, (value) => inputs.has(value));
  if (!inputs.has(start.value)) return undefined;
  const lose = (reason: string): LostTrail => ({ from: start.value, node: writer, reason });
  if (new Set(order).size !== rank || order.includes(-1))
    return lose(`"${present.name}" has another layout than what ${writer.label} makes, and not by a transposition`);
  if (start.index.length !== rank || start.index.some((dim, axis) => String(dim) !== String(index[axis])))
    return lose(`"${present.name}" has another layout than "${start.value.name}"`);
  if (start.value.fact?.shape?.length !== rank) return lose(`"${start.value.name}" has no declared shape`);
  if (start.value.fact.type !== present.fact?.type)
    return lose(`"${present.name}" has another type than "${start.value.name}"`);
  return {
    past: start.value,
    present,
    writer,
    kind: written.kind,
    written: end.value,
    operand: written.operand,
    order,
  };
}

function indexed(
  value: Value,
  rank: number,
  graph: Graph,
): { readonly elements: Elements; readonly index: readonly Dim[] } {
  const ranges = new Ranges();
  const shape = value.fact!.shape!;
  const index = Array.from({ length: rank }, (_, axis) => {
    ranges.variable(`%${axis}`, shape[axis]);
    return symbol(`%${axis}`);
  });
  return { elements: new Elements(graph, ranges), index };
}

/** Nodes that a trail goes back through on one side of its writer, at most. */
const longestTrail = 400;

/** Goes back through nodes that only move elements, until `stop`. */
function walk(
  elements: Elements,
  value: Value,
  index: readonly Dim[],
  stop: (value: Value) => boolean,
): { readonly value: Value; readonly index: readonly Dim[] } {
  let at = { value, index };
  for (let steps = 0; steps < longestTrail && !stop(at.value); steps++) {
    const node = elements.producerOf(at.value);
    // A Concat of one operand moves nothing; of several, it is no layout.
    if (node?.op.name === "Concat" && node.inputs.length > 1) break;
    const next = elements.before(at.value, at.index);
    if (next === undefined) break;
    at = next;
  }
  return at;
}

/** An input that looks like a cache, with an output of its kind, but that no trail arrives at. */
function unfinished(past: Value, graph: Graph, presents: ReadonlySet<Value>): LostTrail[] {
  const { fact } = past;
  const rank = fact?.shape?.length ?? 0;
  if (rank < 3 || fact?.shape === undefined || fact.shape.every((dim) => typeof dim === "number")) return [];
  const readers = readersIn(graph);
  const ahead = valuesBehind(past, readers);
  spend(graph.outputs.length / 16);
  const free = graph.outputs.filter((value) => !presents.has(value) && ahead.has(value));
  const alike = free.find(
    ({ fact: own }) =>
      own?.type === fact.type &&
      own.shape?.length === rank &&
      // One dimension differs, and is no fixed number of the input's: its rows.
      own.shape.filter((dim, axis) => String(dim) !== String(fact.shape![axis])).length === 1 &&
      own.shape.some(
        (dim, axis) => String(dim) !== String(fact.shape![axis]) && !(isKnown(dim) && isKnown(fact.shape![axis])),
      ),
  );
  const reader = readers.get(past)?.find((node) => !readsShapeOf(node, past));
  if (alike === undefined || reader === undefined) return [];
  if (reader.bodies.size > 0)
    return [{ from: past, node: reader, reason: `${reader.label} reads it in a body, and bodies are not looked into` }];
  const { elements, index } = indexed(alike, rank, graph);
  const end = elements.producerOf(walk(elements, alike, index, () => false).value);
  const made = end === undefined ? "" : `: ${end.label} makes "${alike.name}"`;
  const reason = `${reader.label} reads it, and no output is made of it by Concat, a scatter or an attention operator alone${made}`;
  return [{ from: past, node: end ?? reader, reason }];
}

/** The values that are made of a value. */
function valuesBehind(value: Value, readers: ReadonlyMap<Value, readonly Node[]>): ReadonlySet<Value> {
  const found = new Set([value]);
  // A set hands out what is added to it while it is walked.
  for (const at of found) {
    for (const node of readers.get(at) ?? []) {
      spend();
      for (const output of node.outputs) if (output !== undefined) found.add(output);
    }
  }
  return found;
}

/** Who reads each value, in the order of the graph: asked for many inputs of one graph. */
const knownReaders = new WeakMap<Graph, ReadonlyMap<Value, readonly Node[]>>();

function readersIn(graph: Graph): ReadonlyMap<Value, readonly Node[]> {
  const known = knownReaders.get(graph);
  if (known !== undefined) return known;
  const readers = new Map<Value, Node[]>();
  for (const node of graph.nodes) {
    for (const value of readsOf(node)) {
      const list = readers.get(value);
      if (list === undefined) readers.set(value, [node]);
      else if (list.at(-1) !== node) list.push(node);
    }
  }
  knownReaders.set(graph, readers);
  return readers;
}

/** True if a node looks at nothing but the shape of a value. */
function readsShapeOf(node: Node, value: Value): boolean {
  const parameters = Object.keys(node.op.inputs);
  const nameAt = (at: number): string => parameters[Math.min(at, parameters.length - 1)];
  return node.inputs.every((own, at) => own !== value || node.op.readsOnlyShape.includes(nameAt(at)));
}
