/**
 * Which symbols of a model's inputs mean the batch, the new tokens and the rows that caches already hold. Exporters name them apart (s10,
 * s53, s70); a decoder is called with masks of past + new columns. Gives the graph facts in these three words.
 */
import { InsituError } from "#insitu/base/error.js";
import { addDims, type Dim, isKnown, symbol, symbolsOf } from "#insitu/graph/dim.js";
import { type Graph, readsOf, type Value } from "#insitu/graph/graph.js";
import type { Facts } from "#insitu/graph/infer.js";
import { inferWith, untidiness } from "./role-facts.js";
import { batch, past, type Roles, sequence } from "./role-words.js";
import type { Trail } from "./trail.js";

/** The axis of the sequence in what a trail's writer makes. Of a ScatterND it is the last that indices name: its write shows whether that holds. */
export function writtenAxis({ writer, kind, written }: Trail): number | undefined {
  const rank = written.fact?.shape?.length ?? 0;
  if (kind === "attention") return 2;
  const axis = writer.attrs["axis"] as number | undefined;
  if (kind !== "scatter") return fromFront(axis ?? -2, rank);
  if (writer.op.name === "ScatterElements") return fromFront(axis ?? 0, rank);
  const named = writer.inputs[1]?.fact?.shape?.at(-1);
  return named === undefined || !isKnown(named) ? undefined : Math.min(named, rank - 1) - 1;
}

const fromFront = (axis: number, rank: number): number => (axis < 0 ? axis + rank : axis);

/** The axis of the sequence in a cache as it enters and leaves the graph. */
export function cacheAxis(trail: Trail): number | undefined {
  const axis = writtenAxis(trail);
  return axis === undefined ? undefined : trail.order[axis];
}

/**
 * Finds the roles and stores the facts that follow from them in the graph's values. Of all ways to call the other dimensions new tokens or
 * past + new, the one under which the graph's shapes fit together best is taken; those of inputs that are `foreign` by their names are neither.
 */
export function assignRoles(graph: Graph, trails: readonly Trail[], foreign: ReadonlySet<string>): Roles {
  const fixed = new Map<string, Dim>();
  for (const trail of trails) {
    const shape = trail.past.fact!.shape!;
    const axis = cacheAxis(trail);
    name(fixed, shape[0], batch);
    if (axis !== undefined && trail.kind !== "scatter" && trail.kind !== "in-place") name(fixed, shape[axis], past);
  }
  const tokens = tokensOf(trails);
  const fresh = isKnown(tokens) ? tokens : sequence;
  const free = freeSymbols(graph, trails, fixed, fresh, foreign);
  const rows = newRows(trails);
  let best: { readonly roles: Roles; readonly facts: Facts; readonly cost: number } | undefined;
  for (const roles of assignments(fixed, free)) {
    const facts = inferWith(graph, roles);
    if (facts === undefined) continue;
    const cost =
      rows.filter((row) => String(facts.get(row.value)?.shape?.[row.axis]) !== String(fresh)).length * 1e6 +
      untidiness(facts);
    if (best === undefined || cost < best.cost) best = { roles, facts, cost };
    if (cost === 0) break;
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
    // A ScatterND's updates have the axes of its indices in front.
    const lead = inputs[1]?.fact?.shape?.length;
    if (trail.kind === "scatter" && trail.writer.op.name === "ScatterND")
      return lead === undefined ? [] : [{ value, axis: lead - 2 }];
    // Attention operators also take [batch, length, heads · size].
    return [{ value, axis: trail.kind === "attention" && value.fact?.shape?.length === 3 ? 1 : axis }];
  });
}

/** How many rows a run adds, as facts tell; `sequence` where nothing does. */
export function tokensOf(trails: readonly Trail[]): Dim {
  const [row] = newRows(trails);
  return row?.value.fact?.shape?.[row.axis] ?? sequence;
}

/** A symbol of unknown meaning, with what it may stand for, the likeliest first. */
interface FreeSymbol {
  readonly name: string;
  readonly choices: readonly Dim[];
  /** True where all its axes are ones that masks have. */
  readonly isMask: boolean;
}

/** Symbols of other inputs that somebody reads, first dimensions aside: those are batches. */
function freeSymbols(
  graph: Graph,
  trails: readonly Trail[],
  fixed: Map<string, Dim>,
  fresh: Dim,
  foreign: ReadonlySet<string>,
): FreeSymbol[] {
  const pasts = new Set(trails.map((trail) => trail.past));
  const read = new Set(graph.nodes.flatMap((node) => [...readsOf(node)]));
  const masks = new Map<string, boolean>();
  const others = new Set<string>();
  for (const value of graph.inputs) {
    if (pasts.has(value) || value.initializer !== undefined || !read.has(value)) continue;
    value.fact?.shape?.forEach((dim, axis) => {
      if (isKnown(dim) || fixed.has(String(dim))) return;
      const own = String(dim);
      const rank = value.fact!.shape!.length;
      if (axis === 0 && rank > 1) fixed.set(own, batch);
      else if (symbolsOf(dim).has(own)) {
        masks.set(own, (masks.get(own) ?? true) && isMaskAxis(axis, rank));
        if (foreign.has(value.name)) others.add(own);
      }
    });
  }
  const grows = trails.some(({ kind }) => kind !== "scatter" && kind !== "in-place");
  const total = grows ? [addDims(past, fresh)] : [];
  return [...masks]
    .filter(([own]) => !fixed.has(own))
    .map(([own, isMask]) => {
      const other = symbol(`${own}'`);
      if (others.has(own)) return { name: own, choices: [other], isMask: false };
      return { name: own, choices: isMask ? [...total, fresh, other] : [other, fresh, ...total], isMask };
    });
}

/** True where masks have their columns; elsewhere a length may be something else, such as an encoder's. */
const isMaskAxis = (axis: number, rank: number): boolean => rank <= 2 || (rank === 4 && axis === 3);

/** Every way to choose what the free symbols stand for, the likeliest first. */
function assignments(fixed: Roles, free: readonly FreeSymbol[]): Roles[] {
  const most = 3 ** 6;
  const count = free.reduce((product, { choices }) => product * choices.length, 1);
  // Where there are too many ways, lengths that look like none of ours are taken for something else.
  const choicesOf = ({ choices, isMask }: FreeSymbol): readonly Dim[] =>
    count > most && !isMask ? choices.slice(0, 1) : choices;
  let ways: { readonly roles: Roles; readonly rank: number }[] = [{ roles: fixed, rank: 0 }];
  for (const symbolOfUnknown of free) {
    const { name: own } = symbolOfUnknown;
    ways = ways.flatMap(({ roles, rank }) =>
      choicesOf(symbolOfUnknown).map((choice, at) => ({ roles: new Map([...roles, [own, choice]]), rank: rank + at })),
    );
    if (ways.length > most)
      throw new InsituError(
        "invalid-graph",
        `the inputs have too many dimensions of unknown meaning: ${free.map((one) => one.name).join(", ")}`,
      );
  }
  return ways.sort((a, b) => a.rank - b.rank).map(({ roles }) => roles);
}
