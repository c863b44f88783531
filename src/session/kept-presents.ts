/**
 * Runs of a decoder whose presents stay inside (cache aliasing): where a present is fed back unchanged, the next run continues in place on the rewritten
 * form of the model. Feeds for which that form would give another result are declined, and take the plain path. handles.ts knows which rows living
 * tensors show.
 */
import { InsituError } from "../base/error.js";
import type { Executable } from "../backends/backend.js";
import type { Value } from "../graph/graph.js";
import type { Placed } from "../tensor/placed.js";
import type { Tensor } from "../tensor/tensor.js";
import { View } from "../tensor/view.js";
import { makeHoldings } from "./create-state.js";
import type { AddedTokens } from "./exact-feeds.js";
import { type Feeds, readFeeds } from "./feeds.js";
import { asItIs, KeptState, fedHandle, type KeptCache } from "./handles.js";
import type { KeptModel } from "./kept-model.js";
import { formFor, innerFeeds, type Source } from "./kept-source.js";
import type { PresentsStatistics } from "./presents-explanation.js";
import type { Parts } from "./session.js";
import { placeInSlot } from "./slots.js";
import { State } from "./state.js";
import { keptStill, type StillMemory, stillPlace } from "./still-rows.js";
import { runWithState } from "./stateful-run.js";

type Wanted = ReadonlyMap<Value, Tensor | null>;
type Results = Record<string, Tensor>;

/** Idle texts whose caches are kept, at most: nobody tells when a tensor is no longer needed, and collectors know nothing of this memory. */
const mostIdle = 16;
/** The same in bytes; the last two are kept whatever they take. */
const mostIdleBytes = 2 ** 28;

const noPlaces: ReadonlyMap<Value, Placed> = new Map();

/** Rows that a conversation begins with room for. */
const firstCapacity = 256;

/** Which outputs a run is asked for. */
interface Asked {
  readonly names: readonly string[];
  readonly shown: readonly KeptCache[];
  /** Outputs of the rewritten form, presents left out. */
  readonly inner: Wanted;
}

/** The presents of one session. */
export class KeptPresents {
  readonly #kept: KeptModel;
  /** Those that ran. */
  readonly #forms = new Set<KeptModel>();
  readonly #presents: ReadonlyMap<string, KeptCache>;
  /** The names of the pasts. */
  readonly #inputs: ReadonlySet<string>;
  #pasts: ReadonlySet<Value> | undefined;
  readonly #asked = new WeakMap<Wanted, Asked>();
  /** Ends when every run that was asked for so far is over. */
  #last: Promise<unknown> | undefined;
  readonly statistics: PresentsStatistics = {
    continued: 0,
    started: 0,
    forked: 0,
    imported: 0,
    copied: 0,
    spilled: 0,
    movedBytes: 0,
    heldBytes: 0,
  };

  /** Texts whose caches are kept, the last that ran at the end. */
  readonly #living = new Set<KeptState<KeptModel>>();
  /** The memory of rows that runs only read, by the run that made them. */
  readonly #still: StillMemory[][] = [];
  readonly #stillPlace = (tensor: unknown): Placed | undefined => stillPlace(tensor, this);

  constructor(kept: KeptModel) {
    this.#kept = kept;
    this.#forms.add(kept);
    this.#presents = new Map(kept.caches.map((cache) => [cache.output, cache]));
    this.#inputs = new Set(kept.caches.map(({ input }) => input));
  }

  /** These, to be told of: once they were asked for, where lengths had to be left out for it. */
  get told(): this | undefined {
    const { continued, started, forked, imported, copied } = this.statistics;
    return this.#kept.omitted.size > 0 && continued + started + forked + imported + copied === 0 ? undefined : this;
  }

  /** The inputs that the last run in place brought to the backend's memory. */
  get brought(): readonly string[] {
    const transfers = this.#kept.parts.pairings.own.stateful.describeTransfers();
    return transfers.flatMap(({ value, to }) => (to === "backend" ? [value.name] : []));
  }

  /** What runs of the rewritten forms, for whoever counts memory. */
  get executables(): readonly Executable[] {
    return [...this.#forms].flatMap(({ parts }) => parts.pairings.executables);
  }

  /**
   * Runs the model in its rewritten form where that is the same for these feeds and there is memory for its caches, and with `plainly` where
   * not. Rejects as that does for feeds that do not fit.
   */
  async run(
    original: Parts,
    feeds: Feeds,
    wanted: Wanted,
    plainly: (feeds: Feeds) => Promise<Results>,
  ): Promise<Results> {
    const source = this.#sourceOf(original, feeds, wanted);
    const copy = async (own: Feeds): Promise<Results> => {
      this.statistics.copied++;
      return this.#withStill(await plainly(own), wanted, original);
    };
    if (source === undefined) return copy(feeds);
    // Up to here, and on from here where nobody is waited for, what is fed is read before the caller can change it.
    const begin = (now: Source | undefined, own: Feeds): Promise<Results> => {
      const conversation = now && this.#conversationFor(now);
      return conversation === undefined ? copy(own) : this.#runOn(conversation, original, now!, own, wanted);
    };
    if (this.#last === undefined) return this.#after(begin(source, feeds));
    const own = Object.fromEntries(Object.entries(feeds).map(([name, tensor]) => [name, asItIs(tensor)]));
    return this.#after(this.#last.then(() => begin(this.#sourceOf(original, own, wanted), own)));
  }

  /** Results of a plain run, with rows that later runs only read kept inside. */
  #withStill(results: Results, wanted: Wanted, original: Parts): Results {
    const { still, parts } = this.#kept;
    if (still.size === 0) return results;
    const { statistics } = this;
    const memories: StillMemory[] = [];
    for (const [{ name }, target] of wanted) {
      const input = still.get(name);
      // What the caller gave is the caller's; the branch with caches makes nothing of them.
      if (input === undefined || target !== null || results[name].size === 0) continue;
      const bytes = results[name].toView().byteLength;
      try {
        parts.limit.checkState(bytes + statistics.heldBytes);
        const freed = (): void => void (statistics.heldBytes -= bytes);
        const kept = keptStill(results[name], input, this, original, parts.pairings.own.stateful, freed);
        results[name] = kept.tensor;
        memories.push(kept.memory);
      } catch (error) {
        if (!(error instanceof InsituError) || error.code !== "out-of-memory") throw error;
        break;
      }
      statistics.heldBytes += bytes;
    }
    if (memories.length === 0 || parts.pairings.own.stateful.location !== "cpu") return results;
    this.#still.push(memories);
    while (this.#still.length > 2 && (this.#still.length > mostIdle || statistics.heldBytes >= mostIdleBytes))
      for (const memory of this.#still.shift()!) memory.spill();
    return results;
  }

  /** Lets later runs wait for this one. */
  #after(run: Promise<Results>): Promise<Results> {
    const last = run
      .catch(() => undefined)
      .then(() => {
        if (this.#last === last) this.#last = undefined;
      });
    this.#last = last;
    return run;
  }

  /** Where the pasts are, if everything else that is fed says what the rewritten form takes for granted. */
  #sourceOf(original: Parts, feeds: Feeds, wanted: Wanted): Source | undefined {
    const { caches, passed, tokens } = this.#kept;
    for (const [value, target] of wanted) if (target !== null && this.#presents.has(value.name)) return undefined;
    const { inputs: known } = original.pairings.own.standing;
    if (
      typeof feeds === "object" &&
      feeds !== null &&
      passed.some((name) => fedHandle(feeds[name], this) !== undefined)
    )
      return undefined;
    const fed: Readonly<Record<string, unknown>> = Object(feeds) as Feeds;
    const handles = caches.map(({ input }) => fedHandle(fed[input], this));
    const [first] = handles;
    const isOne =
      first !== undefined &&
      handles.every((handle, index) => handle?.cache === caches[index] && handle.shown === first.shown);
    const differing = new Set<string>();
    const placeOf = (tensor: unknown): Placed | undefined =>
      fedHandle(tensor, this)?.place ?? stillPlace(tensor, this) ?? placeInSlot(tensor, original);
    // Presents of one run fit each other: there is nothing to check in them.
    const others = isOne ? this.#withoutPasts(feeds) : feeds;
    const omitted = isOne ? this.#pastsOf(known) : this.#kept.omitted;
    const places = readFeeds(original.graph, known, others, noPlaces, omitted, placeOf, differing);
    // The rewritten form takes for granted that a symbol is one size.
    if (differing.size > 0) return undefined;
    const at = (name: string): Placed => places.get(known.get(name)!)!;
    const counted = at(tokens.name);
    const pasts = isOne ? undefined : caches.map(({ input }) => at(input));
    const shape = isOne ? first.shape : pasts![0].shape;
    const [batch, past] = [shape[0], shape[caches[0].axis]];
    const added = { batch, past, tokens: counted.shape[tokens.axis] };
    const fits =
      batch > 0 &&
      added.tokens > 0 &&
      (tokens.axis === 0 || counted.shape[0] === batch) &&
      (pasts ?? []).every((place, index) => place.shape[0] === batch && place.shape[caches[index].axis] === past);
    if (!fits) return undefined;
    // Elsewhere than on the host nothing but handles can be copied from.
    if (pasts?.some((place, index) => !(place instanceof View) && handles[index] === undefined) === true)
      return undefined;
    const shown = isOne ? (first.shown.conversation as KeptState<KeptModel>) : undefined;
    // Rows that were brought to the host are taken in again.
    const conversation = shown?.isSpilled === true ? undefined : shown;
    const chosen = formFor(this.#kept, conversation?.form ?? this.#kept, at, added);
    return chosen && { ...chosen, conversation, places: () => pasts ?? handles.map((handle) => handle!.place), added };
  }

  /** The inputs that pasts are fed to, and those that nothing is. */
  #pastsOf(known: ReadonlyMap<string, Value>): ReadonlySet<Value> {
    const { caches, omitted } = this.#kept;
    return (this.#pasts ??= new Set([...omitted, ...caches.map(({ input }) => known.get(input)!)]));
  }

  #withoutPasts(feeds: Feeds): Feeds {
    const others: Record<string, Feeds[string]> = {};
    for (const name of Object.keys(feeds)) if (!this.#inputs.has(name)) others[name] = feeds[name];
    return others;
  }

  async #runOn(
    conversation: KeptState<KeptModel>,
    original: Parts,
    source: Source,
    feeds: Feeds,
    wanted: Wanted,
  ): Promise<Results> {
    const { form, added } = source;
    const { past, tokens } = added;
    const { state } = conversation;
    const { inner, shown, names } = this.#askedOf(form, original, wanted);
    conversation.hold();
    try {
      const results = await runWithState(
        form.parts,
        innerFeeds(feeds, source, this.#capacityOf(state)),
        inner,
        state,
        this.#stillPlace,
      );
      if (shown.length === 0) state.rewind(past);
      const handles = shown.length === 0 ? [] : conversation.show(past + tokens, shown);
      let next = 0;
      // Properties of the object's own, whatever an output is called.
      return Object.fromEntries(
        names.map((name) => [name, this.#presents.has(name) ? handles[next++] : results[name]]),
      );
    } finally {
      conversation.unhold();
    }
  }

  /** What is asked of the rewritten form, and which presents are to be shown. */
  #askedOf(form: KeptModel, original: Parts, wanted: Wanted): Asked {
    let asked = form === this.#kept ? this.#asked.get(wanted) : undefined;
    if (asked !== undefined) return asked;
    const outputs = new Map(form.parts.graph.outputs.map((value) => [value.name, value]));
    const names = [...wanted.keys()].map(({ name }) => name);
    const others = [...wanted].filter(([{ name }]) => !this.#presents.has(name));
    asked = {
      names,
      shown: names.flatMap((name) => this.#presents.get(name) ?? []),
      inner: new Map(others.map(([{ name }, target]) => [outputs.get(name)!, target])),
    };
    // What is asked by default is the same map each time.
    if (form === this.#kept && wanted === original.pairings.own.standing.outputs) this.#asked.set(wanted, asked);
    return asked;
  }

  /** A conversation that holds the source's rows, and no other, with room for more; undefined where there is no memory for one. */
  #conversationFor(source: Source): KeptState<KeptModel> | undefined {
    const { statistics } = this;
    const { past, tokens } = source.added;
    const { conversation, form } = source;
    if (conversation !== undefined && conversation.form === form && !conversation.shows(past)) {
      const { state } = conversation;
      if (state.lengths.some((length) => length !== past)) state.rewind(past);
      if (past + tokens > this.#capacityOf(state)) {
        const larger = this.#stateWith(source);
        if (larger === undefined) return undefined;
        conversation.state = larger;
        statistics.heldBytes -= state.byteLength;
        state.release();
      }
      statistics.continued++;
      this.#living.delete(conversation);
      this.#living.add(conversation);
      return conversation;
    }
    const state = this.#stateWith(source);
    if (state === undefined) return undefined;
    this.#forms.add(form);
    if (past === 0) statistics.started++;
    else if (conversation === undefined) statistics.imported++;
    else statistics.forked++;
    const { parts, caches } = this.#kept;
    const begun = new KeptState(this, form, state, caches, () => {
      statistics.heldBytes -= begun.state.byteLength;
      this.#living.delete(begun);
      parts.handedOut.delete(begun);
    });
    this.#living.add(begun);
    parts.handedOut.add(begun);
    // Not before its rows were copied: they may be those of the oldest.
    this.#spillOldest();
    return begun;
  }

  /** Makes room for one more text: on the host, where programs dispose of nothing, those that ran longest ago give their caches back. */
  #spillOldest(): void {
    const { parts } = this.#kept;
    if (parts.pairings.own.stateful.location !== "cpu") return;
    for (const oldest of this.#living) {
      const count = this.#living.size;
      if (count <= 2 || (count <= mostIdle && this.statistics.heldBytes < mostIdleBytes)) return;
      if (oldest.spill()) this.statistics.spilled++;
    }
  }

  #capacityOf(state: State): number {
    const [{ input }] = this.#kept.caches;
    return state.cache(input).capacity ?? 0;
  }

  /** A state with the source's rows in it: of doubled sizes, so that few are met; of what is needed where there is no room for that. */
  #stateWith({ form, places, added }: Source): State | undefined {
    const need = added.past + added.tokens;
    let capacity = firstCapacity;
    // Room for a few more than are needed, or the next token would move all of them.
    while (capacity < need + firstCapacity / 8) capacity *= 2;
    for (const rows of [capacity, need])
      try {
        return this.#makeState(form, places(), added, rows);
      } catch (error) {
        if (!(error instanceof InsituError) || error.code !== "out-of-memory") throw error;
      }
    return undefined;
  }

  #makeState(
    { parts, caches }: KeptModel,
    places: readonly Placed[],
    { batch, past }: AddedTokens,
    capacity: number,
  ): State {
    const { pairings, limit } = parts;
    const { stateful } = pairings.own;
    const shapes = Object.fromEntries(
      caches.map(({ input, axis }, index) => [input, places[index].shape.with(axis, capacity)]),
    );
    const { holdings } = makeHoldings(stateful.plan, { shapes }, stateful, (bytes) =>
      limit.checkState(bytes + this.statistics.heldBytes),
    );
    const state = new State(parts, pairings.own, holdings, new Array<number>(batch).fill(past));
    this.statistics.heldBytes += state.byteLength;
    if (past === 0) return state;
    for (const [index, { input, axis }] of caches.entries()) {
      const from = places[index];
      state.cache(input).move((buffer) => [{ from, to: buffer.slice(axis, 0, past) }]);
      this.statistics.movedBytes += from.byteLength;
    }
    return state;
  }
}
