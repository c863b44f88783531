/**
 * Which symbols of a model's inputs mean the batch, the new tokens and the rows that caches already hold. Exporters name them apart (s10,
 * s53, s70); a decoder is called with masks of past + new columns. Gives the graph facts in these three words.
 */
import { InsituError } from "../base/error.js";
import { addDims, bindDim, type Dim, isKnown, type Shape, symbol, SymbolicDim, symbolsOf } from "../graph/dim.js";
import type { Fact } from "../graph/fact.js";
import type { Graph, Value } from "../graph/graph.js";
import { type Facts, inferBody } from "../graph/infer.js";
import type { Trail } from "./trail.js";

/** The words. */
export const batch: Dim = symbol("batch");
/** New tokens of a run. */
export const sequence: Dim = symbol("sequence");
/** Rows that caches hold before a run. */
export const past: Dim = symbol("past");

/** Sizes that are at least 1. */
export const positiveSizes: readonly string[] = ["batch", "sequence"];

/** Symbols of the inputs, each with what it stands for. */
export type Roles = ReadonlyMap<string, Dim>;

/** The axis of the sequence in what a trail's writer makes. */
export function writtenAxis({ writer, kind, written }: Trail): number | undefined {
  const rank = written.fact?.shape?.length ?? 0;
  if (kind === "attention") return 2;
  const axis = writer.attrs["axis"] as number | undefined;
  if (kind === "scatter") return writer.op.name === "ScatterElements" ? fromFront(axis ?? 0, rank) : 0;
  return fromFront(axis ?? -2, rank);
}

const fromFront = (axis: number, rank: number): number => (axis < 0 ? axis + rank : axis);

/** The axis of the sequence in a cache as it enters and leaves the graph. */
export function cacheAxis(trail: Trail): number | undefined {
  const axis = writtenAxis(trail);
  return axis === undefined ? undefined : trail.order[axis];
}

/**
 * Finds the roles and stores the facts that follow from them in the graph's values. Of all ways to call the other dimensions new tokens or
 * past + new, the one under which the graph's shapes fit together best is taken.
 */
export function assignRoles(graph: Graph, trails: readonly Trail[]): Roles {
  const fixed = new Map<string, Dim>();
  for (const trail of trails) {
    const shape = trail.past.fact!.shape!;
    const axis = cacheAxis(trail);
    name(fixed, shape[0], batch);
    if (axis !== undefined && trail.kind !== "scatter" && trail.kind !== "in-place") name(fixed, shape[axis], past);
  }
  const free = freeSymbols(graph, trails, fixed);
  const rows = newRows(trails);
  const tokens = tokensOf(trails);
  const fresh = isKnown(tokens) ? tokens : sequence;
  let best: { readonly roles: Roles; readonly facts: Facts; readonly cost: number } | undefined;
  for (const roles of assignments(fixed, free, trails, fresh)) {
    const facts = inferWith(graph, roles);
    if (facts === undefined) continue;
    const cost =
      rows.filter((row) => String(facts.get(row.value)?.shape?.[row.axis]) !== String(fresh)).length * 1e6 +
      untidiness(facts);
    if (best === undefined || cost < best.cost) best = { roles, facts, cost };
  }
  if (best === undefined)
    throw new InsituError(
      "invalid-graph",
      "the model's shapes do not fit together for any number of past and new tokens",
    );
  for (const [value, fact] of best.facts) value.fact = fact;
  return best.roles;
}

function name(roles: Map<string, Dim>, dim: Dim, role: Dim): void {
  if (!isKnown(dim) && symbolsOf(dim).has(String(dim))) roles.set(String(dim), role);
}

/** The rows that writers bring, where their number shows in a shape. */
function newRows(trails: readonly Trail[]): { readonly value: Value; readonly axis: number }[] {
  return trails.flatMap((trail) => {
    const axis = writtenAxis(trail);
    const { inputs } = trail.writer;
    const value =
      trail.kind === "scatter" ? inputs[2] : trail.kind === "attention" ? (inputs[1] ?? inputs[0]) : inputs[1];
    if (value === undefined || axis === undefined) return [];
    // Attention operators also take [batch, length, heads · size].
    return [{ value, axis: trail.kind === "attention" && value.fact?.shape?.length === 3 ? 1 : axis }];
  });
}

/** How many rows a run adds, as facts tell; `sequence` where nothing does. */
export function tokensOf(trails: readonly Trail[]): Dim {
  const [row] = newRows(trails);
  return row?.value.fact?.shape?.[row.axis] ?? sequence;
}

/** Symbols of other inputs that somebody reads, first dimensions aside: those are batches. */
function freeSymbols(graph: Graph, trails: readonly Trail[], fixed: Map<string, Dim>): string[] {
  const pasts = new Set(trails.map((trail) => trail.past));
  const read = new Set(graph.nodes.flatMap((node) => node.inputs));
  const free = new Set<string>();
  for (const value of graph.inputs) {
    if (pasts.has(value) || value.initializer !== undefined || !read.has(value)) continue;
    value.fact?.shape?.forEach((dim, axis) => {
      if (isKnown(dim) || fixed.has(String(dim))) return;
      const own = String(dim);
      if (axis === 0 && value.fact!.shape!.length > 1) fixed.set(own, batch);
      else if (symbolsOf(dim).has(own)) free.add(own);
    });
  }
  return [...free].filter((own) => !fixed.has(own));
}

/** Every way to call the free symbols new tokens or past + new; those with the fewest new tokens first. */
function* assignments(
  fixed: ReadonlyMap<string, Dim>,
  free: readonly string[],
  trails: readonly Trail[],
  fresh: Dim,
): Generator<Roles> {
  if (free.length > 10)
    throw new InsituError(
      "invalid-graph",
      `the inputs have ${free.length} dimensions of unknown meaning: ${free.join(", ")}`,
    );
  const grows = trails.some(({ kind }) => kind !== "scatter" && kind !== "in-place");
  const total = grows ? addDims(past, fresh) : undefined;
  // Without a cache that grows, there are only new tokens.
  const choices = Array.from({ length: 2 ** free.length }, (_, bits) => bits).slice(total === undefined ? -1 : 0);
  const count = (bits: number): number => bits.toString(2).replaceAll("0", "").length;
  choices.sort((a, b) => count(a) - count(b) || a - b);
  for (const bits of choices) {
    const roles = new Map(fixed);
    free.forEach((own, at) => {
      const isNew = ((bits >> at) & 1) === 1;
      roles.set(own, isNew || total === undefined ? fresh : total);
    });
    yield roles;
  }
}

/** The facts of a graph whose inputs have these roles; undefined where a rule refuses them. */
export function inferWith(graph: Graph, roles: Roles): Facts | undefined {
  const facts: Facts = new Map();
  const inputs = graph.inputs.map((value) => inputFact(value, roles));
  try {
    inferBody(graph, inputs, facts, { rules: 0, believeDeclared: false });
  } catch (error) {
    if (error instanceof InsituError && error.code !== "internal") return undefined;
    throw error;
  }
  return facts;
}

/** An input's declared fact, in the words of the roles. */
export function inputFact(value: Value, roles: Roles): Fact {
  const type = value.declared?.type ?? value.initializer?.type;
  if (type === undefined) throw new InsituError("invalid-graph", `input "${value.name}" has no element type`);
  const shape: Shape | undefined = value.declared?.shape?.map((dim) => bindDim(dim, roles));
  return { type, shape };
}

/** How many dimensions are sums and products of the words no longer: signs of a role that does not fit. */
function untidiness(facts: Facts): number {
  let count = 0;
  for (const { shape } of facts.values())
    for (const dim of shape ?? [])
      if (
        dim instanceof SymbolicDim &&
        dim.terms.some(({ atoms }) => atoms.some(({ operation }) => operation !== undefined))
      )
        count++;
  return count;
}
