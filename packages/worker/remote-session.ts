/** A session that a thread runs, and its states, as the page sees them. Tensors are copied on their way there and handed over on their way back. */
import { optionsOf } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { OptionNames } from "#insitu/base/option-names.js";
import { valueText } from "#insitu/base/value-text.js";
import type { StateOptions } from "#insitu/session/create-state.js";
import type { Feeds } from "#insitu/session/feeds.js";
import type { ModelSource } from "#insitu/session/load.js";
import type { SessionExplanation } from "#insitu/session/session.js";
import type { SessionOptions } from "#insitu/session/options.js";
import type { ValueMetadata } from "#insitu/session/metadata.js";
import type { Storage } from "#insitu/tensor/element-type.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { splitOptions, tensorData } from "./crossing.js";
import { Link, type StartThread } from "./link.js";
import type { CrossingTensor, SessionFacts, StateFacts } from "./messages.js";

const tensorOf = ({ type, data, dims }: CrossingTensor): Tensor => new Tensor(type, data as Storage, dims);

/** Options of one run. */
interface RemoteRunOptions {
  /** Past inputs come from this state, present outputs stay in it. */
  readonly state?: RemoteState;
}

const remoteRunOptionNames: OptionNames<RemoteRunOptions> = { state: true };

const isNames = (fetches: readonly string[] | RemoteRunOptions | undefined): fetches is readonly string[] =>
  Array.isArray(fetches);

/** A model in a thread of its own. */
export class RemoteSession {
  readonly #link: Link;
  readonly #facts: SessionFacts;

  protected constructor({ link, facts }: { readonly link: Link; readonly facts: SessionFacts }) {
    this.#link = link;
    this.#facts = facts;
  }

  /** Starts a thread and creates the session there; the thread ends where that fails. */
  protected static async prepare(
    start: StartThread,
    source: ModelSource,
    options: SessionOptions | undefined,
    base: string | undefined,
  ): Promise<{ readonly link: Link; readonly facts: SessionFacts }> {
    const split = splitOptions("the options of InferenceSession.create", options);
    const link = new Link(start);
    try {
      if (base !== undefined) link.send({ kind: "base", url: base });
      const given = { source: source instanceof URL ? String(source) : source, options: split.options };
      return { link, facts: await link.ask("createSession", given, { listeners: split.listeners }) };
    } catch (error) {
      link.end();
      throw error;
    }
  }

  get backend(): string {
    return this.#facts.backend;
  }

  get inputMetadata(): readonly ValueMetadata[] {
    return this.#facts.inputMetadata;
  }

  get outputMetadata(): readonly ValueMetadata[] {
    return this.#facts.outputMetadata;
  }

  get inputNames(): readonly string[] {
    return this.#facts.inputNames;
  }

  get outputNames(): readonly string[] {
    return this.outputMetadata.map(({ name }) => name);
  }

  /** Computes outputs from feeds: all of them, or those that are named. */
  async run(
    feeds: Feeds,
    fetches?: readonly string[] | RemoteRunOptions,
    options?: RemoteRunOptions,
  ): Promise<Record<string, Tensor>> {
    const [names, second] = isNames(fetches) ? [fetches, undefined] : [undefined, fetches];
    const { state } = optionsOf("'options' of a run", options ?? second, remoteRunOptionNames);
    if (typeof feeds !== "object" || feeds === null)
      throw new InsituError("invalid-feed", `feeds must be tensors by name, got ${valueText(feeds)}`);
    const transfer: ArrayBufferLike[] = [];
    const crossing = Object.fromEntries(
      Object.entries(feeds).map(([name, tensor]) => [name, tensorData(tensor, false, transfer)]),
    );
    const answer = await this.#link.ask("run", { feeds: crossing, fetches: names, state: state?.number }, { transfer });
    if (answer.state !== undefined) state?.note(answer.state);
    return Object.fromEntries(Object.entries(answer.results).map(([name, tensor]) => [name, tensorOf(tensor)]));
  }

  /** Makes a state: caches that stay in the thread between runs. */
  async createState(options?: StateOptions): Promise<RemoteState> {
    const state = this.#link.next();
    return new RemoteState(this.#link, state, await this.#link.ask("createState", { state, options }));
  }

  /** The plan, as text. */
  explain(): Promise<string>;
  explain(options: { readonly json: true }): Promise<SessionExplanation>;
  async explain(options?: { readonly json?: boolean }): Promise<string | SessionExplanation> {
    const { json } = optionsOf("the options of explain", options, { json: true });
    return this.#link.ask("explain", { json: json === true });
  }

  /** Lets go of the model and ends its thread. */
  release(): Promise<void> {
    return this.#link.release();
  }
}

/** Caches in a thread. */
export class RemoteState {
  readonly #link: Link;
  /** What the thread knows it by. */
  readonly number: number;
  #facts: StateFacts;

  constructor(link: Link, number: number, facts: StateFacts) {
    this.#link = link;
    this.number = number;
    this.#facts = facts;
  }

  /** Takes over what the thread tells of it. */
  note(facts: StateFacts): void {
    this.#facts = facts;
  }

  get names(): readonly string[] {
    return this.#facts.names;
  }

  /** Rows of each sample, as of the latest answer. */
  get lengths(): readonly number[] {
    return this.#facts.lengths;
  }

  /** A copy of a cache, as long as its capacity. */
  async get(name: string): Promise<Tensor> {
    return tensorOf(await this.#link.ask("readState", { state: this.number, name }));
  }

  async rewind(length: number | readonly number[]): Promise<void> {
    this.note(await this.#link.ask("rewindState", { state: this.number, length }));
  }

  async fork(): Promise<RemoteState> {
    const fork = this.#link.next();
    return new RemoteState(this.#link, fork, await this.#link.ask("forkState", { state: this.number, fork }));
  }

  save(): Promise<Uint8Array> {
    return this.#link.ask("saveState", { state: this.number });
  }

  async restore(bytes: Uint8Array): Promise<void> {
    this.note(await this.#link.ask("restoreState", { state: this.number, bytes }));
  }

  release(): Promise<void> {
    return this.#link.ask("releaseState", { state: this.number });
  }
}
