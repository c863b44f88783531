/**
 * What the caches of a plan take and what one token moves: numbers where the sizes are known, formulas over the model's symbols
 * where not. Knows a plan's pairs, allocates nothing.
 */
import { bytesText } from "#insitu/base/bytes-text.js";
import { addDims, bindDim, type Dim, isKnown, multiplyDims, productOf, symbol, symbolsOf } from "#insitu/graph/dim.js";
import type { Node, Value } from "#insitu/graph/graph.js";
import { traitsOf } from "#insitu/tensor/element-type.js";
import type { Pair } from "#insitu/plan/pairs.js";
import type { Plan } from "#insitu/plan/plan.js";
import type { CacheEntry } from "./caches.js";
import type { Chains, ChainStep } from "./chains.js";

/** Sizes by symbol; `batch` and `capacity` are always understood, as in `createState`. */
export type Sizes = ReadonlyMap<string, number>;

/** An amount of memory: a number where it is known, and as text. */
interface Amount {
  readonly bytes: number | undefined;
  /** `4.0 MiB`, or `1.0 KiB × batch × capacity`. */
  readonly text: string;
}

/** The caches of a plan in bytes. */
export interface CacheBytes {
  /** All caches in their full capacity. */
  readonly state: Amount;
  /** For each token: what a runtime moves that makes every cache anew. */
  readonly copying: Amount;
  /** For each token: what this plan moves. */
  readonly moved: Amount;
  /** For each token and sample: the rows that are written; undefined where a declaration does not tell. */
  readonly written: Amount | undefined;
}

/** A past on its way to its present. */
interface CachePath extends Pick<Pair, "past" | "kind" | "axis"> {
  /** How often all of it is copied on the way. */
  readonly copies: number;
  /** True if a state can hold it. */
  readonly held: boolean;
}

/** The ways of a plan's pairs, and of those that a change of layout keeps from being pairs. */
export function cachePaths(plan: Plan, chains: Chains, caches: readonly CacheEntry[]): CachePath[] {
  const copied = new Set<Node>();
  for (const { node, inPlace } of plan.verdicts) if (!inPlace) copied.add(node);
  const counts = new Map<Value, number>();
  const copiesOf = (present: Value): number => {
    // Back to where another way has been counted already, and from there on forward.
    const steps: (ChainStep & { readonly made: Value })[] = [];
    for (const step of chains.trace(present)) {
      if (counts.has(step.made)) break;
      steps.push(step);
    }
    for (const { kind, node, source, made } of steps.reverse()) {
      const copies = kind === "update" ? copied.has(node) : kind !== "view";
      counts.set(made, (counts.get(source) ?? 0) + Number(copies));
    }
    return counts.get(present) ?? 0;
  };
  const paths = plan.pairs.map(({ past, present, kind, axis, writers }): CachePath => ({
    past,
    kind,
    axis,
    copies: writers.length === 0 ? Number(!plan.inPlace.has(present)) : copiesOf(present),
    held: true,
  }));
  for (const { relaid, past, present } of caches)
    if (relaid) paths.push({ past, kind: "update", axis: undefined, copies: copiesOf(present), held: false });
  return paths;
}

/** What they take and move together; undefined where there is none, or one has no declared rank. */
export function cacheBytes(paths: readonly CachePath[], sizes: Sizes = new Map()): CacheBytes | undefined {
  if (paths.length === 0 || paths.some(({ past }) => past.fact?.shape === undefined)) return undefined;
  const names = roleNames(paths);
  const total = (rows: (path: CachePath) => Rows, count: (path: CachePath) => number): Amount =>
    amount(
      paths.reduce<Dim>(
        (sum, path) => addDims(sum, multiplyDims(bitsOf(path, rows(path), names, sizes), count(path))),
        0,
      ),
    );
  // A cache that grows is made anew in the length it has so far; one of fixed capacity is copied whole.
  const anew = ({ kind }: CachePath): Rows => (kind === "update" ? "capacity" : "length");
  return {
    state: total(
      () => "capacity",
      ({ held }) => Number(held),
    ),
    copying: total(anew, () => 1),
    moved: total(anew, ({ copies }) => copies),
    written: paths.every(({ axis }) => axis !== undefined)
      ? total(
          () => "one",
          () => 1,
        )
      : undefined,
  };
}

/** Rows along the sequence: all that fit, those so far, or one. */
type Rows = "capacity" | "length" | "one";

interface RoleNames {
  /** What formulas call the samples, and the rows of caches of fixed capacity; undefined where the caches disagree. */
  readonly batch: string | undefined;
  readonly capacity: string | undefined;
}

/** `batch` and `capacity`, where all caches mean the same symbol by them: names that `createState` takes for every model. */
function roleNames(paths: readonly CachePath[]): RoleNames {
  const only = (names: (string | undefined)[], role: string): string | undefined =>
    new Set(names.filter((name) => name !== undefined)).size <= 1 ? role : undefined;
  const symbolAt = ({ past }: CachePath, axis: number): string | undefined => {
    const dim = past.fact?.shape?.[axis];
    return dim === undefined || isKnown(dim) ? undefined : String(dim);
  };
  const fixed = paths.filter(({ kind }) => kind === "update");
  return {
    batch: only(
      paths.map((path) => (path.axis === 0 ? undefined : symbolAt(path, 0))),
      "batch",
    ),
    capacity: only(
      fixed.map((path) => (path.axis === undefined ? undefined : symbolAt(path, path.axis))),
      "capacity",
    ),
  };
}

function bitsOf({ past, kind, axis }: CachePath, rows: Rows, names: RoleNames, sizes: Sizes): Dim {
  const { type, shape = [] } = past.fact!;
  const dims = shape.map((dim, at): Dim => {
    if (at === axis) {
      if (rows === "one") return 1;
      const capacity = sizes.get("capacity");
      if (kind !== "update") return capacity ?? sizes.get(String(dim)) ?? symbol(rows);
      if (isKnown(dim)) return dim;
      const bound = capacity ?? bindDim(dim, sizes);
      return isKnown(bound) || names.capacity === undefined ? bound : symbol(names.capacity);
    }
    const bound = bindDim(dim, sizes);
    if (isKnown(bound) || at !== 0) return bound;
    return sizes.get("batch") ?? (names.batch === undefined ? bound : symbol(names.batch));
  });
  return multiplyDims(productOf(dims), traitsOf(type).bits);
}

function amount(bits: Dim): Amount {
  if (isKnown(bits)) {
    const bytes = Math.ceil(bits / 8);
    return { bytes, text: bytesText(bytes) };
  }
  const terms = bits.terms.map(({ coefficient, atoms }) =>
    [bytesText(coefficient / 8), ...atoms.map(({ key }) => (/^[\w.]+$/.test(key) ? key : `(${key})`))].join(" × "),
  );
  return { bytes: undefined, text: terms.join(" + ") };
}

/** The symbols that sizes can be given for: those of the inputs, and the two that every cache understands. */
export function knownSymbols(plan: Plan): Set<string> {
  const names = new Set(plan.pairs.length > 0 ? ["batch", "capacity"] : []);
  for (const { fact } of plan.graph.inputs)
    for (const dim of fact?.shape ?? []) for (const name of symbolsOf(dim)) names.add(name);
  return names;
}
