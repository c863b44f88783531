/** The caches of one conversation or batch, owned by the runtime between runs: written by each run, never returned or copied. Lengths are data, one per sample. */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import { lentTensor, type Tensor } from "../tensor/tensor.js";
import { type TensorLike, tensorOf } from "../tensor/tensor-like.js";
import type { CacheEdit, EditedCache } from "./cache-edits.js";
import { Checkpoint, isWithoutRows } from "./checkpoint.js";
import { HeldCache } from "./held-cache.js";
import type { Holding } from "./holding.js";
import { LengthViews, rewoundLengths } from "./lengths.js";
import type { Pairing } from "./pairing.js";
import { readSaved } from "./read-saved-state.js";
import { writeSaved } from "./saved-state.js";
import { copyPart, readParts, writeParts } from "./state-parts.js";
import { dropped, type StateOwner, type StateStatistics } from "./state-owner.js";
import type { Outcome } from "./stateful-run.js";
import { RowMarks } from "./written-rows.js";

/**
 * The caches of one conversation or batch, which runs update in place. `session.createState` makes one.
 * @example
 * ```ts
 * import { InferenceSession, Tensor } from "insitu";
 *
 * const session = await InferenceSession.create("decoder.onnx", { inPlace: "require" });
 * const state = session.createState({ dims: { batch: 1, capacity: 64 } });
 * const input_ids = new Tensor("int64", [7n, 21n, 3n], [1, 3]);
 * const position_ids = new Tensor("int64", [0n, 1n, 2n], [1, 3]);
 * const { logits } = await session.run({ input_ids, position_ids }, { state }); // prefill: three rows written in place
 * state.rewind(2); // forget the last token
 * const branch = state.fork(); // shares memory until one of the two is written
 * await branch.restore(await state.save()); // bytes, in the layout of safetensors
 * console.log(logits.dims, state.lengths);
 * await session.release();
 * ```
 */
export class State {
  readonly #holdings: ReadonlyMap<string, Holding>;
  readonly #owner: StateOwner;
  /** For sessions: what each cache's next content is. */
  readonly pairing: Pairing;
  /** For sessions: what fills in lengths that are not fed. */
  readonly lengthViews: LengthViews = new LengthViews();
  /** Replaced, never written: what was handed out stays as it was. */
  #lengths: readonly number[];
  /** Rows that are written, in caches that fill up from the front. */
  readonly #rows: RowMarks;
  #busy = false;
  #released = false;
  /** Why the contents cannot be vouched for; undefined while they can. */
  #lost: InsituError | undefined;
  #runs = 0;
  #movedBytes = 0;

  /** For sessions: `owner` is what a run checks the state against. */
  constructor(
    owner: StateOwner,
    pairing: Pairing,
    holdings: readonly Holding[],
    lengths: readonly number[],
    rows: RowMarks = new RowMarks(lengths),
  ) {
    this.#owner = owner;
    this.pairing = pairing;
    this.#holdings = new Map(holdings.map((holding) => [holding.name, holding]));
    this.#lengths = [...lengths];
    this.#rows = rows;
    dropped.register(this, [owner, holdings], this);
  }

  /** True if the value is a state. */
  static isState(value: unknown): value is State {
    return typeof value === "object" && value !== null && #holdings in value;
  }

  /** The names of the inputs that the state holds. */
  get names(): readonly string[] {
    return [...this.#holdings.keys()];
  }

  /** How many rows (tokens) are valid, for each sample of the batch. */
  get lengths(): readonly number[] {
    return this.#lengths;
  }

  /** True if no sample has valid rows, as in a new state. Recurrent states, which have no rows, do not count. */
  get isEmpty(): boolean {
    return this.#lengths.every((length) => length === 0);
  }

  /** True if a cache has a row for each token, which `lengths` count. False for models with recurrent states only. */
  get countsRows(): boolean {
    return [...this.#holdings.values()].some(({ pair }) => pair.axis !== undefined);
  }

  /** For generation: true if every cache has rows to go back to. */
  get goesBack(): boolean {
    return ![...this.#holdings.values()].some(isWithoutRows);
  }

  /** Size of all caches at full capacity, in bytes. */
  get byteLength(): number {
    let bytes = 0;
    for (const { buffer } of this.#holdings.values()) bytes += buffer.byteLength;
    return bytes;
  }

  /** How many runs used the state, and how many bytes had to be copied. */
  get statistics(): StateStatistics {
    return { runs: this.#runs, movedBytes: this.#movedBytes };
  }

  /**
   * A cache at full capacity, as a live view without a copy. The tensor shows what each run writes, until a reserve has to grow. It cannot
   * be used once the state or the session is released; an array that its `data` returned stays valid. On a GPU, `getData()` gives a copy.
   */
  get(name: string): Tensor {
    const check = (): void => {
      this.#live();
      this.#whole();
    };
    check();
    return lentTensor(new HeldCache(this.#holding(name), check, () => this.#rows.lend()));
  }

  /** Copies a tensor into a cache. */
  set(name: string, given: TensorLike): void {
    this.#idle();
    this.#holding(name);
    const tensor = tensorOf(given, `cache "${name}"`);
    // Asked again: the getters of somebody else's tensor may have done anything.
    this.#idle();
    const holding = this.#holding(name);
    if (tensor === undefined)
      throw new InsituError("invalid-argument", `cache "${name}" takes a Tensor, got ${valueText(given)}`);
    holding.write(tensor.toView());
    this.#rows.wrote(Infinity);
    if (holding.grows) this.#lengths = this.#lengths.map(() => holding.length);
  }

  /**
   * Forgets everything after `length` rows, in all samples, or with one length for each. The next run overwrites what was forgotten.
   * @throws InsituError `invalid-argument` for a length beyond the valid rows; `invalid-state` while a run uses the state.
   */
  rewind(length: number | readonly number[]): void {
    this.#idle();
    const lengths = rewoundLengths(length, this.#lengths);
    for (const holding of this.#holdings.values()) {
      if (isWithoutRows(holding)) {
        if (lengths.every((wanted, sample) => wanted === this.#lengths[sample])) continue;
        throw new InsituError(
          "invalid-argument",
          `"${holding.name}" has no rows to go back to: take a checkpoint of the state before the run that is to be undone, and go back to that; or reset it`,
        );
      }
      if (holding.grows && lengths.some((wanted) => wanted !== lengths[0]))
        throw new InsituError(
          "invalid-argument",
          `cache "${holding.name}" has one length for all samples, got [${lengths.join(",")}]`,
        );
    }
    this.#cut(lengths);
  }

  /** Forgets everything, as in a new state: no rows are valid, and recurrent states are zeros. */
  reset(): void {
    this.#idle();
    for (const holding of this.#holdings.values()) if (isWithoutRows(holding)) holding.clear();
    this.#cut(this.#lengths.map(() => 0));
  }

  /**
   * Copies the recurrent states, which cannot be rewound, until you release the checkpoint. `goBack` returns to it, from any later moment of this
   * state or of a fork.
   */
  checkpoint(): Checkpoint {
    this.#idle();
    return new Checkpoint(this.#owner, [...this.#holdings.values()], this.#lengths);
  }

  /** Returns to a checkpoint, and forgets everything after it. The rows before it must be unchanged since it was taken. */
  goBack(to: Checkpoint): void {
    this.#idle();
    if (!Checkpoint.isCheckpoint(to))
      throw new InsituError("invalid-argument", `goBack takes a checkpoint of a state, got ${valueText(to)}`);
    const { lengths } = to;
    if (lengths.length !== this.#lengths.length || lengths.some((length, sample) => length > this.#lengths[sample]))
      throw new InsituError(
        "invalid-argument",
        `the checkpoint has [${lengths.join(",")}] rows, the state [${this.#lengths.join(",")}]: it cannot go back to what it has not read`,
      );
    to.writeTo(this.#owner, this.#holdings);
    this.#cut(lengths);
  }

  /**
   * Runs an operator on caches, in place. `choose` is called for each cache, and returns the operator with its other inputs, or undefined to leave
   * the cache as it is. Lengths do not change. If the edit is refused, nothing was written.
   */
  async edit(choose: (cache: EditedCache) => CacheEdit | undefined): Promise<void> {
    this.#idle();
    if (typeof choose !== "function")
      throw new InsituError("invalid-argument", `edit takes a function, got ${valueText(choose)}`);
    const chosen = [...this.#holdings.values()].flatMap((holding) => {
      const { name, type, buffer, pair } = holding;
      const edit = choose({ name, type, dims: buffer.shape, axis: pair.axis });
      return edit === undefined ? [] : [{ holding, edit }];
    });
    this.#busy = true;
    try {
      this.#movedBytes += await this.#owner.edits.run(chosen);
      if (chosen.length > 0) this.#rows.wrote(Infinity);
    } catch (error) {
      if (error instanceof InsituError && error.code === "state-lost") this.lose(error);
      throw error;
    } finally {
      this.#busy = false;
    }
  }

  /** Throws if a run is using the state, or if it was released or lost. */
  requireIdle(): void {
    this.#idle();
  }

  /** For pages: in every cache of these, part `to` along the first axis becomes what part `from` is. */
  copyPart(from: number, to: number, names: readonly string[] = this.names): void {
    this.#idle();
    this.#movedBytes += copyPart(this.#named(names), from, to);
  }

  /** For pages: the bytes of parts along the first axis, one after another, of one cache after the other; as they are when this is called. */
  async readParts(parts: readonly number[], names: readonly string[] = this.names): Promise<Uint8Array[]> {
    this.#idle();
    return readParts(this.#named(names), parts);
  }

  /** For pages: writes what `readParts` read, joined, to such parts. */
  writeParts(parts: readonly number[], bytes: Uint8Array, names: readonly string[] = this.names): void {
    this.#idle();
    this.#movedBytes += writeParts(this.#named(names), parts, bytes);
  }

  /** Makes a second state with the same contents. Bytes are copied only when one of the two is written. */
  fork(): State {
    this.#idle();
    return new State(
      this.#owner,
      this.pairing,
      [...this.#holdings.values()].map((holding) => holding.fork()),
      this.#lengths,
      this.#rows.fork(),
    );
  }

  /**
   * Saves the state as bytes, in the layout of safetensors. Only rows that were written are saved, not the whole capacity.
   * @throws InsituError `invalid-state` while a run uses the state.
   */
  async save(): Promise<Uint8Array> {
    this.#idle();
    const holdings = [...this.#holdings.values()];
    const { filled } = this.pairing.standing.writtenRows;
    const rows = this.#rows.saved(this.#lengths, (row) =>
      [...filled].every(([name, { axis }]) => this.#holding(name).isZeroFrom(axis, row)),
    );
    const caches = holdings.map((holding) => ({ holding, place: holding.first(filled.get(holding.name)?.axis, rows) }));
    return writeSaved(caches, this.#lengths);
  }

  /**
   * Restores what `save` saved, also from a state of another capacity if there is room for its rows.
   * @throws InsituError `invalid-state`, with nothing changed, for bytes that are damaged or do not fit.
   */
  async restore(bytes: Uint8Array): Promise<void> {
    this.#waiting();
    const holdings = [...this.#holdings.values()];
    const { hasBoundedLengths, writtenRows } = this.pairing.standing;
    const saved = readSaved(bytes, holdings, this.#lengths.length, hasBoundedLengths, writtenRows.filled);
    // Room is made before the first byte is written.
    for (const holding of holdings) {
      holding.detach();
      holding.reserve(saved.rows.get(holding) ?? 0, true);
    }
    const { touched } = this.#rows;
    this.#rows.restart();
    for (const holding of holdings) {
      const contents = saved.contentsOf(holding);
      const axis = writtenRows.filled.get(holding.name)?.axis;
      if (axis === undefined) holding.write(contents);
      else {
        holding.fill(axis, contents, touched);
        this.#rows.wrote(contents.shape[axis]);
      }
    }
    this.#lengths = saved.lengths;
    this.#lost = undefined;
  }

  /** For sessions: the caches, reserved for one run. Throws if the state is another model's or in use. */
  acquire(owner: StateOwner): ReadonlyMap<string, Holding> {
    if (owner !== this.#owner)
      throw new InsituError(
        "invalid-state",
        "the state was made by another session: create it with this session's createState",
      );
    this.#idle();
    this.#busy = true;
    return this.#holdings;
  }

  /** For sessions: a cache, to be looked at where no run is writing. Throws where there is nothing to look at any more. */
  cache(name: string): Holding {
    this.#live();
    this.#whole();
    return this.#holding(name);
  }

  /** For sessions: a run failed while it wrote the caches, and nothing can put back what they held. */
  lose(reason: InsituError): void {
    this.#lost = reason;
  }

  /** For sessions: ends a run, or several, with the new lengths where it succeeded. */
  settle(outcome: Outcome | undefined): void {
    this.#busy = false;
    if (outcome === undefined) return;
    this.#lengths = outcome.lengths;
    this.#rows.wrote(outcome.writtenRows);
    this.#runs += outcome.runs ?? 1;
    this.#movedBytes += outcome.movedBytes;
  }

  /** Frees the memory. The state cannot be used afterwards. */
  release(): void {
    if (this.#released) return;
    if (!this.#owner.released) this.#waiting();
    this.#released = true;
    dropped.unregister(this);
    // The memory of a session that was released is gone already.
    if (!this.#owner.released) for (const holding of this.#holdings.values()) holding.release();
  }

  /** Throws unless the state can be used. */
  #idle(): void {
    this.#waiting();
    this.#whole();
  }

  /** Throws if a run holds the state. */
  #waiting(): void {
    this.#live();
    if (this.#busy) throw new InsituError("invalid-state", "the state is in use by a run: wait for its promise");
  }

  #live(): void {
    if (this.#released) throw new InsituError("released", "the state was released; create a new one");
    if (this.#owner.released)
      throw new InsituError("released", "the state's session was released, and its caches with it");
  }

  #whole(): void {
    if (this.#lost !== undefined)
      throw new InsituError("state-lost", `the state was lost by an earlier run: ${this.#lost.message}`, {
        cause: this.#lost,
      });
  }

  /** Forgets the rows behind these lengths. */
  #cut(lengths: readonly number[]): void {
    for (const holding of this.#holdings.values()) if (!isWithoutRows(holding)) holding.truncate(lengths[0] ?? 0);
    this.#lengths = lengths;
    this.#rows.forgetBehind(lengths);
  }

  readonly #named = (names: readonly string[]): Holding[] => names.map((name) => this.#holding(name));

  #holding(name: string, who = "the state holds"): Holding {
    const holding = this.#holdings.get(name);
    if (holding === undefined)
      throw new InsituError("invalid-state", `${who} ${valueText(name)}, which is none of ${this.names.join(", ")}`);
    return holding;
  }
}
