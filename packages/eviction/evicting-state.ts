/**
 * A text that may be longer than its cache: when a linear cache is full, a policy says which rows stay, and they move together in place.
 * Keys stay as they were turned, and the host goes on counting positions: the model never learns that rows moved. One sample.
 */
import { checkFlag, checkNumbers } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { OptionNames } from "#insitu/base/option-names.js";
import { valueText } from "#insitu/base/value-text.js";
import type { Session } from "#insitu/session/session.js";
import type { State } from "#insitu/session/state.js";
import { readNumbers } from "#insitu/tensor/access.js";
import type { Tensor } from "#insitu/tensor/tensor.js";
import { Decoder } from "#insitu/decoder/decoder.js";
import { int64 } from "#insitu/decoder/decoder-inputs.js";
import { applyPolicy, type EvictionPolicy } from "#insitu/cache/eviction.js";
import { checkStateArguments } from "#insitu/cache/given.js";
import { attentionScores } from "#insitu/rewrite/page-names.js";
import { repacking } from "#insitu/cache/page-bytes.js";
import { RowChecks } from "#insitu/cache/row-checks.js";

/** Options of `new EvictingState`. */
export interface EvictingStateOptions {
  /** Rows of the cache. */
  readonly capacity: number;
  /** Chooses which rows stay. */
  readonly policy: EvictionPolicy;
  /**
   * How many rows are freed at a time, so that rows do not move at every token.
   * @default an eighth of the capacity
   */
  readonly slack?: number | undefined;
  /**
   * Lets each head keep rows of its own; for caches of [batch, heads, rows, head size].
   * @default false
   */
  readonly perHead?: boolean | undefined;
}

const evictingStateOptionNames: OptionNames<EvictingStateOptions> = {
  capacity: true,
  policy: true,
  slack: true,
  perHead: true,
};

/** The rows of the cache, or of one head of it. */
interface Rows {
  positions: number[];
  scores: number[] | undefined;
}

/** A state that never fills up: a policy chooses which rows are forgotten. */
export class EvictingState {
  /** The state that it evicts from. */
  readonly state: State;
  readonly #decoder: Decoder;
  readonly #checks: RowChecks;
  readonly #policy: EvictionPolicy;
  readonly #capacity: number;
  readonly #slack: number;
  readonly #rows: Rows[];
  #position = 0;
  #moved = 0;

  constructor(session: Session, options: EvictingStateOptions) {
    checkStateArguments("an evicting state", session, options, evictingStateOptionNames);
    const { capacity, policy, slack, perHead = false } = options;
    if (!Number.isSafeInteger(capacity) || capacity < 2)
      throw new InsituError(
        "invalid-argument",
        `option capacity must be a whole number of rows from 2 on, got ${valueText(capacity)}`,
      );
    if (typeof policy !== "function")
      throw new InsituError("invalid-argument", `option policy must be a function, got ${valueText(policy)}`);
    checkFlag("option perHead", perHead);
    this.#slack = slack ?? Math.max(1, capacity >> 3);
    if (!(Number.isSafeInteger(this.#slack) && this.#slack >= 1 && this.#slack < capacity))
      throw new InsituError(
        "invalid-argument",
        `option slack must be a whole number from 1 on and below the capacity of ${capacity}, got ${valueText(slack)}`,
      );
    this.#checks = new RowChecks(session);
    this.#checks.requirePositions("evicting");
    this.#decoder = new Decoder(session, { measures: attentionScores });
    this.#policy = policy;
    this.#capacity = capacity;
    this.state = this.#decoder.createState(1, capacity);
    this.#rows = Array.from({ length: perHead ? this.#heads() : 1 }, () => ({
      positions: [],
      scores: this.#decoder.measures ? [] : undefined,
    }));
  }

  /** The position of the next token: how many tokens were read so far. */
  get position(): number {
    return this.#position;
  }

  /** Rows in use. */
  get length(): number {
    return this.#rows[0].positions.length;
  }

  /** The positions of the tokens that are kept; with `perHead`, those of one head. */
  positions(head = 0): readonly number[] {
    if (!Number.isSafeInteger(head) || head < 0 || head >= this.#rows.length)
      throw new InsituError(
        "invalid-argument",
        `positions: there ${this.#rows.length === 1 ? "is one list of rows" : `are ${this.#rows.length} heads`}, got ${valueText(head)}`,
      );
    return this.#rows[head].positions;
  }

  /** Rows that were moved so far, in each cache. */
  get movedRows(): number {
    return this.#moved;
  }

  /** Reads tokens, as many at once as there is room for; the logits after the last. */
  async step(tokens: readonly number[]): Promise<Float32Array> {
    checkNumbers("the tokens of a step", tokens);
    let logits: Float32Array | undefined;
    for (let at = 0; at < tokens.length;) {
      if (this.length === this.#capacity) await this.evict(1);
      const part = tokens.slice(at, at + Math.min(this.#capacity - this.length, Math.max(this.#slack, 1)));
      logits = await this.#run(part);
      at += part.length;
    }
    if (logits === undefined) throw new InsituError("invalid-argument", "a step needs at least one token");
    return logits;
  }

  /** Frees room for `needed` rows and the slack. Nothing changes if the policy keeps too many rows. */
  async evict(needed: number): Promise<void> {
    const what = `the cache of ${this.#capacity} rows is full`;
    if (!(Number.isSafeInteger(needed) && needed >= 0 && needed <= this.#capacity))
      throw new InsituError(
        "invalid-argument",
        `a cache of ${this.#capacity} rows can make room for that many at most, got ${valueText(needed)}`,
      );
    const most = this.#capacity - needed;
    const budget = Math.min(most, this.#capacity - this.#slack);
    const kept = this.#rows.map(({ positions, scores }) =>
      applyPolicy(this.#policy, { positions, scores, budget }, most, what),
    );
    kept.forEach((rows, head) => {
      const { positions } = this.#rows[head];
      this.#checks.requireWindow(rows.length, (row) => positions[rows[row]], this.#position, what);
    });
    const count = kept[0].length;
    if (kept.some((rows) => rows.length !== count))
      throw new InsituError(
        "invalid-argument",
        `${what}: every head must keep as many rows as the others, got ${kept.map(({ length }) => length).join(", ")}`,
      );
    const perHead = this.#rows.length > 1;
    const moves = int64(kept.flat(), perHead ? [1, kept.length, count] : [1, count]);
    await this.state.edit(({ axis }) =>
      axis === undefined ? undefined : { ...repacking, attributes: { axis }, inputs: { rows: moves } },
    );
    this.state.rewind(count);
    this.#moved += kept[0].filter((row, at) => row !== at).length;
    kept.forEach((rows, head) => {
      const { positions, scores } = this.#rows[head];
      this.#rows[head] = {
        positions: rows.map((row) => positions[row]),
        scores: scores && rows.map((row) => scores[row]),
      };
    });
  }

  /** Gives the memory back. */
  release(): void {
    this.state.release();
  }

  async #run(tokens: readonly number[]): Promise<Float32Array> {
    const step = { tokens: [tokens], positions: [this.#position] };
    const { logits, measured } = await this.#decoder.runMeasured(this.state, step);
    for (const rows of this.#rows)
      for (let at = 0; at < tokens.length; at++) {
        rows.positions.push(this.#position + at);
        rows.scores?.push(0);
      }
    this.#position += tokens.length;
    for (const attention of measured) this.#count(attention);
    return logits.at(0).slice();
  }

  /** Adds up the attention of one layer over its queries, and over the heads that share rows. */
  #count(attention: Tensor): void {
    const [, heads, queries, columns] = attention.dims;
    const numbers = readNumbers(attention.toView());
    const group = heads / this.#rows.length;
    for (let head = 0; head < heads; head++) {
      const scores = this.#rows[Math.floor(head / group)].scores!;
      for (let query = 0; query < queries; query++) {
        const start = (head * queries + query) * columns;
        for (let row = 0; row < scores.length; row++) scores[row] += numbers[start + row];
      }
    }
  }

  /** Heads of the caches, where they lie before the rows. */
  #heads(): number {
    const [name] = this.state.names;
    const { dims } = this.state.get(name);
    if (dims.length !== 4 || dims[2] !== this.#capacity)
      throw new InsituError(
        "invalid-argument",
        `cache "${name}" is [${dims.join(",")}]: heads keep rows of their own only in [batch, heads, rows, head size]`,
      );
    return dims[1];
  }
}
