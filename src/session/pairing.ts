/**
 * Runs with a state, for one choice of pairs: the plan made ready, and what such runs ask again and again. A session has one from the start;
 * another is made when a state is created that names other pairs, and kept.
 */
import type { BackendSession, Executable } from "../backends/backend.js";
import { findPairs, type PairNames, readPairNames } from "../plan/named-pairs.js";
import { type InPlacePolicy, makePlan } from "../plan/plan.js";
import type { View } from "../tensor/view.js";
import { findLengthInputs, type LengthInputs } from "./lengths.js";
import type { PreparedGraph } from "./load.js";
import { Standing } from "./standing.js";

/** What runs with a state need. */
export interface Pairing {
  readonly stateful: Executable;
  readonly lengthInputs: LengthInputs;
  readonly standing: Standing;
}

/** The choices of pairs that a session has met. */
export class Pairings {
  readonly #prepared: Pick<PreparedGraph, "graph" | "asFiled">;
  readonly #policy: InPlacePolicy;
  readonly #names: PairNames;
  readonly #opened: BackendSession;
  readonly #weights: readonly View[];
  readonly #made = new Map<string, Pairing>();
  /** What states hold that name no pairs of their own. */
  readonly own: Pairing;

  /** `names` are the pairs that the session was created with. Throws where they do not fit, or where the policy forbids what they ask for. */
  constructor(
    prepared: Pick<PreparedGraph, "graph" | "asFiled">,
    policy: InPlacePolicy,
    names: PairNames | undefined,
    opened: BackendSession,
    weights: readonly View[],
  ) {
    this.#prepared = prepared;
    this.#policy = policy;
    this.#names = readPairNames(names);
    this.#opened = opened;
    this.#weights = weights;
    this.own = this.#for(this.#names);
  }

  /** The pairing with these pairs in the place of the session's own. */
  with(names: PairNames | undefined): Pairing {
    if (names === undefined) return this.own;
    return this.#for(readPairNames(names, this.#names));
  }

  /** Every executable so far. */
  get executables(): readonly Executable[] {
    return [...this.#made.values()].map(({ stateful }) => stateful);
  }

  #for(names: PairNames): Pairing {
    const { graph, asFiled } = this.#prepared;
    const choice = { pairs: names, asFiled };
    const key = JSON.stringify(findPairs(graph, choice).pairs.map(({ past, present }) => [past.name, present.name]));
    const known = this.#made.get(key);
    if (known !== undefined) return known;
    const plan = makePlan(graph, { policy: this.#policy, ...choice });
    const stateful = this.#opened.prepare(plan);
    const lengthInputs = findLengthInputs(graph, plan.uses);
    const pairing: Pairing = {
      stateful,
      lengthInputs,
      standing: new Standing(graph, plan, lengthInputs, this.#weights),
    };
    this.#made.set(key, pairing);
    return pairing;
  }
}
