/**
 * Linear caches: a state of a session for one text, or for several that are read together, a sample each. Where samples have one length for all, shorter
 * prompts are padded at the front.
 */
import type { Decoder } from "../decoder/decoder.js";
import type { TokenDrawer } from "../decoder/token-drawer.js";
import type { State } from "../session/state.js";
import { Checkpoints } from "./checkpoints.js";
import { Lane } from "./lane.js";
import type { MarkReason, Rows } from "./rows.js";

/** Texts that lie in one state. */
export class LinearGroup {
  readonly lane: Lane = new Lane();
  readonly state: State;
  readonly capacity: number;
  /** Slots in front of each text. */
  readonly padding: readonly number[];
  readonly #decoder: Decoder;
  #drawer: TokenDrawer | undefined;
  #open: number;

  constructor(decoder: Decoder, state: State, capacity: number, padding: readonly number[]) {
    this.#decoder = decoder;
    this.state = state;
    this.capacity = capacity;
    this.padding = padding;
    this.#open = padding.length;
  }

  get samples(): number {
    return this.padding.length;
  }

  /** True if each of its texts has a length of its own. */
  get ragged(): boolean {
    return this.#decoder.ragged;
  }

  /** Draws its tokens. */
  get drawer(): TokenDrawer {
    return (this.#drawer ??= this.#decoder.drawer());
  }

  /** Lets others have the slots of what was drawn: nobody reads it any more. */
  rest(): void {
    this.#drawer?.release();
    this.#drawer = undefined;
  }

  fork(): LinearGroup {
    return new LinearGroup(this.#decoder, this.state.fork(), this.capacity, this.padding);
  }

  /** One text lets go: the state goes with the last. */
  leave(): void {
    if (--this.#open > 0) return;
    this.rest();
    this.state.release();
  }
}

/** One text of a group. */
export class LinearRows implements Rows {
  readonly group: LinearGroup;
  readonly sample: number;
  /** Where a text that is alone in a state without rows can go back to. */
  readonly #checkpoints: Checkpoints;
  #isReleased = false;

  constructor(group: LinearGroup, sample: number, checkpoints: Checkpoints = new Checkpoints()) {
    this.group = group;
    this.sample = sample;
    this.#checkpoints = checkpoints;
  }

  get byteLength(): number {
    return this.group.state.byteLength / this.group.samples;
  }

  get heldBytes(): number {
    return this.byteLength + this.#checkpoints.byteLength;
  }

  get movedBytes(): number {
    return this.group.state.statistics.movedBytes;
  }

  get goesBack(): boolean {
    return this.group.state.goesBack;
  }

  get mayGuess(): boolean {
    return this.group.samples === 1 || (this.goesBack && this.group.ragged);
  }

  get tellsKinds(): boolean {
    return false;
  }

  readAs(): void {}

  mark(length: number, why: MarkReason): void {
    if (!this.goesBack && this.group.samples === 1) this.#checkpoints.mark(this.group.state, length, why);
  }

  rewind(length: number): number {
    const { state, samples } = this.group;
    if (!this.goesBack && samples === 1) return this.#checkpoints.rewind(state, length);
    state.rewind(samples === 1 ? length : state.lengths.with(this.sample, length));
    return length;
  }

  fork(): LinearRows {
    return new LinearRows(this.group.fork(), this.sample, this.#checkpoints.fork());
  }

  share(_tokens: readonly number[], length: number): number {
    return length;
  }

  learn(): void {}

  get countedRows(): number | undefined {
    const { state } = this.group;
    return state.countsRows ? state.lengths[this.sample] : undefined;
  }

  save(): Promise<Uint8Array> {
    return this.group.state.save();
  }

  restore(bytes: Uint8Array): Promise<void> {
    this.#checkpoints.release();
    return this.group.state.restore(bytes);
  }

  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#checkpoints.release();
    this.group.leave();
  }
}
