/**
 * Which symbols of a model's inputs mean the batch, the new tokens and the rows that caches already hold. Exporters name them apart (s10,
 * s53, s70); a decoder is called with masks of past + new columns. Gives the graph facts in these three words.
 */
import { InsituError } from "../base/error.js";
import {
  addDims,
  bindDim,
  type Dim,
  floorDivideDims,
  isKnown,
  maxDim,
  minDim,
  moduloDims,
  multiplyDims,
  type Shape,
  symbol,
  SymbolicDim,
  symbolsOf,
} from "../graph/dim.js";
import type { Fact } from "../graph/fact.js";
import { type Graph, readsOf, type Value } from "../graph/graph.js";
import { type Facts, inferBody } from "../graph/infer.js";
import { spend } from "./effort.js";
import { Ranges } from "./ranges.js";
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
  const tokens = tokensOf(trails);
  const fresh = isKnown(tokens) ? tokens : sequence;
  const free = freeSymbols(graph, trails, fixed, fresh);
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
function freeSymbols(graph: Graph, trails: readonly Trail[], fixed: Map<string, Dim>, fresh: Dim): FreeSymbol[] {
  const pasts = new Set(trails.map((trail) => trail.past));
  const read = new Set(graph.nodes.flatMap((node) => [...readsOf(node)]));
  const masks = new Map<string, boolean>();
  for (const value of graph.inputs) {
    if (pasts.has(value) || value.initializer !== undefined || !read.has(value)) continue;
    value.fact?.shape?.forEach((dim, axis) => {
      if (isKnown(dim) || fixed.has(String(dim))) return;
      const own = String(dim);
      const rank = value.fact!.shape!.length;
      if (axis === 0 && rank > 1) fixed.set(own, batch);
      else if (symbolsOf(dim).has(own)) masks.set(own, (masks.get(own) ?? true) && isMaskAxis(axis, rank));
    });
  }
  const grows = trails.some(({ kind }) => kind !== "scatter" && kind !== "in-place");
  const total = grows ? [addDims(past, fresh)] : [];
  return [...masks]
    .filter(([own]) => !fixed.has(own))
    .map(([own, isMask]) => {
      const other = symbol(`${own}'`);
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

/** The facts of a graph whose inputs have these roles; undefined where a rule refuses them. */
function inferWith(graph: Graph, roles: Roles): Facts | undefined {
  const facts: Facts = new Map();
  spend(2 * graph.nodes.length);
  const inputs = graph.inputs.map((value) => inputFact(value, roles));
  try {
    inferBody(graph, inputs, facts);
  } catch (error) {
    if (error instanceof InsituError && error.code !== "internal") return undefined;
    throw error;
  }
  for (const [value, fact] of facts) facts.set(value, withinTables(fact));
  return facts;
}

/** A fact with tables taken to have a row for every position: where they end, the original could not run either. */
function withinTables(fact: Fact): Fact {
  const { shape, integers } = fact;
  if (!shape?.some(isUntidy) && !integers?.some(isUntidy)) return fact;
  return {
    ...fact,
    shape: shape?.map(longEnough),
    ...(integers === undefined ? {} : { integers: integers.map(longEnough) }),
  };
}

function longEnough(dim: Dim): Dim {
  if (!isUntidy(dim)) return dim;
  let sum: Dim = 0;
  for (const { coefficient, atoms } of (dim as SymbolicDim).terms) {
    let product: Dim = coefficient;
    for (const atom of atoms) product = multiplyDims(product, longEnoughAtom(atom));
    sum = addDims(sum, product);
  }
  return sum;
}

function longEnoughAtom({ key, operation }: SymbolicDim["terms"][number]["atoms"][number]): Dim {
  if (operation === undefined) return symbol(key);
  const [left, right] = [longEnough(operation.left), longEnough(operation.right)];
  switch (operation.name) {
    case "min":
      if (isKnown(right) && symbolsOf(left).has(String(past))) return left;
      return isKnown(left) && symbolsOf(right).has(String(past)) ? right : minDim(left, right);
    case "max":
      // A length that is cut off at 0; elsewhere a maximum is what does not fit together.
      return right === 0 && new Ranges(positiveSizes).isNeverNegative(left) ? left : maxDim(left, right);
    case "floor":
      return floorDivideDims(left, right);
    case "mod":
      return moduloDims(left, right);
    default:
      return operation.name satisfies never;
  }
}

/** An input's declared fact, in the words of the roles. */
function inputFact(value: Value, roles: Roles): Fact {
  const type = value.declared?.type ?? value.initializer?.type;
  if (type === undefined) throw new InsituError("invalid-graph", `input "${value.name}" has no element type`);
  const shape: Shape | undefined = value.declared?.shape?.map((dim) => bindDim(dim, roles));
  return { type, shape };
}

/** How many dimensions are sums and products of the words no longer: signs of a role that does not fit. */
function untidiness(facts: Facts): number {
  let count = 0;
  for (const { shape } of facts.values()) for (const dim of shape ?? []) if (isUntidy(dim)) count++;
  return count;
}

const isUntidy = (dim: Dim): boolean =>
  dim instanceof SymbolicDim && dim.terms.some(({ atoms }) => atoms.some(({ operation }) => operation !== undefined));
