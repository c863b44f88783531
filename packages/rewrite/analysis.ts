/**
 * A model looked at: its caches, the attentions that read them, and for each cache that resists, the node and the reason. Changes nothing;
 * `rewrite` acts on it and `inspect` prints it.
 */
import { InsituError } from "#insitu/base/error.js";
import { buildGraph } from "#insitu/graph/build.js";
import { addDims, type Dim, sameDim } from "#insitu/graph/dim.js";
import { type Graph, type Node, readsOf, type Value } from "#insitu/graph/graph.js";
import { inferGraph } from "#insitu/graph/infer.js";
import type { Model } from "#insitu/onnx/model.js";
import { operators } from "#insitu/ops/index.js";
import { foldConstants } from "#insitu/passes/fold-constants.js";
import { GraphIndex } from "#insitu/passes/graph-index.js";
import { removeDeadNodes } from "#insitu/passes/remove-dead-nodes.js";
import { traitsOf } from "#insitu/tensor/element-type.js";
import type { CachedAttention, Refusal } from "./attention.js";
import { attentionNode } from "./attention-node.js";
import { type CacheWrite, cacheWriteOf } from "./cache-write.js";
import { spend, withEffort } from "./effort.js";
import { type Element, elementText, integer, truth } from "./element.js";
import type { Assumptions } from "./elements.js";
import { batch, past, type Roles } from "./role-words.js";
import { assignRoles, tokensOf } from "./roles.js";
import { operatorAttention } from "./operator-attention.js";
import { tablesOf } from "./rotary-tables.js";
import { findTrails, type LostTrail, type Trail } from "./trail.js";
import { type Surroundings, writtenAttention } from "./written-attention.js";

/** A cache and what stands in the way of rewriting it. */
interface Resisting {
  /** The graph input that the trail began from. */
  readonly input: string;
  /** The node where it ended. */
  readonly node: Node | undefined;
  readonly reason: string;
}

/** What is known of a model. */
export interface Analysis {
  /** The graph as it was built, and with its constants folded. */
  readonly whole: Graph;
  readonly graph: Graph;
  readonly index: GraphIndex;
  readonly roles: Roles;
  readonly trails: readonly Trail[];
  /** The rows that are written to each cache, operators with their cache inside left out. */
  readonly writes: ReadonlyMap<Trail, CacheWrite>;
  readonly attentions: readonly CachedAttention[];
  readonly resisting: readonly Resisting[];
  /** Inputs that say which columns are padding: all valid, as the rewritten model is called. */
  readonly masks: readonly Value[];
  /** Inputs, by name, whose lengths are their own although they look like masks. */
  readonly foreign: ReadonlySet<string>;
  /** True if hiding keys is all that they do to attentions. */
  readonly hidesOnly: boolean;
  /** Inputs that say which row each new token gets: one after another behind the old ones. */
  readonly counters: readonly Value[];
  readonly assumptions: Assumptions;
  /** Rows before the new ones, as masks and positions count them. */
  readonly past: Dim;
  /** How many samples, and how many new tokens a run has. */
  readonly samples: Dim;
  readonly tokens: Dim;
}

/** A model's graph with its facts. */
function inferredGraph(model: Model): Graph {
  const graph = buildGraph(model, operators);
  inferGraph(graph);
  return graph;
}

/**
 * The graph of a model that has caches, or what looks like one, that are not written in place yet; undefined for one that has none. A first look, quicker
 * than `analyse`, which may be given what it finds.
 */
export function graphWithGrowingCaches(model: Model): Graph | undefined {
  const graph = inferredGraph(model);
  const { found, lost } = withEffort(graph, () => findTrails(graph));
  return lost.length > 0 || found.some(({ kind }) => kind !== "in-place") ? graph : undefined;
}

/**
 * Looks at a model. Inputs that are `foreign` by their names have lengths of their own, such as an encoder's, whatever they look like. `inferred` is the
 * model's graph where it is there already: its facts become those of the analysis.
 */
export const analyse = (model: Model, foreign: ReadonlySet<string> = new Set(), inferred?: Graph): Analysis =>
  withEffort(model.graph, () => look(model, foreign, inferred ?? inferredGraph(model)));

function look(model: Model, foreign: ReadonlySet<string>, whole: Graph): Analysis {
  const first = findTrails(whole);
  const roles = assignRoles(whole, first.found, foreign);
  const graph = removeDeadNodes(foldConstants(whole));
  const { found: trails, lost } = findTrails(graph);
  const index = new GraphIndex(graph);
  const tokens = tokensOf(trails);
  const samples = trails[0]?.past.fact?.shape?.[0] ?? batch;
  const indices = new Set(
    trails.flatMap(({ kind, writer }) => (kind === "scatter" ? behind(writer.inputs[1]!, index) : [])),
  );
  const counters = graph.inputs.filter((value) => isCounter(value, tokens, indices.has(value)));
  const { writes, unwritten, start } = findWrites(trails, graph, { assumed: assumedElements([], counters, past) });
  const tables = tablesOf(model);
  const lookWith = (masks: readonly Value[], padding?: Value): Found => {
    const assumptions: Assumptions = { assumed: assumedElements(masks, counters, past, padding) };
    return { assumptions, ...findAttentions({ graph, index, trails, assumptions, past: start, tables }) };
  };
  const candidates = graph.inputs.filter((value) => isMask(value, tokens));
  const assumed = lookWith(candidates);
  const padded = new Map(candidates.map((mask) => [mask, lookWith(candidates, mask)]));
  const masks = candidates.filter((mask) => hidesKeys(assumed, padded.get(mask)!));
  const hidesOnly = masks.every((mask) => keepsBias(assumed, padded.get(mask)!));
  const { assumptions, attentions, refusals } = masks.length === candidates.length ? assumed : lookWith(masks);
  const resisting = [...lost.map(lostTrail), ...unwritten, ...unread(trails, attentions, refusals, index)];
  return {
    whole,
    graph,
    index,
    roles,
    trails,
    writes,
    attentions,
    resisting,
    masks,
    foreign,
    hidesOnly,
    counters,
    assumptions,
    past: start,
    samples,
    tokens,
  };
}

/** The rows that are written to each cache, and from which row on. */
function findWrites(
  trails: readonly Trail[],
  graph: Graph,
  assumptions: Assumptions,
): { readonly writes: Map<Trail, CacheWrite>; readonly unwritten: Resisting[]; readonly start: Dim } {
  const writes = new Map<Trail, CacheWrite>();
  const unwritten: Resisting[] = [];
  let start: Dim | undefined;
  for (const trail of trails) {
    if (trail.kind === "attention" || trail.kind === "in-place") continue;
    const found = cacheWriteOf(trail, graph, assumptions);
    const resist = (reason: string): unknown => unwritten.push({ input: trail.past.name, node: trail.writer, reason });
    if (typeof found === "string") resist(found);
    else if (start !== undefined && !sameDim(start, found.start))
      resist(`${trail.writer.label} begins at another row than other caches' writers`);
    else {
      start = found.start;
      writes.set(trail, found);
    }
  }
  return { writes, unwritten, start: start ?? past };
}

interface Found {
  readonly assumptions: Assumptions;
  readonly attentions: readonly CachedAttention[];
  readonly refusals: readonly Refusal[];
}

function findAttentions(around: Surroundings): Omit<Found, "assumptions"> {
  const attentions: CachedAttention[] = [];
  const refusals: Refusal[] = [];
  spend(around.graph.nodes.length);
  for (const node of around.graph.nodes) {
    const found = operatorAttention(node, around) ?? writtenAttention(node, around) ?? attentionNode(node, around);
    if (found === undefined) continue;
    if ("reason" in found) refusals.push(found);
    else attentions.push(found);
  }
  return { attentions, refusals };
}

/** True if what is taken for padding hides keys, in every attention that it changes at all. */
function hidesKeys(valid: Found, padding: Found): boolean {
  const padded = new Map(padding.attentions.map((attention) => [attention.node, attention]));
  return valid.attentions.every(({ node, mask }) => {
    const other = padded.get(node);
    if (other === undefined) return false;
    const hidden = other.mask.others.some((condition) => condition.kind === "truth" && !condition.value);
    return hidden || JSON.stringify(texts(mask)) === JSON.stringify(texts(other.mask));
  });
}

/** True if what is added to the scores of keys is the same with padding as without. */
function keepsBias(valid: Found, padding: Found): boolean {
  const padded = new Map(padding.attentions.map((attention) => [attention.node, attention]));
  return valid.attentions.every(({ node, mask }) => {
    const other = padded.get(node)?.mask;
    return other !== undefined && JSON.stringify(texts(mask)[3]) === JSON.stringify(texts(other)[3]);
  });
}

const texts = ({ causal, window, others, bias }: CachedAttention["mask"]): readonly unknown[] => [
  causal,
  window,
  others.map(elementText),
  bias && elementText(bias),
];

/** True for an input with one entry for each column of the past and the new tokens. */
const isMask = ({ fact }: Value, tokens: Dim): boolean =>
  fact?.shape?.length === 2 &&
  sameDim(fact.shape[1], addDims(past, tokens)) &&
  ["bool", "float", "integer"].includes(traitsOf(fact.type).kind);

/** The values that a value is made of, itself included. */
function behind(value: Value, index: GraphIndex): Value[] {
  const found = new Set([value]);
  // A set hands out what is added to it while it is walked.
  for (const at of found) {
    const node = index.producerOf(at);
    for (const operand of node === undefined ? [] : readsOf(node)) found.add(operand);
  }
  return [...found];
}

/** True for an input with one whole number for each new token, the same for all samples; or a single one that says where rows are written. */
function isCounter({ fact, initializer }: Value, tokens: Dim, placesRows: boolean): boolean {
  if (fact?.shape === undefined || initializer !== undefined || fact.shape.length > 1) return false;
  if (traitsOf(fact.type).kind !== "integer") return false;
  const [size] = fact.shape;
  return size === undefined || (size === 1 && !sameDim(tokens, 1)) ? placesRows : sameDim(size, tokens);
}

/** What runs of the rewritten model take for granted: no padding between valid tokens, rows one after another. */
function assumedElements(
  masks: readonly Value[],
  counters: readonly Value[],
  first: Dim,
  padding?: Value,
): Map<Value, (index: readonly Dim[]) => Element> {
  const one = (mask: Value): Element => {
    const valid = mask !== padding;
    return mask.fact?.type === "bool" ? truth(valid) : integer(Number(valid));
  };
  return new Map([
    ...masks.map((mask) => [mask, () => one(mask)] as const),
    ...counters.map((counter) => [counter, ([at = 0]: readonly Dim[]) => integer(addDims(first, at))] as const),
  ]);
}

const lostTrail = ({ from, node, reason }: LostTrail): Resisting => ({ input: from.name, node, reason });

/** Caches that no understood attention reads, each with the node that is in the way. */
function unread(
  trails: readonly Trail[],
  attentions: readonly CachedAttention[],
  refusals: readonly Refusal[],
  index: GraphIndex,
): Resisting[] {
  const read = new Set(attentions.flatMap(({ keys, values }) => [keys.trail, values.trail]));
  const places = new Map(refusals.map(({ node }, at) => [node, at]));
  return trails
    .filter((trail) => !read.has(trail) && trail.kind !== "in-place")
    .map((trail) => {
      const own = trail.kind === "attention" ? [trail.writer] : [];
      const near = [...own, ...nodesAhead(trail.written, index)];
      const first = near.reduce((least, node) => Math.min(least, places.get(node) ?? Infinity), Infinity);
      const refusal = refusals.at(first);
      if (refusal !== undefined)
        return { input: trail.past.name, node: refusal.node, reason: `${refusal.node.label}: ${refusal.reason}` };
      const [node] = near;
      const reason =
        node === undefined
          ? `nothing reads "${trail.present.name}"`
          : `${node.label} reads it, and no attention was found behind it`;
      return { input: trail.past.name, node, reason };
    });
}

/** The nodes that a value goes into, nearest first. */
function nodesAhead(value: Value, index: GraphIndex): Node[] {
  const nodes: Node[] = [];
  const pending = [value];
  for (const at of pending) {
    for (const reader of index.readersOf(at)) {
      if (nodes.includes(reader) || nodes.length > 60) continue;
      nodes.push(reader);
      for (const output of reader.outputs) if (output !== undefined) pending.push(output);
    }
  }
  return nodes;
}

/** Throws unless every cache is understood: names the input and the node where the trail ended. */
export function requireUnderstood({ trails, resisting }: Analysis): void {
  if (resisting.length > 0) {
    const [{ input, reason }] = resisting;
    const others = new Set(resisting.map((other) => other.input)).size - 1;
    const more = others === 0 ? "" : `; ${others} more ${others === 1 ? "cache resists" : "caches resist"}`;
    throw new InsituError("invalid-graph", `cache "${input}" cannot be rewritten: ${reason}${more}`);
  }
  const done = trails.filter(({ kind }) => kind === "in-place");
  if (done.length > 0) {
    const [{ past: first, writer }] = done;
    const what = done.length === trails.length ? "every cache" : `cache "${first.name}"`;
    throw new InsituError(
      "invalid-graph",
      `${what} is written in place already, by ${writer.label}: there is nothing to rewrite`,
    );
  }
  if (trails.length === 0)
    throw new InsituError(
      "invalid-graph",
      "the model has no cache: no input reaches an output through Concat, a scatter or an attention operator that adds rows to it",
    );
}
