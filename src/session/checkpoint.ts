/**
 * What the caches without rows of a state held at one moment, so that the state can go back to it: a copy of them alone, since rows are still there
 * when lengths go back. Holders count; the last one gives the memory back.
 */
import { InsituError } from "../base/error.js";
import type { Placed } from "../tensor/placed.js";
import type { Holding } from "./holding.js";

/** True for a cache that has no rows to go back to, or only its last ones. */
export const isWithoutRows = ({ pair }: Holding): boolean => pair.axis === undefined;

/** Gives back the memory of checkpoints that were dropped without `release`. */
const dropped = new FinalizationRegistry<() => void>((free) => {
  try {
    free();
  } catch {
    // The session is gone, and its memory with it.
  }
});

/** A copy of a state's recurrent caches at one moment. `state.checkpoint` makes one, `state.goBack` returns to it. */
export class Checkpoint {
  /** Valid rows per sample at that moment. */
  readonly lengths: readonly number[];
  readonly #owner: { readonly released: boolean };
  readonly #places: ReadonlyMap<string, Placed>;
  readonly #free: () => void;
  #holders = 1;

  /** For states. */
  constructor(owner: { readonly released: boolean }, holdings: readonly Holding[], lengths: readonly number[]) {
    this.lengths = [...lengths];
    this.#owner = owner;
    const kept = holdings.filter(isWithoutRows).map((holding) => [holding, holding.keep()] as const);
    this.#places = new Map(kept.map(([{ name }, place]) => [name, place]));
    this.#free = () => {
      if (!owner.released) for (const [holding, place] of kept) holding.letGo(place);
    };
    dropped.register(this, this.#free, this);
  }

  /** True if the value is a checkpoint. */
  static isCheckpoint(value: unknown): value is Checkpoint {
    return typeof value === "object" && value !== null && #places in value;
  }

  /** The checkpoint's size in bytes. */
  get byteLength(): number {
    return [...this.#places.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** Adds a holder: the memory is freed when each holder has called `release`. */
  retain(): this {
    this.#live();
    this.#holders++;
    return this;
  }

  /** Releases the checkpoint for one holder. The last one frees the memory. */
  release(): void {
    if (this.#holders === 0 || --this.#holders > 0) return;
    dropped.unregister(this);
    this.#free();
  }

  /** For states: writes what was kept into caches of the same session. Throws, with nothing written, where they are another's. */
  writeTo(owner: object, holdings: ReadonlyMap<string, Holding>): void {
    this.#live();
    if (owner !== this.#owner)
      throw new InsituError(
        "invalid-state",
        "the checkpoint belongs to another session's state: go back to one of this session's",
      );
    for (const [name, place] of this.#places) holdings.get(name)!.write(place);
  }

  #live(): void {
    if (this.#holders === 0)
      throw new InsituError("released", "the checkpoint was released: keep it as long as you may go back to it");
  }
}
