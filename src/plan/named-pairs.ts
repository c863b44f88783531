/** Pairs as a caller names them: which output is an input's next content, whatever their names and structure suggest. Checked here. */
import { InsituError } from "../base/error.js";
import { factText } from "../graph/fact.js";
import type { Graph, Value } from "../graph/graph.js";
import { carriedPairs } from "./carried-pairs.js";
import { candidatePairs, choosePairs, mayBecome, type Pair } from "./pairs.js";

/** Pairs of caches: the name of the output (present) by the name of the input (past). */
export type PairNames = Readonly<Record<string, string>>;

const refuse = (message: string): never => {
  throw new InsituError("invalid-argument", `pairs: ${message}`);
};

const listOf = (values: readonly Value[]): string => values.map(({ name }) => name).join(", ") || "none";

/** Pairs as they were given, checked to be names, over those that hold otherwise. */
export function readPairNames(given: unknown, otherwise: PairNames = {}): PairNames {
  if (given === undefined) return otherwise;
  if (typeof given !== "object" || given === null || Array.isArray(given))
    return refuse(
      `must be an object of output names by input name, got ${given === null ? "null" : Array.isArray(given) ? "an array" : typeof given}`,
    );
  for (const [past, present] of Object.entries(given))
    if (typeof present !== "string") refuse(`"${past}" must name an output, got ${typeof present}`);
  return { ...otherwise, ...(given as PairNames) };
}

/** What decides which output an input becomes. */
export interface PairChoice {
  /** Presents by past, where the caller says. */
  readonly pairs?: PairNames | undefined;
  /** Presents by past in the graph before passes: they go before what passes reveal. */
  readonly asFiled?: ReadonlyMap<string, string>;
}

/** The pairs of a graph, and every pair that structure suggests. */
export function findPairs(
  graph: Graph,
  { pairs = {}, asFiled }: PairChoice,
): { readonly pairs: readonly Pair[]; readonly candidates: readonly Pair[] } {
  const candidates = candidatePairs(graph);
  const chosen = choosePairs(graph, candidates, namedPairs(graph, pairs, candidates), asFiled);
  return { pairs: [...chosen, ...carriedPairs(graph, chosen)], candidates };
}

/** The pairs that are named. `candidates` are those that structure suggests; an output that is none of them is copied into its past. */
function namedPairs(graph: Graph, names: PairNames, candidates: readonly Pair[]): Pair[] {
  const taken = new Map<Value, Value>();
  return Object.entries(names).map(([pastName, presentName]) => {
    const past =
      graph.inputs.find(({ name }) => name === pastName) ??
      refuse(`"${pastName}" is no input of the model; its inputs are ${listOf(graph.inputs)}`);
    const present =
      graph.outputs.find(({ name }) => name === presentName) ??
      refuse(
        `"${presentName}", named for "${pastName}", is no output of the model; its outputs are ${listOf(graph.outputs)}`,
      );
    if (past.initializer !== undefined)
      refuse(`"${pastName}" has a default, and an input with a default is fed or constant, never held`);
    const other = taken.get(present);
    if (other !== undefined)
      refuse(
        `"${other.name}" and "${pastName}" both name "${presentName}", and an output becomes the content of one input`,
      );
    taken.set(present, past);
    return candidates.find((pair) => pair.past === past && pair.present === present) ?? carried(past, present);
  });
}

/** A pair that nothing but its name makes: the present must have the past's type and shape. */
function carried(past: Value, present: Value): Pair {
  const pair: Pair = { past, present, kind: "update", writers: [], axis: undefined };
  if (!mayBecome(pair)) {
    const text = ({ fact }: Value): string => (fact === undefined ? "unknown" : factText(fact));
    refuse(
      `"${present.name}" is ${text(present)} and "${past.name}" is ${text(past)}: a present must have its past's type and shape`,
    );
  }
  return pair;
}
