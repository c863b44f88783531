/** Slots of a session that runs leave results in for each other: programs are bound to them, so that those that nobody has are used again. */
import type { Session } from "../session/session.js";
import type { Tensor } from "../tensor/tensor.js";

/** Slots by who has them. */
export class SlotPool {
  readonly #session: Pick<Session, "createSlot">;
  readonly #free = new Map<string, Tensor[]>();
  readonly #taken = new WeakMap<object, Map<string, Tensor>>();

  constructor(session: Pick<Session, "createSlot">) {
    this.#session = session;
  }

  /** The slot of an owner for an input, of one shape and use: the same one each time it asks. */
  take(
    owner: object,
    input: string,
    dims: readonly number[],
    bounds?: readonly [least: number, most: number],
    use = "",
  ): Tensor {
    const own = this.#taken.get(owner) ?? new Map<string, Tensor>();
    this.#taken.set(owner, own);
    // Of each use apart: programs find the same slots in the same places again.
    const key = `${input} ${dims.join()} ${use}`;
    let slot = own.get(key);
    if (slot === undefined) {
      slot = this.#free.get(key)?.pop() ?? this.#session.createSlot(input, dims, bounds);
      own.set(key, slot);
    }
    return slot;
  }

  /** Takes back all that an owner has. */
  giveAll(owner: object): void {
    for (const [key, slot] of this.#taken.get(owner) ?? []) this.#free.set(key, [...(this.#free.get(key) ?? []), slot]);
    this.#taken.delete(owner);
  }
}
