/**
 * The rewritten form of a decoder whose presents are kept inside: whether there is one that is the same for what the original is fed, made
 * ready on the original's backend. The original's inputs and outputs are what callers see; who may run it is exact-feeds.ts's knowledge.
 */
import { type Dim, isKnown, sameDim } from "../graph/dim.js";
import { type Fact, factText } from "../graph/fact.js";
import type { Graph, Value } from "../graph/graph.js";
import type { Preparation } from "../passes/optimize.js";
import type { PairNames } from "../plan/named-pairs.js";
import type { InPlacePolicy } from "../plan/plan.js";
import type { ReplacedInput } from "#insitu/rewrite/replaced.js";
import type { Rewritten } from "#insitu/rewrite/rewrite.js";
import type { CountedDecoder } from "./counted-lengths.js";
import type { KeptCache } from "./handles.js";
import { AbsentElements } from "../tensor/deferred.js";
import { preparedGraphOf } from "./load.js";
import { Pairings } from "./pairing.js";
import type { Parts } from "./session.js";

/** A decoder that keeps its presents. */
export interface KeptModel {
  /** The rewritten form, on the same backend. */
  readonly parts: Parts;
  readonly caches: readonly KeptCache[];
  /** Inputs that both forms have alike. */
  readonly passed: readonly string[];
  /** Inputs that the original alone has. */
  readonly replaced: readonly ReplacedInput[];
  /** Inputs of the original that are left out of a run: its lengths. */
  readonly omitted: ReadonlySet<Value>;
  /** The positions of the rewritten form, whether the original is fed them too, and whether they may be others than those of rows. */
  readonly positions: { readonly value: Value; readonly isFed: boolean; readonly mayJump: boolean } | undefined;
  /** The input that says which rows are padding, [batch, capacity]; undefined where none may be. */
  readonly mask: Value | undefined;
  /** The form for texts with padding, made when it is asked for; undefined where there is none that is the same. */
  readonly padded: () => KeptModel | undefined;
  /** Outputs of first runs that others only read, with the inputs that they go to, as those of an encoder. */
  readonly still: ReadonlyMap<string, Value>;
  /** The input whose size says how many tokens are new. */
  readonly tokens: { readonly name: string; readonly axis: number };
}

/** What else a session was asked for. */
interface AskedBeside {
  readonly inPlace: InPlacePolicy;
  /** True if the model may have been rewritten already. */
  readonly isRewritten: boolean;
  readonly pairs: PairNames | undefined;
  readonly preparation: Preparation;
}

/** The rewritten form of a session's model, or why presents are copied; undefined for a model without any. The room that rewrites is loaded here. */
export async function keptModelOf(
  original: Parts,
  { inPlace, isRewritten, pairs, preparation }: AskedBeside,
): Promise<KeptModel | string | undefined> {
  if (!mayHavePasts(original.graph)) return undefined;
  const { counted } = original;
  if (counted !== undefined && inPlace === "prefer" && !isRewritten && pairs === undefined)
    return ownForm(original, counted);
  if (inPlace !== "prefer") return `the session was created with inPlace: "${inPlace}"`;
  if (isRewritten) return "the session was asked to rewrite the model, which is for states";
  if (pairs !== undefined) return "the session was created with pairs, which are for states";
  if (original.pairings.own.stateful.plan.pairs.some(({ keeps }) => keeps !== undefined))
    return "the model's caches keep their last rows only, and its presents have as many rows as its pasts";
  try {
    const { rewriteGrowing } = await import("#insitu/rewrite/rewrite.js");
    const rewritten = rewriteGrowing(original.model, { mayOnlyContinue: true });
    if (rewritten === undefined) return undefined;
    let padded: KeptModel | string | undefined;
    const prepare = (keepMask: boolean): KeptModel | string => {
      const form = keepMask ? rewriteGrowing(original.model, { keepMask, mayOnlyContinue: true })! : rewritten;
      return prepared(form, original, preparation, () => {
        // Whatever went wrong there, the plain path is right.
        try {
          padded ??= keepMask ? "it is that form itself" : prepare(true);
        } catch (error) {
          padded = String(error);
        }
        return typeof padded === "string" || padded.mask === undefined ? undefined : padded;
      });
    };
    return prepare(false);
  } catch (error) {
    if (error instanceof AbsentElements) throw error;
    // What runs without it must load, whatever went wrong here.
    return error instanceof Error ? error.message : String(error);
  }
}

/** A first look, for models that have nothing of the kind: an input and an output of one type and rank, whose rows are not all known. */
const mayHavePasts = ({ inputs, outputs }: Graph): boolean =>
  inputs.some(({ fact: past }) => {
    const rank = past?.shape?.length ?? 0;
    if (rank < 3 || past!.shape!.slice(1).every(isKnown)) return false;
    return outputs.some(({ fact }) => fact?.type === past!.type && (fact.shape?.length ?? rank) === rank);
  });

function prepared(
  { model, report }: Rewritten,
  original: Parts,
  preparation: Preparation,
  padded: () => KeptModel | undefined,
): KeptModel | string {
  const { caches, replaced, tokens, capacity, padding, follows } = report;
  if (typeof capacity === "number") return `its caches have ${capacity} rows from the start`;
  if (tokens === undefined) return "no input tells how many tokens a run adds";
  const unknown = replaced.find(({ means }) => means === undefined);
  if (unknown !== undefined) return `what input "${unknown.name}" must say for that is not known`;
  if (padding !== undefined && follows)
    return `its positions are counted by rows, whatever input "${padding.input}" says`;
  if (padding?.hidesOnly === false) return `input "${padding.input}" does more than to hide keys`;
  const { opened } = original;
  const ready = preparedGraphOf(model, preparation);
  const pairings = new Pairings(ready, "prefer", undefined, opened, []);
  const { plan } = pairings.own.stateful;
  const kept = new Map(caches.map((cache) => [cache.input, cache]));
  for (const { past, present, kind, axis } of plan.pairs) {
    const cache = kept.get(past.name);
    if (cache === undefined || cache.output !== present.name || cache.axis !== axis || kind !== "update")
      return `input "${past.name}" would be held too, and has no rows to go back to`;
  }
  if (plan.pairs.length !== caches.length) return "not every cache of its rewritten form can be held";
  const inputs = inputsOf(
    ready.graph,
    original.graph,
    new Set([...kept.keys(), ...addedNames, ...(padding === undefined ? [] : [padding.input])]),
  );
  if (typeof inputs === "string") return inputs;
  const positions = ready.graph.inputs.find(({ name }) => name === positionsName);
  if (positions?.fact?.shape?.length !== 2 || !["int64", "int32"].includes(positions.fact.type))
    return `its ${positionsName} are no whole numbers of [batch, sequence]`;
  const isFed = original.graph.inputs.some(({ name }) => name === positionsName);
  return {
    parts: innerParts(original, { model, graph: ready.graph, pairings }),
    caches,
    passed: inputs,
    omitted: new Set(),
    replaced,
    positions: { value: positions, isFed, mayJump: isFed && !follows },
    mask: ready.graph.inputs.find(({ name }) => name === padding?.input),
    padded,
    still: stillOf(ready.graph, original.graph, new Set(inputs), replaced),
    tokens,
  };
}

/** The parts of a form that runs inside, on the memory of the original. */
const innerParts = (original: Parts, form: Pick<Parts, "model" | "graph" | "pairings">): Parts => ({
  ...original,
  ...form,
  apart: undefined,
  presents: undefined,
  mayMove: true,
  get released() {
    return original.released;
  },
});

/** A decoder whose caches have a capacity already is its own rewritten form, for runs that leave lengths out. */
function ownForm(original: Parts, { caches, lengths: omitted, tokens, positions }: CountedDecoder): KeptModel {
  const cached = new Set(caches.map(({ input }) => input));
  const isPassed = (value: Value): boolean => !omitted.has(value) && !cached.has(value.name) && value !== positions;
  return {
    parts: innerParts(original, original),
    caches,
    passed: original.graph.inputs.filter(isPassed).map(({ name }) => name),
    omitted,
    replaced: [],
    positions: positions && { value: positions, isFed: true, mayJump: true },
    mask: undefined,
    padded: () => undefined,
    still: new Map(),
    tokens,
  };
}

/** What the branch makes that first runs take: rows for inputs of the other one, which are named alike. */
function stillOf(
  rewritten: Graph,
  original: Graph,
  passed: ReadonlySet<string>,
  replaced: readonly ReplacedInput[],
): ReadonlyMap<string, Value> {
  if (!replaced.some(({ always }) => always === true)) return new Map();
  const restOf = (name: string): string => name.slice(name.indexOf(".") + 1);
  const rows = rewritten.inputs.filter(({ name, fact }) => passed.has(name) && (fact?.shape?.length ?? 0) >= 3);
  return new Map(
    original.outputs.flatMap(({ name, fact }) => {
      const input = rows.find((each) => name.includes(".") && restOf(each.name) === restOf(name));
      return input !== undefined && input.fact!.type === fact?.type ? [[name, input] as const] : [];
    }),
  );
}

const positionsName = "position_ids";
const addedNames = ["write_indices", "nonpad_kv_seqlen", positionsName] as const;

/** The inputs that both have alike, or why one is not. */
function inputsOf(rewritten: Graph, original: Graph, others: ReadonlySet<string>): readonly string[] | string {
  const before = new Map(original.inputs.map((value) => [value.name, value]));
  const names: string[] = [];
  for (const { name, fact } of rewritten.inputs) {
    if (others.has(name)) continue;
    const own = before.get(name)?.fact;
    if (own === undefined || !isSameFact(own, fact!))
      return `input "${name}" is ${factText(fact!)} in its rewritten form`;
    names.push(name);
  }
  return names;
}

/** True if two declarations say the same; dimensions without a name are told apart by numbers of their own. */
function isSameFact(a: Fact, b: Fact): boolean {
  if (a.type !== b.type || a.shape?.length !== b.shape?.length) return false;
  const isNameless = (dim: Dim): boolean => String(dim).startsWith("?");
  return (a.shape ?? []).every((dim, axis) => {
    const other = b.shape![axis];
    return sameDim(dim, other) || (isNameless(dim) && isNameless(other));
  });
}
