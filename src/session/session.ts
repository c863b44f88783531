/** The object users hold: load → plan → run, in onnxruntime-common's shape, with or without a state. */
import { checkList, optionsOf } from "../base/arguments.js";
import { Unavailable } from "../backends/unavailable.js";
import { InsituError } from "../base/error.js";
import type { Platform } from "../base/platform.js";
import type { BackendChoice, BackendSession, BusyRows, Executable } from "../backends/backend.js";
import type { Graph, Value } from "../graph/graph.js";
import type { ArrivingWeights } from "../onnx/arriving-weights.js";
import type { Model } from "../onnx/model.js";
import type { RemovedNode } from "#insitu/explain/caches.js";
import type { Tensor } from "../tensor/tensor.js";
import type { CacheEdits } from "./cache-edits.js";
import type { CountedDecoder } from "./counted-lengths.js";
import { makeHoldings, type StateOptions, stateOptionNames } from "./create-state.js";
import type { Feeds } from "./feeds.js";
import type { HandedOut } from "./handed-out.js";
import { lendTarget } from "./handles.js";
import { type HeldInput, heldInputsOf } from "./held-inputs.js";
import type { KeptPresents } from "./kept-presents.js";
import type { ModelSource } from "./load.js";
import type { MemoryLimit } from "./memory-limit.js";
import { memoryOf, type SessionMemoryUse } from "./memory-use.js";
import { metadataOf, type ValueMetadata } from "./metadata.js";
import { nextBest, openBackend } from "./open-backend.js";
import { readOptions, type SessionOptions, sessionOptionsOf } from "./options.js";
import type { StaysOnDevice } from "./output-locations.js";
import type { Pairings } from "./pairing.js";
import { prepareOn } from "./prepare.js";
import { type Fetches, readFetches } from "./results.js";
import { type RowRules, rowRulesOf } from "./row-rules.js";
import { type RunOptions, runOptionsOf } from "./run-options.js";
import { runWithoutState } from "./run-without-state.js";
import { explanationOf, explanationText, type SessionExplanation } from "./session-explanation.js";
import { startSeries, type StartedSeries } from "./series-run.js";
import { State } from "./state.js";
import { fillSlot, makeSlot, type SlotPiece } from "./slots.js";
import { runWithState, startWithState, type StartedRun } from "./stateful-run.js";
import type { ToldApart } from "./told-apart.js";
import { Unfinished } from "./unfinished.js";

export type { SessionExplanation } from "./session-explanation.js";

/** Everything a session is made of. */
export interface Parts {
  readonly model: Model;
  /** Why a model that was to be rewritten stayed as it is: told by `explain`. */
  readonly notRewritten: string | undefined;
  readonly graph: Graph;
  /** Nodes that passes took out: told by `explain`. */
  readonly removed: readonly RemovedNode[];
  readonly backend: string;
  /** Backends that were tried before it, and why they were not taken. */
  readonly passedOver: readonly string[];
  readonly opened: BackendSession;
  /** True once the session's memory was given back: its states are told. */
  released: boolean;
  /** Memory that tensors show: it is brought to the host before that. */
  readonly handedOut: HandedOut;
  /** For runs whose past is fed: no feed is ever written. */
  readonly functional: Executable;
  /** For those whose feeds give a symbol several sizes; undefined where the model was rewritten on the ground that it has one. */
  readonly apart: ToldApart | undefined;
  /** For runs with a state. */
  readonly pairings: Pairings;
  /** For operators that states run on their caches. */
  readonly edits: CacheEdits;
  readonly weightBytes: number;
  readonly limit: MemoryLimit;
  /** Weights that were read while the model was made ready, and those that stayed in their files. */
  readonly arriving: ArrivingWeights;
  readonly mayMove: boolean;
  /** Outputs that stay on the device; undefined where none does. */
  readonly staysOnDevice: StaysOnDevice | undefined;
  /** What the model is to runs without a state that leave lengths out; undefined where they must be fed. */
  readonly counted: CountedDecoder | undefined;
  /** True if the session was asked for in onnxruntime's words alone. */
  readonly isOnnxruntimes: boolean;
  /** Inputs that the session does not name, since programs for onnxruntime feed all that it does: lengths that may be left out. */
  readonly unnamed: ReadonlySet<Value>;
  /** Presents that are kept inside, or why they are copied; undefined where nobody asked. */
  presents: KeptPresents | string | undefined;
}

/** A loaded model. `entry/` gives it a `create` that knows how to open files. */
export class Session {
  #parts: Parts | undefined;
  /** Runs that were asked for and are not over. */
  readonly #unfinished = new Unfinished();
  #releasing: Promise<void> | undefined;
  /**
   * The names of the model's inputs, in its own order. With the option `executionProviders`, without those that programs for onnxruntime do not feed:
   * `write_indices` and `nonpad_kv_seqlen`.
   */
  readonly inputNames: readonly string[];
  /** The model's outputs, in its own order. */
  readonly outputNames: readonly string[];
  /** Name, type and shape of each input. */
  readonly inputMetadata: readonly ValueMetadata[];
  /** Name, type and shape of each output. */
  readonly outputMetadata: readonly ValueMetadata[];
  /** The inputs that a state holds, with the outputs that become them. You feed all other inputs. */
  readonly heldInputs: readonly HeldInput[];

  protected constructor(parts: Parts) {
    this.#parts = parts;
    this.inputMetadata = parts.graph.inputs.map(metadataOf);
    this.outputMetadata = parts.graph.outputs.map(metadataOf);
    this.inputNames = parts.graph.inputs.filter((value) => !parts.unnamed.has(value)).map(({ name }) => name);
    this.outputNames = this.outputMetadata.map(({ name }) => name);
    this.heldInputs = heldInputsOf(parts.pairings.own.stateful.plan.pairs);
  }

  /** True if the value is a session. */
  static isSession(value: unknown): value is Session {
    return typeof value === "object" && value !== null && #parts in value;
  }

  /** Loads a model and makes it ready to run on one of the backends, which come best first. */
  protected static async prepare(
    source: ModelSource,
    platform: Platform,
    backends: readonly BackendChoice[],
    given?: SessionOptions,
  ): Promise<Parts> {
    const options = sessionOptionsOf(given);
    const { candidates: asked, ...read } = readOptions(options, backends);
    const { onFallback } = options;
    const mayFall = onFallback !== undefined && !read.automatic && read.fallback !== "never";
    const candidates = mayFall ? [...asked, ...nextBest(backends, asked.at(-1)!)] : asked;
    const passedOver: string[] = [];
    for (const [at, choice] of candidates.entries())
      try {
        const settings = {
          platform,
          threads: read.threads,
          settings: read.settingsOf(choice),
          fallback: read.fallback,
          batchInvariant: read.batchInvariant,
          automatic: read.automatic,
        };
        const hears = at >= asked.length - 1 && !read.automatic;
        const opened = await openBackend(choice, settings, hears ? onFallback : undefined);
        return await prepareOn(opened, source, platform, options, {
          ...read,
          passedOver,
          sessionOf: (parts) => new Session(parts),
        });
      } catch (error) {
        const isSmall = error instanceof InsituError && error.code === "out-of-memory" && at + 1 < asked.length;
        const next = candidates.at(at + 1);
        if (!(error instanceof Unavailable || isSmall) || next === undefined) throw error;
        passedOver.push(`${choice.name}: ${error.message}`);
        const slow = next.lastResort === true ? ", which is slow," : "";
        onFallback?.(`backend "${next.name}"${slow} instead of "${choice.name}": ${error.message}`);
      }
    throw new InsituError("internal", "there is no backend to try");
  }

  /**
   * Runs the model: computes outputs from inputs. With `{ state }`, past inputs come from the state, and presents stay in it.
   * @throws InsituError `invalid-feed`, `type-mismatch` or `shape-mismatch` for inputs that do not fit; `invalid-state` for a state that is in use.
   * @example
   * ```ts
   * import { InferenceSession, Tensor } from "insitu";
   *
   * const session = await InferenceSession.create("decoder.onnx", { inPlace: "require" });
   * const state = session.createState({ dims: { batch: 1, capacity: 64 } });
   * const input_ids = new Tensor("int64", [7n, 21n, 3n], [1, 3]);
   * const position_ids = new Tensor("int64", [0n, 1n, 2n], [1, 3]);
   * const { logits } = await session.run({ input_ids, position_ids }, { state }); // prefill: three rows written in place
   * console.log(logits.dims);
   * await session.release();
   * ```
   */
  async run(feeds: Feeds, fetches?: Fetches | RunOptions, options?: RunOptions): Promise<Record<string, Tensor>> {
    const { parts, wanted, state } = this.#asked(fetches, options);
    this.#unfinished.begin();
    try {
      return await (state === undefined
        ? runWithoutState(parts, feeds, wanted)
        : runWithState(parts, feeds, wanted, state));
    } finally {
      this.#unfinished.end();
    }
  }

  /**
   * Begins a run on a state, without waiting for its results. On a GPU the next run can begin at once, and is computed after this one. A run that
   * fails once it has begun loses the state. On other backends the results are there at once.
   */
  async start(feeds: Feeds, fetches: Fetches | undefined, options: RunOptions): Promise<StartedRun> {
    const { parts, wanted, state } = this.#asked(fetches, options);
    if (state === undefined) throw new InsituError("invalid-argument", "session.start needs options.state");
    return this.#started(() => startWithState(parts, feeds, wanted, state));
  }

  /**
   * For decoders: begins several runs on a state that follow each other, the first with `feeds`, each that follows with what one of `changes` has in
   * place of what was fed before. What they hand on to each other stays in the caches and in slots.
   */
  async startSeries(
    feeds: Feeds,
    changes: readonly Feeds[],
    fetches: Fetches,
    options: RunOptions,
  ): Promise<StartedSeries> {
    const { parts, wanted, state } = this.#asked(fetches, options);
    if (state === undefined) throw new InsituError("invalid-argument", "session.startSeries needs options.state");
    checkList("what changes in a series", changes);
    return this.#started(() => startSeries(parts, feeds, changes, wanted, state));
  }

  /** What is begun is not over before its results are there. */
  async #started<T extends { readonly results: Promise<unknown> }>(start: () => Promise<T>): Promise<T> {
    const { begin, end } = this.#unfinished;
    begin();
    try {
      const started = await start();
      started.results.then(end, end);
      return started;
    } catch (error) {
      end();
      throw error;
    }
  }

  /**
   * For decoders: a tensor in the backend's memory of the type that an input has. Runs take it as a feed and as the target of a result; on a
   * device it never comes to the host. `bounds` are whole numbers between which lies all that is ever written there.
   */
  createSlot(input: string, dims: readonly number[], bounds?: readonly [least: number, most: number]): Tensor {
    const parts = this.#live();
    const { standing, stateful } = parts.pairings.own;
    const value = standing.inputs.get(input);
    if (value === undefined) throw new InsituError("invalid-argument", `"${input}" is no input of the model`);
    return makeSlot(parts, stateful, value, dims, bounds);
  }

  /** For decoders: writes rows of a slot, those of other slots or of the host: what runs that were begun before read and write comes first. */
  fillSlot(target: Tensor, pieces: readonly SlotPiece[]): void {
    const parts = this.#live();
    fillSlot(parts, parts.pairings.own.stateful, target, pieces);
  }

  /** What a run's second and third argument ask for. */
  #asked(fetches: Fetches | RunOptions | undefined, options: RunOptions | undefined): AskedRun {
    const parts = this.#live();
    // An output may be called `state` too.
    const isOptions = options === undefined && State.isState((fetches as RunOptions | null | undefined)?.state);
    const wanted = isOptions ? undefined : readFetches(fetches, parts.graph, options !== undefined);
    for (const target of wanted?.values() ?? []) lendTarget(target);
    const asked = options === undefined && wanted === undefined ? (fetches as RunOptions | undefined) : options;
    const { state } = runOptionsOf(asked, parts.isOnnxruntimes);
    return { parts, wanted, state };
  }

  /**
   * Makes a state: the model's caches, empty, with the given sizes.
   * @throws InsituError `invalid-argument` if a size is missing, `invalid-state` if the model has no caches, `out-of-memory`.
   * @example
   * ```ts
   * import { InferenceSession } from "insitu";
   *
   * const session = await InferenceSession.create("decoder.onnx");
   * const state = session.createState({ dims: { batch: 1, capacity: 2048 } });
   * console.log(state.names, state.byteLength);
   * await session.release();
   * ```
   */
  createState(given?: StateOptions): State {
    const parts = this.#live();
    const options = optionsOf<StateOptions>("the options of a state", given, stateOptionNames);
    const pairing = parts.pairings.with(options.pairs);
    const { stateful } = pairing;
    const { holdings, batch } = makeHoldings(stateful.plan, options, stateful, (bytes) =>
      parts.limit.checkState(bytes),
    );
    return new State(parts, pairing, holdings, new Array<number>(batch).fill(0));
  }

  /** Explains the plan for runs with a state: each cache, in place or copied, and why. As text, or as JSON for tools. */
  explain(): string;
  explain(options: { readonly json: true }): SessionExplanation;
  explain(options?: { readonly json?: boolean }): string | SessionExplanation {
    const parts = this.#live();
    const { json } = optionsOf("the options of explain", options, { json: true });
    return json === true ? explanationOf(parts) : explanationText(parts);
  }

  /** Part of onnxruntime's interface, without effect. Use `explain` to see what a run does. */
  startProfiling(): void {
    this.#live();
  }

  /** Part of onnxruntime's interface, without effect. */
  endProfiling(): void {
    this.#live();
  }

  /** The name of the backend that the session runs on. */
  get backend(): string {
    return this.#live().backend;
  }

  /** True if the session runs on a GPU, whose memory the CPU cannot read. */
  get isDevice(): boolean {
    return this.#live().pairings.own.stateful.location !== "cpu";
  }

  /** For engines: tokens of prompts that one run reads so that the device is busy; undefined where a few do. */
  get busyRows(): BusyRows | undefined {
    return this.#live().opened.busyRows;
  }

  /** For engines: does work whose runs are refused once what they need is being compiled, of which `tell` hears. Does nothing where nothing is. */
  async compileAhead(work: () => Promise<void>, tell: (ready: number, total: number) => void): Promise<void> {
    await this.#live().opened.compileAhead?.(work, tell);
  }

  /** For servers: resolves once the device is gone, with what all runs say from then on; undefined where there is none. */
  get lost(): Promise<InsituError> | undefined {
    return this.#live().opened.lost;
  }

  /** True if the model has random operators: a second run may give other results. */
  get random(): boolean {
    return this.#live().graph.nodes.some((node) => node.op.random);
  }

  /** For eviction: what attention decides by the number of a row. */
  get rowRules(): RowRules {
    return rowRulesOf(this.#live().graph);
  }

  /** Bytes of the weights, of the arena, and of every tensor buffer allocated by runs so far. */
  get memory(): SessionMemoryUse {
    return memoryOf(this.#live());
  }

  /**
   * Frees the model's memory, after the runs that are under way. Results that you have stay valid: they are copied out of the session's memory. The
   * session and its states cannot be used afterwards.
   */
  release(): Promise<void> {
    const parts = this.#parts;
    this.#parts = undefined;
    if (parts !== undefined) this.#releasing = releaseAll(parts, this.#unfinished);
    return this.#releasing!;
  }

  #live(): Parts {
    if (this.#parts === undefined) throw new InsituError("released", "the session was released; create a new one");
    return this.#parts;
  }
}

/** What a run's arguments ask for. */
interface AskedRun {
  readonly parts: Parts;
  readonly wanted: ReadonlyMap<Value, Tensor | null> | undefined;
  readonly state: State | undefined;
}

/** Gives everything back once nothing is under way, and what callers still have was brought out. */
async function releaseAll(parts: Parts, unfinished: Unfinished): Promise<void> {
  await unfinished.over();
  await parts.handedOut.bringOut();
  parts.released = true;
  await parts.arriving.stop();
  await parts.opened.release();
}
