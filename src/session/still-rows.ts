/**
 * Rows that a decoder makes in its first run and only reads in all others, as those of an encoder: they stay in the backend's memory, and a
 * tensor shows them. Fed as it came, it is read where it lies.
 */
import type { Places } from "../backends/backend.js";
import { InsituError } from "../base/error.js";
import type { Value } from "../graph/graph.js";
import { cloneView } from "../tensor/copy.js";
import type { Placed } from "../tensor/placed.js";
import { lentTensor, type Tensor } from "../tensor/tensor.js";
import { hostView, type View } from "../tensor/view.js";
import type { HandedOut } from "./handed-out.js";
import { Inside, insideOf } from "./handles.js";

/** Who keeps such rows. */
interface StillOwner {
  readonly released: boolean;
  readonly handedOut: HandedOut;
}

/** Memory that is given back once, whoever says so first. */
export class StillMemory {
  readonly place: Placed;
  /** The elements on the host, once the memory was given back before its tensor was. */
  host: View | undefined;
  readonly #places: Places;
  readonly #freed: () => void;
  #isFree = false;

  constructor(places: Places, place: Placed, freed: () => void) {
    this.#places = places;
    this.place = place;
    this.#freed = freed;
  }

  /** Gives the memory back and keeps the elements in an array of the host, which is collected with the tensor. */
  spill(): void {
    if (this.#isFree) return;
    this.host = cloneView(hostView(this.place));
    this.free();
  }

  /** The same where the elements cannot be looked at. */
  async bringOut(): Promise<void> {
    const host = await this.#places.read(this.place);
    if (this.#isFree) return;
    this.host = host;
    this.free();
  }

  free(): void {
    if (this.#isFree) return;
    this.#isFree = true;
    this.#places.free(this.place);
    this.#freed();
  }
}

/** Tensors that were dropped without `dispose`. */
const dropped = new FinalizationRegistry<StillMemory>((memory) => {
  try {
    memory.free();
  } catch {
    // The backend cannot take its memory back, and there is nobody to tell.
  }
});

class StillRows extends Inside {
  readonly type: Inside["type"];
  readonly shape: readonly number[];
  readonly owner: object;
  readonly #session: StillOwner;
  readonly #places: Places;
  readonly #memory: StillMemory;
  #lent: View | undefined;

  constructor(owner: object, session: StillOwner, places: Places, memory: StillMemory) {
    super();
    const { type, shape } = memory.place;
    this.owner = owner;
    this.#session = session;
    this.#places = places;
    this.#memory = memory;
    this.type = type;
    this.shape = Object.freeze([...shape]);
    dropped.register(this, memory);
  }

  get location(): Inside["location"] {
    return this.#memory.host === undefined ? this.#places.location : "cpu";
  }

  get isLent(): boolean {
    return this.#lent !== undefined;
  }

  /** Where the elements are in the backend's memory; undefined once they are the host's. */
  get inside(): Placed | undefined {
    this.check();
    return this.#memory.host === undefined ? this.#memory.place : undefined;
  }

  get #place(): Placed {
    this.check();
    return this.#memory.host ?? this.#memory.place;
  }

  check(): void {
    if (this.#session.released && this.#memory.host === undefined)
      throw new InsituError("released", "the tensor's session was released, and its memory with it");
  }

  view(): View {
    return this.#lent ?? hostView(this.#place);
  }

  lend(): View {
    return (this.#lent ??= cloneView(hostView(this.#place)));
  }

  async read(): Promise<View> {
    return this.#lent ?? this.#memory.host ?? this.#places.read(this.#place);
  }

  override again(): Inside {
    // One array for both, as tensors of the host have it.
    if (this.location === "cpu") this.lend();
    return this;
  }

  override disposed(): void {
    this.#memory.free();
  }
}

/** The same elements in the memory of a backend, for an input, and that memory; `freed` is told when it is let go of. */
export function keptStill(
  made: Tensor,
  input: Value,
  owner: object,
  session: StillOwner,
  places: Places,
  freed: () => void,
): { readonly tensor: Tensor; readonly memory: StillMemory } {
  const from = made.toView();
  const [place] = places.allocate([{ cache: input, type: from.type, shape: from.shape }]);
  places.copy([{ from, to: place }]);
  const { handedOut } = session;
  const memory = new StillMemory(places, place, () => {
    handedOut.delete(memory);
    freed();
  });
  handedOut.add(memory);
  return { tensor: lentTensor(new StillRows(owner, session, places, memory)), memory };
}

/** Where a tensor's elements lie that stay inside with this owner, and are as they were made; undefined for others. */
export function stillPlace(tensor: unknown, owner: object): Placed | undefined {
  const inside = insideOf(tensor);
  return inside instanceof StillRows && !inside.isLent && inside.owner === owner ? inside.inside : undefined;
}
