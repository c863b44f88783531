/** Types and shapes of a graph's values in the words of the roles that its inputs' symbols are given. Decides nothing about roles. */
import { InsituError } from "#insitu/base/error.js";
import {
  addDims,
  bindDim,
  bindShape,
  type Dim,
  floorDivideDims,
  isFresh,
  isKnown,
  maxDim,
  minDim,
  moduloDims,
  multiplyDims,
  type Shape,
  subtractDims,
  symbol,
  SymbolicDim,
  symbolsOf,
} from "#insitu/graph/dim.js";
import type { Fact } from "#insitu/graph/fact.js";
import type { Graph, Value } from "#insitu/graph/graph.js";
import { type Facts, inferBody } from "#insitu/graph/infer.js";
import { spend } from "./effort.js";
import { Ranges } from "./ranges.js";
import { past, positiveSizes, type Roles, sequence } from "./role-words.js";

/** The facts of a graph whose inputs have these roles; undefined where a rule refuses them. */
export function inferWith(graph: Graph, roles: Roles): Facts | undefined {
  const inputs = graph.inputs.map((value) => inputFact(value, roles));
  const facts = inferFrom(graph, inputs);
  if (facts === undefined) return undefined;
  // Once more for lengths that could not be told: rows counted from an end, such as the last of as many as there are new tokens.
  const again = [...facts.values()].some(({ shape }) => shape?.some(isUntold) === true)
    ? inferFrom(
        graph,
        inputs.map((fact) => bindFact(fact, inOthers)),
      )
    : undefined;
  for (const [value, fact] of facts) {
    const other = again?.get(value);
    facts.set(value, withinTables(other === undefined ? fact : toldBy(fact, bindFact(other, inTokens))));
  }
  return facts;
}

function inferFrom(graph: Graph, inputs: readonly Fact[]): Facts | undefined {
  const facts: Facts = new Map();
  spend(2 * graph.nodes.length);
  try {
    inferBody(graph, inputs, facts);
  } catch (error) {
    if (error instanceof InsituError && error.code !== "internal") return undefined;
    throw error;
  }
  return facts;
}

/** New tokens but the first one: where shapes are inferred in this word, it shows that there is a first. */
const others = symbol("sequence - 1");
const inOthers: Roles = new Map([[String(sequence), addDims(others, 1)]]);
const inTokens: Roles = new Map([[String(others), addDims(sequence, -1)]]);

const bindFact = (fact: Fact, bindings: Roles): Fact => ({
  ...fact,
  shape: fact.shape && bindShape(fact.shape, bindings),
  ...(fact.integers === undefined ? {} : { integers: bindShape(fact.integers, bindings) }),
});

/** True for a dimension that depends on data, or on what inference does not see. */
const isUntold = (dim: Dim): boolean => [...symbolsOf(dim)].some(isFresh);

/** The fact, with the dimensions that only the other one tells. */
function toldBy(fact: Fact, other: Fact): Fact {
  const either = (dims: Shape | undefined, told: Shape | undefined): Shape | undefined =>
    dims?.length === told?.length ? dims?.map((dim, at) => (isUntold(dim) ? told![at] : dim)) : dims;
  const integers = fact.integers === undefined ? other.integers : either(fact.integers, other.integers);
  return { ...fact, shape: either(fact.shape, other.shape), ...(integers === undefined ? {} : { integers }) };
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
    case "max": {
      // A length that is cut off at 0, or rows of one cache beside as many and more; elsewhere a maximum is what does not fit together.
      const ranges = new Ranges(positiveSizes);
      const areRows = [left, right].every((side) => symbolsOf(side).has(String(past)));
      if ((right === 0 || areRows) && ranges.isNeverNegative(subtractDims(left, right))) return left;
      return areRows && ranges.isNeverNegative(subtractDims(right, left)) ? right : maxDim(left, right);
    }
    case "floor":
      return floorDivideDims(left, right);
    case "mod":
      return moduloDims(left, right);
    default:
      return operation.name satisfies never;
  }
}

/** An input's declared fact with the sizes that operators fix, in the words of the roles. */
function inputFact(value: Value, roles: Roles): Fact {
  const type = value.declared?.type ?? value.initializer?.type;
  if (type === undefined) throw new InsituError("invalid-graph", `input "${value.name}" has no element type`);
  const fixed = value.fact?.shape;
  const shape: Shape | undefined = value.declared?.shape?.map((dim, axis) =>
    fixed !== undefined && isKnown(fixed[axis]) ? fixed[axis] : bindDim(dim, roles),
  );
  return { type, shape };
}

/** How many dimensions are sums and products of the words no longer: signs of a role that does not fit. */
export function untidiness(facts: Facts): number {
  let count = 0;
  for (const { shape } of facts.values()) for (const dim of shape ?? []) if (isUntidy(dim)) count++;
  return count;
}

const isUntidy = (dim: Dim): boolean =>
  dim instanceof SymbolicDim && dim.terms.some(({ atoms }) => atoms.some(({ operation }) => operation !== undefined));
