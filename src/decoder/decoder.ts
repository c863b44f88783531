/**
 * A session as a text decoder: tokens in, logits and measured attention out, on a state with linear caches or with pages, for one text or
 * for several. What the inputs are called is decoder-inputs.ts's knowledge; which rows are whose is the caches' business.
 */
import { InsituError } from "../base/error.js";
import type { Session } from "../session/session.js";
import type { State } from "../session/state.js";
import type { ElementType } from "../tensor/element-type.js";
import type { Tensor } from "../tensor/tensor.js";
import { logitRows } from "#insitu/rewrite/page-names.js";
import { samplingInputs, samplingOutputs } from "#insitu/rewrite/sampling-names.js";
import {
  type DecoderInput,
  decoderInputNames,
  fill,
  isFilled,
  isHidden,
  isOfPages,
  isOfSampling,
  type Reading,
  tellsOfRows,
} from "./decoder-inputs.js";
import { floatsOf, Logits } from "./logits.js";
import { SlotPool } from "./slot-pool.js";
import { TokenDrawer } from "./token-drawer.js";

/** Tokens to run. */
export interface DecoderStep {
  /** The tokens of each sample, equally many for all. */
  readonly tokens: readonly (readonly number[])[];
  /** The position of each sample's first token; what lies before 0 is padding. */
  readonly positions: readonly number[];
  /** Where the new rows are written and how many are valid then, where the host decides it; else they follow each other. */
  readonly rows?: { readonly start: readonly number[]; readonly valid: readonly number[] };
  /** Slots at the front of each sample that hold padding. */
  readonly padding?: readonly number[];
  /** Tokens at the end whose logits are needed, all where left out; a model that cannot leave logits out gives all. */
  readonly keep?: number;
  /** In place of `keep`: the tokens whose logits are needed, by their numbers among all tokens. Each is a sample of the logits then. */
  readonly wanted?: readonly number[];
  /** Who reads the logits, where those of one token may lie in the memory of those before: the state where left out. */
  readonly reader?: object;
  /** Where pages are written and read. */
  readonly pages?: Readonly<Record<string, Tensor>>;
  /** An output of [batch, tokens, size] that is handed out beside the logits. */
  readonly hands?: string | undefined;
  /** What is fed beside tokens. */
  readonly beside?: Readonly<Record<string, Tensor>>;
}

/** What a decoder is asked for beside tokens. */
interface DecoderOptions {
  /** How the names of outputs begin that measure attention; none are asked for where this is left out. */
  readonly measures?: string;
  /** Inputs that the caller feeds. */
  readonly fed?: readonly string[];
  /** True where readers are done with the logits of one token before they ask for the next: each reader's lie in the same memory then. */
  readonly overwriteLogits?: boolean;
}

/** Logits, and the outputs that measure attention. */
interface DecoderResults {
  readonly logits: Logits;
  readonly measured: readonly Tensor[];
}

/** A model that predicts the next token. */
export class Decoder {
  readonly #session: Session;
  readonly #types: ReadonlyMap<DecoderInput, ElementType>;
  readonly #logits: string;
  readonly #measured: readonly string[];
  /** Results of single tokens are written into one tensor of each reader, by batch; undefined where each has its own. */
  readonly #results: WeakMap<object, Map<number, Tensor>> | undefined;
  /** Tokens of the vocabulary, where the model draws from it. */
  readonly #vocabulary: number | undefined;
  readonly #slots: SlotPool;
  /** True if each sample's rows have their own length and are written where the host says: samples may be rewound one by one. */
  readonly ragged: boolean;
  /** True if new rows may be written over old ones. */
  readonly overwrites: boolean;
  /** True if a sample's rows may have padding in front of them, which the mask hides. */
  readonly padsFront: boolean;
  /** True if the file says how many samples a run reads: a state is for one text. */
  readonly fixesBatch: boolean;
  /** True if one run may read more tokens of one sample than of another. */
  readonly uneven = false;

  /** Throws for a model that is no text decoder. */
  constructor(session: Session, { measures, fed = [], overwriteLogits = false }: DecoderOptions = {}) {
    this.#session = session;
    this.#slots = new SlotPool(session);
    this.#results = overwriteLogits ? new WeakMap() : undefined;
    refuseEncoder(session);
    this.#types = typesOf(session, fed);
    const kept = new Set(session.heldInputs.map(({ output }) => output));
    const others = session.outputMetadata.filter(({ name }) => !kept.has(name));
    this.#measured = others.flatMap(({ name }) => (measures !== undefined && name.startsWith(measures) ? [name] : []));
    const logits =
      session.outputMetadata.find(({ name }) => name === "logits") ??
      others.find(({ name, shape }) => !this.#measured.includes(name) && !isHidden(name) && shape.length === 3);
    if (!this.#types.has("input_ids") || logits === undefined)
      throw new InsituError(
        "invalid-model",
        `a text decoder has an input "input_ids" and an output "logits"; this one has ${session.inputNames.join(", ")} → ${session.outputNames.join(", ")}${session.outputNames.some(isHidden) ? ": export it with its head" : ""}`,
      );
    if (kept.size === 0)
      throw new InsituError("invalid-model", "the model has no cache: export it with past and present keys and values");
    if (this.#types.has("attention_mask") && session.heldInputs.every(({ keepsLast }) => keepsLast === true))
      throw new InsituError(
        "invalid-model",
        'the model\'s caches keep their last rows only, and nothing counts those before them: load it with rewrite: "auto"',
      );
    this.#logits = logits.name;
    const hasSampler =
      session.inputNames.includes(samplingInputs.counter) && session.outputNames.includes(samplingOutputs.input);
    const [, , vocabulary] = logits.shape;
    this.#vocabulary = hasSampler && typeof vocabulary === "number" ? vocabulary : undefined;
    const isPaged = session.inputNames.some(isOfPages);
    // A state without rows has read all that is fed, padding too.
    this.ragged = session.heldInputs.every(({ kind, axis }) => kind === "update" && (isPaged || axis !== undefined));
    // Windows and masks go by the order of rows.
    const { window, masked, fromFront } = session.rowRules;
    this.fixesBatch = typeof session.inputMetadata.find(({ name }) => name === "input_ids")?.shape[0] === "number";
    this.padsFront = !fromFront && session.heldInputs.every(({ axis }) => axis !== undefined);
    this.overwrites =
      this.ragged &&
      this.#types.has("write_indices") &&
      this.#types.has("nonpad_kv_seqlen") &&
      window === undefined &&
      masked === undefined;
  }

  /** The output that has the logits. */
  get logitsName(): string {
    return this.#logits;
  }

  /** True if runs measure attention. */
  get measures(): boolean {
    return this.#measured.length > 0;
  }

  /** True if runs can draw tokens where the model runs: behind the last row of each sample, or behind each row that is wanted. */
  get draws(): boolean {
    return this.#vocabulary !== undefined && this.ragged;
  }

  /** True if logits are computed for the tokens that are asked for, wherever they stand. */
  get picksRows(): boolean {
    return this.#types.has(logitRows);
  }

  /** Draws the tokens of runs that follow each other, where `draws`. */
  drawer(): TokenDrawer {
    return new TokenDrawer(this.#session, this, this.#slots, this.#vocabulary!);
  }

  /** Caches for `batch` samples of at most `capacity` tokens. */
  createState(batch: number, capacity: number): State {
    return this.#session.createState({ dims: { batch, capacity } });
  }

  /** Runs tokens on a state. */
  async run(state: State, step: DecoderStep): Promise<Logits> {
    const { results } = await this.start(state, step, true);
    return (await results)!;
  }

  /** Begins a run on a state. Where the model runs on the host, it is over when this resolves. The logits come where they are asked for. */
  async start(
    state: State,
    step: DecoderStep,
    tellsLogits: boolean,
  ): Promise<{ readonly results: Promise<Logits | undefined> }> {
    const feeds = this.feedsOf(state, step);
    if (!this.#session.isDevice) {
      const { wanted, took } = this.#target(state, step);
      const results = await this.#session.run(feeds, { ...wanted, ...besideLogits(step) }, { state });
      took(results[this.#logits]);
      return { results: Promise.resolve(this.#told(results, step)) };
    }
    const wanted = tellsLogits ? { [this.#logits]: null, ...besideLogits(step) } : {};
    const { results } = await this.#session.start(feeds, wanted, { state });
    const told = results.then((all) => (tellsLogits ? this.#told(all, step) : undefined));
    told.catch(() => undefined);
    return { results: told };
  }

  /** Runs tokens on a state, and measures the attention of this run. */
  async runMeasured(state: State, step: DecoderStep): Promise<DecoderResults> {
    const measured = this.#measured;
    const { wanted, took } = this.#target(state, step);
    const asked = { ...wanted, ...Object.fromEntries(measured.map((name) => [name, null])) };
    const results = await this.#session.run(this.feedsOf(state, step), asked, { state });
    const logits = this.logitsOf(took(results[this.#logits]), step);
    return { logits, measured: measured.map((name) => results[name]) };
  }

  /** Where the logits of a run go: those of single tokens into the tensor that its reader has for as many rows. */
  #target(
    state: State,
    { tokens, wanted, reader = state }: DecoderStep,
  ): { readonly wanted: Record<string, Tensor | null>; readonly took: (logits: Tensor) => Tensor } {
    const kept = this.#types.has(logitRows) ? (wanted?.length ?? tokens.length) : tokens.length;
    const own = tokens[0].length === 1 ? this.#resultsOf(reader) : undefined;
    const took = (logits: Tensor): Tensor => {
      own?.set(kept, logits);
      return logits;
    };
    return { wanted: { [this.#logits]: own?.get(kept) ?? null }, took };
  }

  /** The tensors of a reader: what one was told is not written over by what another asks for meanwhile. */
  #resultsOf(reader: object): Map<number, Tensor> | undefined {
    const known = this.#results?.get(reader);
    if (known !== undefined || this.#results === undefined) return known;
    const own = new Map<number, Tensor>();
    this.#results.set(reader, own);
    return own;
  }

  #told(results: Readonly<Record<string, Tensor>>, step: DecoderStep): Logits {
    const logits = this.logitsOf(results[this.#logits], step);
    const hidden = step.hands === undefined ? undefined : results[step.hands];
    if (hidden !== undefined) logits.hidden = new Logits(floatsOf(hidden), hidden.dims.at(-2)!, hidden.dims.at(-1)!);
    return logits;
  }

  /** What came as logits, by samples. */
  logitsOf(tensor: Tensor, { tokens, wanted: picked }: DecoderStep): Logits {
    const picks = this.#types.has(logitRows);
    const [given, each, vocabulary] = tensor.dims;
    const rows = picks ? given / (picked?.length ?? tokens.length) : each;
    const data = floatsOf(tensor);
    // Where all rows come, those that are wanted are samples of one row each.
    return picks || picked === undefined ? new Logits(data, rows, vocabulary) : new Logits(data, 1, vocabulary, picked);
  }

  /** What a run of these tokens is fed. */
  feedsOf(state: State, step: DecoderStep): Record<string, Tensor> {
    const reading = this.#readingOf(state, step);
    const feeds: Record<string, Tensor> = { ...step.pages, ...step.beside };
    for (const [name, type] of this.#types) {
      const tensor = fill(name, type, reading);
      if (tensor !== undefined) feeds[name] = tensor;
    }
    return feeds;
  }

  /** Of what a run of these tokens is fed that which tells of rows, where `ahead` rows more than the state has are there before it. */
  laterFeedsOf(state: State, step: DecoderStep, ahead: number): Record<string, Tensor> {
    const reading = this.#readingOf(state, step, ahead);
    const feeds: Record<string, Tensor> = { ...step.pages };
    for (const [name, type] of this.#types) {
      const tensor = tellsOfRows(name) ? fill(name, type, reading) : undefined;
      if (tensor !== undefined) feeds[name] = tensor;
    }
    return feeds;
  }

  #readingOf(state: State, step: DecoderStep, ahead = 0): Reading {
    const { tokens, positions, rows, padding, pages } = step;
    const count = tokens[0].length;
    const { keep = count } = step;
    const last = (sample: number): number[] =>
      Array.from({ length: keep }, (_, at) => (sample + 1) * count - keep + at);
    const wanted = step.wanted ?? tokens.flatMap((_, sample) => last(sample));
    const after = positions.map((first) => first + count);
    // A model that counts rows by itself counts positions where pages hold the rows: pages do not tell.
    const own = rows ?? (pages && { start: positions, valid: after });
    const to = own?.valid ?? state.lengths.map((length) => length + ahead + count);
    const from = padding ?? tokens.map(() => 0);
    const columns = pages === undefined ? this.#maskColumns(state, count) : Math.max(...to);
    return {
      tokens,
      positions,
      rows: own,
      mask: { columns, from, to },
      keep: this.#types.has(logitRows) ? count : keep,
      wanted,
    };
  }

  /** A mask over linear caches has a column for each row that they may hold, or that they will once they have grown. */
  #maskColumns(state: State, count: number): number {
    if (!this.#types.has("attention_mask")) return 0;
    const cache = this.ragged ? this.#session.heldInputs.find(({ axis }) => axis !== undefined) : undefined;
    return cache === undefined ? state.lengths[0] + count : state.get(cache.input).dims[cache.axis!];
  }
}

/** What a run is asked for beside logits. */
const besideLogits = ({ hands }: DecoderStep): Record<string, null> => (hands === undefined ? {} : { [hands]: null });

/** Throws for a model that reads text and predicts none. */
function refuseEncoder({ heldInputs, inputNames, outputNames, outputMetadata }: Session): void {
  const logits = outputMetadata.find(({ name }) => name === "logits");
  if (heldInputs.length > 0 || !inputNames.includes("input_ids") || logits?.shape.length === 3) return;
  throw new InsituError(
    "invalid-model",
    `the model is an encoder: it has neither logits of tokens nor a cache (${inputNames.join(", ")} → ${outputNames.join(", ")}), and cannot generate text; InferenceSession.create runs it`,
  );
}

/** The types of the inputs that are filled; throws for an input that no text decoder has. */
function typesOf(session: Session, fed: readonly string[]): ReadonlyMap<DecoderInput, ElementType> {
  const { inputMetadata, heldInputs } = session;
  const held = new Set(heldInputs.map(({ input }) => input));
  const types = new Map<DecoderInput, ElementType>();
  for (const { name, type } of inputMetadata) {
    if (isFilled(name) && !held.has(name)) types.set(name, type);
    else if (!held.has(name) && !isOfPages(name) && !isOfSampling(name) && !fed.includes(name)) {
      refuseUnpaired(name, session);
      throw new InsituError(
        "invalid-model",
        `input "${name}" is not one of a text decoder's; known are ${decoderInputNames.join(", ")} and caches`,
      );
    }
  }
  return types;
}

/** Throws for an input that looks like a state, of heads or of one size for all texts, and no output is known to become its next content. */
function refuseUnpaired(name: string, { inputMetadata, outputMetadata, heldInputs }: Session): void {
  const { type, shape } = inputMetadata.find((input) => input.name === name)!;
  const sizes = shape.slice(1);
  if (sizes.length < 3 && (sizes.length === 0 || !sizes.every((size) => typeof size === "number"))) return;
  const taken = new Set(heldInputs.map(({ output }) => output));
  const alike = outputMetadata.filter(
    (output) =>
      !taken.has(output.name) &&
      output.type === type &&
      output.shape.length === shape.length &&
      output.shape.slice(1).every((size, at) => typeof size !== "number" || size === sizes[at]),
  );
  const candidates = alike.map((output) => `"${output.name}"`).join(", ");
  const way =
    alike.length === 0
      ? "no output has its type and size: export the model with that output"
      : `those of its type and size are ${candidates}: name one, pairs: { ${JSON.stringify(name)}: ${JSON.stringify(alike[0].name)} }`;
  throw new InsituError(
    "invalid-model",
    `input "${name}" looks like a state, ${type}[${shape.join(",")}], and no output is known to become its next content; ${way}`,
  );
}
