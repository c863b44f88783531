/** `createState`: finds the shape of every held input from what the caller names, and makes its buffer. */
import type { Places } from "../backends/backend.js";
import { objectOf } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import { bindDim, type Dim, isKnown, symbolsOf } from "../graph/dim.js";
import { factText } from "../graph/fact.js";
import type { PairNames } from "../plan/named-pairs.js";
import type { Pair } from "../plan/pairs.js";
import type { Plan } from "../plan/plan.js";
import { byteLengthOf } from "../tensor/element-type.js";
import { elementCount } from "../tensor/view.js";
import { type CacheShape, cacheShape, Holding } from "./holding.js";
import { sizeText } from "./memory-limit.js";

/** Options of `session.createState`: the sizes of the caches. */
export interface StateOptions {
  /**
   * Sizes by the model's own symbols, such as `{ batch: 1, capacity: 2048 }`. A list is the full shape of the input of that name.
   * @default `{ batch: 1 }`; the capacity where the model fixes it
   */
  readonly dims?: Readonly<Record<string, number | readonly number[]>> | undefined;
  /**
   * Full shapes by input name.
   * @default {}
   */
  readonly shapes?: Readonly<Record<string, readonly number[]>> | undefined;
  /**
   * Which output becomes which input's next content, by input name: needed where several could, or where names say nothing.
   * @default those of the session
   */
  readonly pairs?: PairNames | undefined;
}

/** Their names. */
export const stateOptionNames: OptionNames<StateOptions> = { dims: true, shapes: true, pairs: true };

/** The holdings of a new state, and its number of samples. `check` hears how many bytes they take before any is taken. */
export function makeHoldings(
  plan: Plan,
  options: StateOptions,
  places: Places,
  check: (bytes: number) => void,
): { readonly holdings: readonly Holding[]; readonly batch: number } {
  const { pairs } = plan;
  if (pairs.length === 0)
    throw new InsituError(
      "invalid-state",
      "the model has no past → present pair, so there is nothing for a state to hold; pairs: { input: output } names one",
    );
  const shapes = new Map<string, readonly number[]>();
  const sizes = new Map<string, number>();
  for (const [name, given] of Object.entries(objectOf("option shapes", options.shapes)))
    shapes.set(name, sizesOf(`shapes.${name}`, given));
  for (const [name, given] of Object.entries(objectOf("option dims", options.dims))) {
    if (Array.isArray(given)) shapes.set(name, sizesOf(`dims.${name}`, given));
    else if (isSize(given)) sizes.set(name, given);
    else throw new InsituError("invalid-argument", `dims.${name} must be a whole number, got ${valueText(given)}`);
  }
  checkNames(pairs, shapes, sizes);
  const caches = pairs.map((pair) => {
    const shape = shapes.get(pair.past.name);
    return shape === undefined ? fromSizes(pair, sizes) : fromShape(pair, shape, sizes);
  });
  const bytes = caches.reduce((sum, { type, shape }) => sum + byteLengthOf(type, elementCount(shape)), 0);
  check(bytes);
  return { holdings: makeAll(caches, places, bytes), batch: caches[0].shape[0] ?? 1 };
}

const isSize = (given: unknown): given is number => Number.isSafeInteger(given) && (given as number) >= 0;

function sizesOf(what: string, given: unknown): readonly number[] {
  const sizes: unknown[] = Array.isArray(given) ? [...given] : [undefined];
  if (sizes.every(isSize)) return sizes;
  throw new InsituError("invalid-argument", `${what} must be a list of whole numbers, got ${valueText(given)}`);
}

/** Makes all caches or none. */
function makeAll(caches: readonly CacheShape[], places: Places, bytes: number): Holding[] {
  try {
    return Holding.createAll(caches, places);
  } catch (error) {
    if (!(error instanceof InsituError) || error.code !== "out-of-memory") throw error;
    throw new InsituError(
      error.code,
      `the caches of this state take ${sizeText(bytes)}, and there is no memory for all of them: ${error.message}; create the state with a smaller capacity or batch`,
      { cause: error },
    );
  }
}

function checkNames(
  pairs: readonly Pair[],
  shapes: ReadonlyMap<string, readonly number[]>,
  sizes: ReadonlyMap<string, number>,
): void {
  const inputs = pairs.map((pair) => pair.past.name);
  for (const name of shapes.keys()) {
    if (!inputs.includes(name))
      throw new InsituError(
        "invalid-argument",
        `"${name}" is no input that a state holds; those are ${inputs.join(", ")}`,
      );
  }
  const symbols = new Set([
    "batch",
    "capacity",
    ...pairs.flatMap((pair) => (pair.past.fact?.shape ?? []).flatMap((dim) => [...symbolsOf(dim)])),
  ]);
  const fixed = fixedSizes(pairs);
  for (const [name, size] of sizes) {
    const known = fixed.get(name);
    if (known !== undefined && !known.has(size))
      throw new InsituError(
        "invalid-argument",
        `dims.${name} is ${[...known].join(" or ")}, as the model's operators have it, got ${size}`,
      );
    if (!symbols.has(name) && known === undefined)
      throw new InsituError(
        "invalid-argument",
        `dims.${name} names no dimension of a cache; known are ${[...symbols].join(", ")}`,
      );
  }
}

/** Sizes of caches that the file names and operators fix, by name. */
function fixedSizes(pairs: readonly Pair[]): ReadonlyMap<string, ReadonlySet<number>> {
  const sizes = new Map<string, Set<number>>();
  for (const { past } of pairs)
    past.declared?.shape?.forEach((dim, axis) => {
      const known = past.fact?.shape?.[axis];
      if (isKnown(dim) || known === undefined || !isKnown(known)) return;
      const name = String(dim);
      sizes.set(name, (sizes.get(name) ?? new Set()).add(known));
    });
  return sizes;
}

/** A shape given in full: for a growing cache its sequence is the reserve. */
function fromShape(pair: Pair, shape: readonly number[], sizes: ReadonlyMap<string, number>): CacheShape {
  const fact = pair.past.fact!;
  const fits =
    fact.shape === undefined ||
    (shape.length === fact.shape.length &&
      shape.every((size, axis) => !isKnown(fact.shape![axis]) || fact.shape![axis] === size));
  if (!fits) {
    throw new InsituError(
      "invalid-argument",
      `cache "${pair.past.name}" is ${factText(fact)}, which [${shape.join(",")}] does not fit`,
    );
  }
  const reserve =
    pair.axis === undefined ? undefined : Math.max(shape[pair.axis], sizes.get("capacity") ?? 0) || undefined;
  return cacheShape(pair, fact.type, shape, reserve);
}

/** Rows beyond those that must be kept: the oldest are dropped once for so many tokens. */
const slack = 64;

/** The rows of a cache that keeps the last ones, no more than a text may have. */
const rowsToKeep = (rows: number, capacity: number = Infinity): number =>
  Math.max(rows, Math.min(rows + slack, capacity));

function fromSizes(pair: Pair, sizes: ReadonlyMap<string, number>): CacheShape {
  const fact = pair.past.fact!;
  if (fact.shape === undefined)
    throw new InsituError(
      "invalid-argument",
      `cache "${pair.past.name}" has no declared rank: give its full shape in shapes`,
    );
  const growing = pair.kind !== "update";
  const bindings = new Map<string, Dim>(sizes);
  const shape = fact.shape.map((dim, axis) => {
    if (isKnown(dim)) return dim;
    if (growing && axis === pair.axis) return 0;
    if (axis === pair.axis && sizes.has("capacity")) return sizes.get("capacity")!;
    const bound = bindDim(dim, bindings);
    if (isKnown(bound)) return bound;
    if (axis === pair.keeps?.axis) return rowsToKeep(pair.keeps.rows, sizes.get("capacity"));
    if (axis === 0 && pair.axis !== 0) return sizes.get("batch") ?? 1;
    const hint =
      axis === pair.axis ? `dims: { capacity: N } or dims: { "${String(dim)}": N }` : `dims: { "${String(dim)}": N }`;
    throw new InsituError(
      "invalid-argument",
      `cache "${pair.past.name}" is ${factText(fact)}: the size of "${String(dim)}" is not known; give ${hint}`,
    );
  });
  return cacheShape(pair, fact.type, shape, sizes.get("capacity"));
}
