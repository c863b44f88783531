/**
 * A session as a decoder: tokens in, logits out, on a state. This file alone knows the names that exporters give to a decoder's inputs.
 * Chooses no token and keeps no text.
 */
import { InsituError } from "../base/error.js";
import type { Session } from "../session/session.js";
import type { State } from "../session/state.js";
import { readNumbers } from "../tensor/access.js";
import type { ElementType } from "../tensor/element-type.js";
import { Tensor } from "../tensor/tensor.js";

/** Tokens to run. */
export interface DecoderStep {
  /** As many for each sample; of a decoder that reads unevenly any number, none included. */
  readonly tokens: readonly (readonly number[])[];
  /** The position of each sample's first token; what lies before 0 is padding. */
  readonly positions: readonly number[];
  /** Where the new rows are written and how many are valid then, where the host decides it; else they follow each other. */
  readonly rows?: { readonly start: readonly number[]; readonly valid: readonly number[] };
  /** Slots at the front of each sample that hold padding. */
  readonly padding?: readonly number[];
  /** Tokens at the end whose logits are needed, all where left out; a model that cannot leave logits out gives all. */
  readonly keep?: number;
  /** Where pages are written and read. */
  readonly pages?: Readonly<Record<string, Tensor>>;
}

/** What a decoder has read, of one text or several: a session's state, or sequences on pages. */
export interface DecoderState {
  /** Rows of each sample. */
  readonly lengths: readonly number[];
  /** True if there is a row for each token that was read; states without rows do not count. */
  readonly countsRows: boolean;
  /** Bytes of the caches in their full capacity. */
  readonly byteLength: number;
  /** Bytes in use, where that is less. */
  readonly heldBytes?: number;
  readonly statistics: { readonly movedBytes: number };
  rewind(length: number | readonly number[]): void;
  fork(): DecoderState;
  save(): Promise<Uint8Array>;
  restore(bytes: Uint8Array): Promise<void>;
  /** Takes over what others have read of a text that goes on from a sample's, the first where left out; how many rows it has then. */
  share?(tokens: readonly number[], sample?: number): number;
  /** Rows are shared in multiples of this. */
  readonly sharedRows?: number;
  release(): void;
}

/** A model that predicts the next token, on states of its own kind. */
export interface StatefulDecoder {
  /** True if each sample's rows have their own length and are written where the host says: samples may be rewound one by one. */
  readonly ragged: boolean;
  /** True if new rows may be written over old ones. */
  readonly overwrites: boolean;
  /** True if one run may read more tokens of one sample than of another. */
  readonly uneven: boolean;
  /** Caches for `batch` samples of at most `capacity` tokens. */
  createState(batch: number, capacity: number): DecoderState;
  /** Runs tokens on a state. */
  run(state: DecoderState, step: DecoderStep): Promise<Logits>;
  /** Lets go of all states that there are. */
  release?(): void;
}

/** The inputs beside the caches that a decoder may have. */
const inputNames = [
  "input_ids",
  "position_ids",
  "attention_mask",
  "write_indices",
  "nonpad_kv_seqlen",
  "num_logits_to_keep",
  "use_cache_branch",
  "slot_mapping",
  "block_tables",
  "seq_lens",
] as const;
type InputName = (typeof inputNames)[number];

/** Logits of the last rows of each sample. */
export class Logits {
  readonly #rows: Float32Array;
  readonly #count: number;
  readonly #vocabulary: number;
  readonly #places: readonly number[] | undefined;

  /** `places`: where each sample's logits are, if some samples have none. */
  constructor(rows: Float32Array, count: number, vocabulary: number, places?: readonly number[]) {
    this.#rows = rows;
    this.#count = count;
    this.#vocabulary = vocabulary;
    this.#places = places;
  }

  /** The same logits for other samples: each is given its place, or -1. */
  placed(places: readonly number[]): Logits {
    return new Logits(this.#rows, this.#count, this.#vocabulary, places);
  }

  /** The logits after the token that comes `fromEnd` tokens before the last: a view that the next run may overwrite. */
  at(fromEnd: number, sample = 0): Float32Array {
    const row = ((this.#places?.[sample] ?? sample) + 1) * this.#count - 1 - fromEnd;
    return this.#rows.subarray(row * this.#vocabulary, (row + 1) * this.#vocabulary);
  }
}

/** A model that predicts the next token. */
export class Decoder implements StatefulDecoder {
  readonly #session: Session;
  readonly #types: ReadonlyMap<InputName, ElementType>;
  readonly #logits: string;
  /** Results of single tokens are written into the same tensor, by batch. */
  readonly #results = new Map<number, Tensor>();
  /** True if each sample's rows have their own length and are written where the host says: samples may be rewound one by one. */
  readonly ragged: boolean;
  /** True if new rows may be written over old ones. */
  readonly overwrites: boolean;
  readonly uneven = false;

  constructor(session: Session) {
    this.#session = session;
    const states = session.heldInputs;
    const held = new Set(states.map(({ input }) => input));
    const kept = new Set(states.map(({ output }) => output));
    const given = session.inputMetadata.filter(({ name }) => !held.has(name));
    const unknown = given.find(({ name }) => !(inputNames as readonly string[]).includes(name));
    if (unknown !== undefined)
      throw new InsituError(
        "invalid-model",
        `input "${unknown.name}" is none that a text decoder has; known are ${inputNames.join(", ")} and caches`,
      );
    this.#types = new Map(given.map(({ name, type }) => [name as InputName, type]));
    const logits =
      session.outputMetadata.find(({ name }) => name === "logits") ??
      session.outputMetadata.find(({ name, shape }) => !kept.has(name) && shape.length === 3);
    if (!this.#types.has("input_ids") || logits === undefined)
      throw new InsituError(
        "invalid-model",
        `a text decoder has an input "input_ids" and an output "logits"; this one has ${session.inputNames.join(", ")} → ${session.outputNames.join(", ")}`,
      );
    if (states.length === 0)
      throw new InsituError("invalid-model", "the model has no cache: export it with past and present keys and values");
    this.#logits = logits.name;
    this.ragged = states.every(({ kind }) => kind === "update");
    // Windows and masks go by the order of rows.
    const { window, masked } = session.rowRules;
    this.overwrites =
      this.ragged &&
      this.#types.has("write_indices") &&
      this.#types.has("nonpad_kv_seqlen") &&
      window === undefined &&
      masked === undefined;
  }

  /** Caches for `batch` samples of at most `capacity` tokens. */
  createState(batch: number, capacity: number): State {
    return this.#session.createState({ dims: { batch, capacity } });
  }

  /** Runs tokens on a state. */
  async run(state: State, step: DecoderStep): Promise<Logits> {
    const batch = step.tokens.length;
    const count = step.tokens[0].length;
    const feeds = this.#feeds(state, step);
    const target = count === 1 ? this.#results.get(batch) : undefined;
    const results = await this.#session.run(feeds, { [this.#logits]: target ?? null }, { state });
    const tensor = results[this.#logits];
    if (count === 1 && target === undefined) this.#results.set(batch, tensor);
    const [, rows, vocabulary] = tensor.dims;
    const data =
      tensor.type === "float32" ? (tensor.data as Float32Array) : Float32Array.from(readNumbers(tensor.toView()));
    return new Logits(data, rows, vocabulary);
  }

  #feeds(state: State, { tokens, positions, rows, padding, keep, pages }: DecoderStep): Record<string, Tensor> {
    const batch = tokens.length;
    const count = tokens[0].length;
    const feeds: Record<string, Tensor> = { ...pages };
    const add = (name: InputName, dims: readonly number[], valueAt: (index: number) => number): void => {
      const type = this.#types.get(name);
      if (type !== undefined) feeds[name] = integers(name, type, dims, valueAt);
    };
    add("input_ids", [batch, count], (index) => tokens[Math.floor(index / count)][index % count]);
    add("position_ids", [batch, count], (index) => Math.max(0, positions[Math.floor(index / count)] + (index % count)));
    if (rows !== undefined) {
      add("write_indices", [batch], (sample) => rows.start[sample]);
      add("nonpad_kv_seqlen", [batch], (sample) => rows.valid[sample]);
    }
    if (this.#types.has("attention_mask")) {
      const total = this.ragged ? capacityOf(state) : state.lengths[0] + count;
      const valid = (sample: number): number => rows?.valid[sample] ?? state.lengths[sample] + count;
      add("attention_mask", [batch, total], (index) => {
        const [sample, slot] = [Math.floor(index / total), index % total];
        return slot >= (padding?.[sample] ?? 0) && slot < valid(sample) ? 1 : 0;
      });
    }
    add("num_logits_to_keep", [], () => keep ?? count);
    add("use_cache_branch", [1], () => 1);
    return feeds;
  }
}

/** The longest dimension that all caches share is their capacity. */
function capacityOf(state: State): number {
  return Math.max(...state.get(state.names[0]).dims.slice(1, -1));
}

function integers(
  name: string,
  type: ElementType,
  dims: readonly number[],
  valueAt: (index: number) => number,
): Tensor {
  const length = dims.reduce((product, dim) => product * dim, 1);
  const values = Array.from({ length }, (_, index) => valueAt(index));
  const wide = type === "int32" ? values.find((value) => value !== (value | 0)) : undefined;
  if (wide !== undefined)
    throw new InsituError("invalid-argument", `input "${name}" is int32, which cannot hold ${wide}`);
  switch (type) {
    case "int64":
      return new Tensor(type, BigInt64Array.from(values, BigInt), dims);
    case "int32":
      return new Tensor(type, Int32Array.from(values), dims);
    case "bool":
      return new Tensor(type, Uint8Array.from(values), dims);
    case "float32":
      return new Tensor(type, Float32Array.from(values), dims);
    default:
      throw new InsituError("invalid-model", `input "${name}" must be int64, int32, bool or float32, got ${type}`);
  }
}
