/**
 * Where the states without rows of many texts lie: slots of one pool. A sequence has one; a checkpoint of a prefix is one that nobody writes. Whoever
 * is about to write a slot that others hold gets a copy first. Checkpoints that were not used longest give way to sequences. Counts and copies only.
 */
import { InsituError } from "../base/error.js";
import type { Session } from "../session/session.js";
import { byteLengthOf } from "../tensor/element-type.js";

/** The names of a session's states without rows, and the bytes that one text's take. */
interface PooledStates {
  readonly names: readonly string[];
  readonly byteLength: number;
}

/** What a session's model on pages keeps beside pages. */
export function pooledStatesOf({ inputMetadata }: Pick<Session, "inputMetadata">): PooledStates {
  const pools = inputMetadata.filter(({ shape }) => shape[0] === "num_states");
  const bytes = pools.map(({ type, shape }) =>
    byteLengthOf(
      type,
      shape.slice(1).reduce<number>((all, dim) => all * Number(dim), 1),
    ),
  );
  return { names: pools.map(({ name }) => name), byteLength: bytes.reduce((sum, each) => sum + each, 0) };
}

/** Slots where nobody says: a text that runs takes one, and so does a checkpoint. Large ones are fewer. */
export const usualSlots = ({ byteLength }: PooledStates): number =>
  Math.min(128, Math.max(24, Math.floor(2 ** 29 / Math.max(1, byteLength))));

/** What a sequence's states hold: those after its first `length` tokens, in a slot; none has read nothing. */
interface Held {
  readonly slot: number | undefined;
  readonly length: number;
}

/** Of a text that has read nothing: nobody writes it. */
const zeros = 0;

/** The slots of one pool. Sequences and the contents of blocks are told by identity. */
export class StateSlots {
  readonly count: number;
  readonly #copy: (from: number, to: number) => void;
  readonly #references: Int32Array;
  readonly #free: number[];
  readonly #held = new Map<object, Held>();
  /** By the block that the prefix ends with; the one that was used longest ago comes first. */
  readonly #checkpoints = new Map<object, Held>();
  readonly #mostCheckpoints: number;

  /** `copy`: in every state slot `to` becomes what slot `from` is. One slot more than `count` is made: slot 0 stays zeros. */
  constructor(count: number, copy: (from: number, to: number) => void) {
    this.count = count;
    this.#copy = copy;
    this.#references = new Int32Array(count + 1);
    this.#free = Array.from({ length: count }, (_, at) => count - at);
    // Half of them are the sequences' alone.
    this.#mostCheckpoints = Math.max(1, Math.floor(count / 2));
  }

  get checkpoints(): number {
    return this.#checkpoints.size;
  }

  /** Tokens that a sequence's states have read. */
  lengthOf(sequence: object): number {
    return this.#held.get(sequence)?.length ?? 0;
  }

  /** The slot that a sequence may write: its own. Throws where all slots are held. */
  own(sequence: object): number {
    const { slot, length } = this.#held.get(sequence) ?? { slot: undefined, length: 0 };
    if (slot !== undefined && this.#references[slot] === 1) return slot;
    const fresh = this.#take();
    this.#copy(slot ?? zeros, fresh);
    this.#hold(sequence, { slot: fresh, length });
    return fresh;
  }

  /** A run has read tokens of a sequence up to `length`. */
  read(sequence: object, length: number): void {
    const { slot } = this.#held.get(sequence)!;
    this.#held.set(sequence, { slot, length });
  }

  /** Keeps what a sequence's states hold now as the checkpoint of the prefix that ends with a block. */
  mark(sequence: object, block: object): void {
    const held = this.#held.get(sequence);
    if (held?.slot === undefined || this.#checkpoints.has(block)) return;
    while (this.#checkpoints.size >= this.#mostCheckpoints) this.#dropOldest();
    this.#references[held.slot]++;
    this.#checkpoints.set(block, held);
  }

  /** True if there is a checkpoint of the prefix that ends with a block. */
  has(block: object | undefined): boolean {
    return block !== undefined && this.#checkpoints.has(block);
  }

  /** A sequence goes on from a checkpoint, or from nothing. */
  load(sequence: object, block: object | undefined): void {
    const found = block && this.#checkpoints.get(block);
    if (block !== undefined && found !== undefined) {
      this.#checkpoints.delete(block);
      this.#checkpoints.set(block, found);
      this.#references[found.slot!]++;
    }
    this.#hold(sequence, found);
  }

  /** A sequence is cut to so many tokens, the last of them in a block whose contents are known or not. Throws where its states cannot go back there. */
  cut(sequence: { readonly name: string }, length: number, block: object | undefined): void {
    if (length === this.lengthOf(sequence)) return;
    if (length > 0 && !this.has(block))
      throw new InsituError(
        "invalid-argument",
        `sequence "${sequence.name}" has recurrent states, and no checkpoint of them after ${length} tokens: truncate it to 0, or fork it before the run that is to be undone`,
      );
    this.load(sequence, length === 0 ? undefined : block);
  }

  /** A second sequence holds what a sequence does. */
  fork(sequence: object, fork: object): void {
    const held = this.#held.get(sequence);
    if (held?.slot !== undefined) this.#references[held.slot]++;
    this.#hold(fork, held);
  }

  /** A sequence lets go. */
  release(sequence: object): void {
    this.#hold(sequence, undefined);
  }

  /** Lets go of all checkpoints. */
  forget(): void {
    while (this.#checkpoints.size > 0) this.#dropOldest();
  }

  #hold(sequence: object, held: Held | undefined): void {
    const before = this.#held.get(sequence);
    if (held === undefined) this.#held.delete(sequence);
    else this.#held.set(sequence, held);
    if (before?.slot !== undefined) this.#drop(before.slot);
  }

  #drop(slot: number): void {
    if (--this.#references[slot] === 0) this.#free.push(slot);
  }

  #dropOldest(): void {
    for (const [block, { slot }] of this.#checkpoints) {
      this.#checkpoints.delete(block);
      return this.#drop(slot!);
    }
  }

  #take(): number {
    while (this.#free.length === 0 && this.#checkpoints.size > 0) this.#dropOldest();
    const slot = this.#free.pop();
    if (slot === undefined)
      throw new InsituError(
        "out-of-memory",
        `all ${this.count} slots of recurrent states are held by sequences: release one, or ask for more (option states)`,
      );
    this.#references[slot] = 1;
    return slot;
  }
}
