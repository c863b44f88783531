/**
 * A run of a text decoder as the caches of this room need it: tokens and positions in, logits and measured attention out. Knows the names
 * that decoders in this form have; which rows are written is the caches' business.
 */
import { InsituError } from "../base/error.js";
import type { Feeds } from "../session/feeds.js";
import type { RowRules } from "../session/row-rules.js";
import type { Session } from "../session/session.js";
import type { State } from "../session/state.js";
import { readNumbers } from "../tensor/access.js";
import { Tensor } from "../tensor/tensor.js";

/** What a decoder is fed: as many tokens for each sample. */
export interface RunInputs {
  readonly tokens: readonly (readonly number[])[];
  /** The position of each sample's first column; below 0 in front of a text. */
  readonly positions: readonly number[];
  /** What the caches need beside. */
  readonly feeds?: Feeds;
  readonly state: State;
}

/** Logits [batch, rows, vocabulary], and outputs that measure attention. */
export interface RunOutputs {
  readonly logits: Float32Array;
  readonly rows: number;
  readonly vocabulary: number;
  readonly measured: readonly Tensor[];
}

/** A tensor of whole numbers. */
export const int64 = (values: readonly number[], dims: readonly number[]): Tensor =>
  new Tensor("int64", BigInt64Array.from(values, BigInt), dims);

/** A session as a decoder. */
export class DecoderRun {
  readonly #session: Session;
  readonly #logits: string;
  readonly #measured: readonly string[];
  readonly #given: readonly string[];
  readonly #rules: RowRules;

  /** `measures` begins the names of outputs that measure attention. */
  constructor(session: Session, measures: string) {
    this.#session = session;
    this.#rules = session.rowRules;
    const states = session.heldInputs;
    const kept = new Set(states.map(({ output }) => output));
    const held = new Set(states.map(({ input }) => input));
    const others = session.outputNames.filter((name) => !kept.has(name));
    this.#measured = others.filter((name) => name.startsWith(measures));
    this.#logits = others.includes("logits") ? "logits" : others[0];
    this.#given = session.inputNames.filter((name) => !held.has(name));
  }

  /** True if runs measure attention. */
  get measures(): boolean {
    return this.#measured.length > 0;
  }

  /** Throws for a model that counts positions by rows: once rows are gone, it would turn keys and queries wrongly, or mask wrong rows. */
  requirePositions(what: string): void {
    const counts = this.#given.includes("slot_mapping") && this.#given.includes("write_indices");
    if (!this.#given.includes("position_ids") || counts)
      throw new InsituError(
        "invalid-argument",
        `${what}: the model takes positions from the number of rows, not from position_ids alone: its rows cannot be evicted`,
      );
    if (this.#rules.masked !== undefined)
      throw new InsituError(
        "invalid-argument",
        `${what}: "${this.#rules.masked}" reads a mask with a column for each row: its rows cannot be evicted; on pages windows are no masks`,
      );
  }

  /**
   * Throws for rows that a window would count wrongly: it shows as many of the latest rows as it is wide, so that these must be the
   * latest positions, or all there are. `next` is the position of the next token.
   */
  requireWindow(rows: number, positionOf: (row: number) => number, next: number, what: string): void {
    const { window } = this.#rules;
    if (window === undefined) return;
    const seen = Math.min(rows, window - 1);
    if (seen > 0 && positionOf(rows - seen) !== next - seen)
      throw new InsituError(
        "invalid-argument",
        `${what}: the model's attention has a window of ${window} rows, and a gap among the latest ${seen} would let it see rows that are further back; keep at least the latest ${window - 1} positions`,
      );
  }

  /** Runs tokens on a state; lengths that the state itself fills in may be left to it. */
  async run({ tokens, positions, feeds = {}, state }: RunInputs, leftOut: readonly string[] = []): Promise<RunOutputs> {
    const [batch, count] = [tokens.length, tokens[0].length];
    const known: Record<string, () => Tensor> = {
      input_ids: () => int64(tokens.flat(), [batch, count]),
      position_ids: () =>
        int64(
          positions.flatMap((first) => Array.from({ length: count }, (_, at) => Math.max(0, first + at))),
          [batch, count],
        ),
      write_indices: () => int64(positions, [batch]),
      nonpad_kv_seqlen: () =>
        int64(
          positions.map((first) => first + count),
          [batch],
        ),
      num_logits_to_keep: () => int64([count], []),
    };
    const names = this.#given.filter((name) => !(name in feeds) && !leftOut.includes(name));
    const unknown = names.find((name) => !(name in known));
    if (unknown !== undefined)
      throw new InsituError(
        "invalid-model",
        `input "${unknown}" is none that a text decoder on these caches has; known are ${Object.keys(known).join(", ")}`,
      );
    const all = { ...feeds, ...Object.fromEntries(names.map((name) => [name, known[name]()])) };
    const results = await this.#session.run(all, [this.#logits, ...this.#measured], { state });
    const tensor = results[this.#logits];
    const [, rows, vocabulary] = tensor.dims;
    const logits =
      tensor.type === "float32" ? (tensor.data as Float32Array) : Float32Array.from(readNumbers(tensor.toView()));
    return { logits, rows, vocabulary, measured: this.#measured.map((name) => results[name]) };
  }
}
