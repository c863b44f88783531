// One random model, run for a few steps with a state on every backend and under every policy. What it must give is found without a state:
// functional runs of the reference on the graph as it stands, caches carried by hand from each present to its past; where it can, onnxruntime
// says whether those are right. Outputs and caches are compared after every run, and what was handed out once more at the end.
import { InsituError } from "../../src/base/error.js";
import type { State } from "../../src/session/state.js";
import { cloneView } from "../../src/tensor/copy.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { Chance } from "./chance.js";
import { copyOf, equal, same, type Tensors } from "./compare.js";
import type { Counts } from "./counts.js";
import { batch, type RandomInput } from "./draft.js";
import { neededNodes, textOf } from "./model-text.js";
import { elements, feedFor } from "./random-data.js";
import { type RandomModel, randomModel } from "./random-model.js";
import { Sessions, type SessionsOptions } from "./sessions.js";
import { buildTargets, chooseLive, chooseTargets, type TargetPlan, type Targets } from "./targets.js";

export interface TrialOptions extends SessionsOptions {
  /** Rows so long that threads share them. */
  readonly wide: boolean;
}

/** A conversation: its caches as they must be, and a state of each variant that holds them. */
interface Conversation {
  caches: Tensors;
  readonly states: State[];
  /** No other conversation has the same buffers. */
  alone: boolean;
}

/** Runs one trial; throws with everything that is needed to repeat it. */
export async function runTrial(seed: number, counts: Counts, options: TrialOptions): Promise<void> {
  const random = randomModel(seed, options.wide);
  const chance = new Chance(seed ^ 0x5eed);
  const sessions = new Sessions(random, chance, counts);
  const trial = new Trial(random, sessions, chance, counts);
  try {
    trial.log.push(`pairs ${JSON.stringify(await sessions.open(options))}`);
    await trial.go();
  } catch (error) {
    const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
    throw new Error(`seed ${seed}: ${what}\n${trial.log.join("\n")}\n${textOf(random)}`, { cause: error });
  } finally {
    trial.release();
    await sessions.close();
  }
}

class Trial {
  readonly log: string[] = [];
  readonly #random: RandomModel;
  readonly #sessions: Sessions;
  readonly #chance: Chance;
  readonly #counts: Counts;
  readonly #conversations: Conversation[] = [];
  /** Results that were handed out, and what was in them. */
  readonly #handedOut: { readonly what: string; readonly tensor: Tensor; readonly copy: Tensor }[] = [];

  constructor(random: RandomModel, sessions: Sessions, chance: Chance, counts: Counts) {
    this.#random = random;
    this.#sessions = sessions;
    this.#chance = chance;
    this.#counts = counts;
  }

  release(): void {
    for (const { states } of this.#conversations) for (const state of states) state.release();
  }

  /** Everything that happens in one trial. */
  async go(): Promise<void> {
    if (this.#sessions.pairs.size === 0) return this.#functionalOnly();
    this.#conversations.push(this.#begin());
    const turns = 3 + this.#chance.below(3);
    for (let turn = 0; turn < turns; turn++) {
      const conversation = this.#chance.oneOf(this.#conversations);
      await this.#run(conversation);
      if (this.#chance.of(0.35)) await this.#between(conversation);
    }
    for (const { what, tensor, copy } of this.#handedOut) equal(`${what}, handed out before`, tensor, copy);
    for (const conversation of this.#conversations) this.#compareCaches("in the end", conversation);
  }

  /** A model that no state can hold anything of. */
  async #functionalOnly(): Promise<void> {
    const caches = Object.fromEntries(this.#random.caches.map((cache) => [cache.name, this.#contents(cache, 1)]));
    const conversation = { caches, states: [], alone: true };
    for (let turn = 0; turn < 2; turn++) await this.#run(conversation);
  }

  /** Contents for a cache; one that grows has so many rows. */
  #contents({ type, dims, grows }: RandomInput, length: number): Tensor {
    return elements(
      type,
      dims.map((dim, axis) => (axis === grows ? length : Number(dim))),
      this.#chance,
    );
  }

  /** A conversation with random caches. Those that grow begin with a few rows, or with none. */
  #begin(): Conversation {
    const length = this.#chance.below(3);
    const held = this.#random.caches.filter(({ name }) => this.#sessions.pairs.has(name));
    const caches = Object.fromEntries(held.map((cache) => [cache.name, this.#contents(cache, length)]));
    const reserve = 1 + this.#chance.below(6);
    const states = this.#sessions.variants.map(({ session, label, naming }) => {
      const shapes = this.#sessions.shapes(label.includes("require") ? 64 : reserve);
      const state = session.createState({ shapes, ...naming });
      same(`${label}: what a state holds`, state.names.toSorted(), [...this.#sessions.pairs.keys()].sort());
      for (const [name, tensor] of Object.entries(caches)) state.set(name, copyOf(tensor));
      return state;
    });
    return { caches, states, alone: true };
  }

  /** What is done with a state between its runs. */
  async #between(conversation: Conversation): Promise<void> {
    const { states, caches } = conversation;
    const action = this.#chance.below(4);
    if (action === 0) {
      this.#counts.forks++;
      this.log.push("fork");
      conversation.alone = false;
      this.#conversations.push({ caches: { ...caches }, states: states.map((state) => state.fork()), alone: false });
    } else if (action === 1) this.#rewind(conversation);
    else if (action === 2) {
      if (this.#random.caches.some(({ type }) => type === "string")) return;
      this.#counts.restores++;
      this.log.push("save, begin anew, restore");
      const fresh = this.#begin();
      for (const [at, state] of states.entries()) await fresh.states[at].restore(await state.save());
      this.#conversations.push({ ...fresh, caches: { ...caches } });
    } else {
      this.log.push("set");
      const cache = this.#chance.oneOf(this.#random.caches.filter(({ name }) => this.#sessions.pairs.has(name)));
      const length = cache.grows === undefined ? 0 : caches[cache.name].dims[cache.grows];
      const tensor = this.#contents(cache, length);
      caches[cache.name] = tensor;
      for (const state of states) state.set(cache.name, copyOf(tensor));
    }
    this.#compareCaches("between runs", conversation);
  }

  #rewind(conversation: Conversation): void {
    const { states, caches } = conversation;
    const to = this.#chance.below(1 + Math.min(...states[0].lengths));
    const outcomes = states.map((state) => {
      try {
        state.rewind(to);
        return "rewound";
      } catch (error) {
        if (error instanceof InsituError) return error.message;
        throw error;
      }
    });
    this.log.push(`rewind to ${to}: ${outcomes[0]}`);
    for (const outcome of outcomes) same("rewind", outcome, outcomes[0]);
    if (outcomes[0] !== "rewound") return;
    this.#counts.rewinds++;
    for (const { name, grows } of this.#random.caches) {
      if (grows === undefined || caches[name] === undefined) continue;
      const length = Math.min(to, caches[name].dims[grows]);
      caches[name] = Tensor.fromView(cloneView(caches[name].toView().slice(grows, 0, length)));
    }
  }

  /** What is fed in one run, beside the caches of the conversation. */
  #feeds(conversation: Conversation): Tensors {
    const grown = this.#random.caches.find(({ name, grows }) => grows === 2 && conversation.caches[name] !== undefined);
    const length = grown === undefined ? 1 : conversation.caches[grown.name].dims[2];
    const rows = 1 + this.#chance.below(2);
    const feeds = Object.fromEntries(
      this.#random.feeds.map((input) => [input.name, feedFor(input, { rows, length }, this.#chance)]),
    );
    for (const cache of this.#random.caches)
      if (conversation.caches[cache.name] === undefined) feeds[cache.name] = this.#contents(cache, length);
    return feeds;
  }

  async #run(conversation: Conversation): Promise<void> {
    const feeds = this.#feeds(conversation);
    const omitted = this.#omit(conversation, feeds);
    // What two conversations share cannot be given to one of them to write.
    const caches = conversation.alone ? this.#fixedCaches(conversation) : {};
    const live = chooseLive(this.#chance, feeds, caches);
    for (const [name, cache] of live) feeds[name] = caches[cache];
    const all = { ...feeds, ...conversation.caches };
    const expected = await this.#sessions.meaning(all);
    if (conversation.states.length === 0 || this.#chance.of(0.25)) await this.#runFunctionally(all, expected);
    if (conversation.states.length === 0) return;
    const held = new Set(this.#sessions.pairs.values());
    const unheld = Object.keys(expected).filter((name) => !held.has(name));
    const plan = chooseTargets(this.#chance, expected, feeds, caches, live);
    this.log.push(`run, ${plan.text}${omitted.length === 0 ? "" : `, without ${omitted.join(", ")}`}`);
    for (const [at, { label, session }] of this.#sessions.variants.entries()) {
      const state = conversation.states[at];
      const targets = buildTargets(plan, expected, feeds, (name) => state.get(name));
      for (const name of omitted) delete targets.feeds[name];
      const results = await session.run(targets.feeds, targets.fetches, { state });
      this.#counts.runs++;
      this.#compareResults(`${label}: `, results, expected, plan.wanted ?? unheld, targets, plan);
      same(`${label}: lengths`, state.lengths, conversation.states[0].lengths);
    }
    this.#count(plan);
    const next = Object.fromEntries([...this.#sessions.pairs].map(([past, present]) => [past, expected[present]]));
    // A cache that a result was written into holds that result.
    for (const [output, choice] of plan.choices) if (choice.kind === "cache") next[choice.cache] = expected[output];
    conversation.caches = next;
    this.#compareCaches(`after the run`, conversation);
  }

  /** The same model without a state: caches are feeds, and may be targets too. */
  async #runFunctionally(all: Tensors, expected: Tensors): Promise<void> {
    const plan = chooseTargets(this.#chance, expected, all, {}, new Map());
    this.log.push(`functional run, ${plan.text}`);
    for (const { label, session } of this.#sessions.variants) {
      const targets = buildTargets(plan, expected, all, () => {
        throw new Error("there is no state");
      });
      const results = await session.run(targets.feeds, targets.fetches);
      this.#counts.functionalRuns++;
      const wanted = plan.wanted ?? Object.keys(expected);
      this.#compareResults(`${label}, functional: `, results, expected, wanted, targets, plan);
    }
    this.#count(plan);
  }

  #count(plan: TargetPlan): void {
    for (const { kind } of plan.choices.values()) {
      if (kind !== "none") this.#counts.targets++;
      if (kind === "feed" || kind === "overlap" || kind === "cache") this.#counts.overlapping++;
    }
  }

  /** Lengths that are left to the state; the oracle is fed what the state then says. */
  #omit({ states }: Conversation, feeds: Tensors): string[] {
    if (states.length === 0 || !this.#chance.of(0.3)) return [];
    const names = this.#random.feeds.filter(
      ({ name, role }) =>
        role === "circular" &&
        neededNodes(this.#random).some(({ opType, inputs }) => opType === "TensorScatter" && inputs[2] === name),
    );
    for (const { name } of names)
      feeds[name] = new Tensor("int64", BigInt64Array.from(states[0].lengths, BigInt), [batch]);
    return names.map(({ name }) => name);
  }

  #fixedCaches({ caches }: Conversation): Tensors {
    const fixed = this.#random.caches.filter(({ name, grows }) => grows === undefined && caches[name] !== undefined);
    return Object.fromEntries(fixed.map(({ name }) => [name, caches[name]]));
  }

  #compareResults(
    where: string,
    results: Tensors,
    expected: Tensors,
    wanted: readonly string[],
    targets: Targets,
    plan: TargetPlan,
  ): void {
    same(`${where}names of the results`, Object.keys(results).sort(), [...wanted].sort());
    for (const name of wanted) {
      const { approximate } = this.#random.outputs.find((output) => output.name === name)!;
      equal(`${where}${name}`, results[name], expected[name], approximate ? "about" : "bits");
      const target = targets.given[name];
      if (target instanceof Tensor) same(`${where}${name} is the tensor that was given`, results[name], target);
      if (plan.choices.get(name)?.kind !== "cache")
        this.#handedOut.push({ what: `${where}${name}`, tensor: results[name], copy: copyOf(results[name]) });
    }
    for (const [name, { tensor, before }] of targets.untouched) equal(`${where}feed ${name}`, tensor, before);
  }

  #compareCaches(where: string, { caches, states }: Conversation): void {
    for (const [at, { label }] of this.#sessions.variants.entries()) {
      for (const { name, grows } of this.#random.caches) {
        if (caches[name] === undefined) continue;
        const held = states[at].get(name);
        const valid =
          grows === undefined ? held : Tensor.fromView(held.toView().slice(grows, 0, caches[name].dims[grows]));
        equal(`${label}: cache ${name} ${where}`, valid, caches[name]);
      }
    }
  }
}
