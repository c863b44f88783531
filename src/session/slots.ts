/**
 * Tensors in the memory of a session's backend, outside of any state: what one run leaves in a slot is fed to the next, and need not come to
 * the host. A slot on the host's own memory is a tensor like any other.
 */
import type { Places } from "../backends/backend.js";
import { InsituError } from "../base/error.js";
import type { Value } from "../graph/graph.js";
import { Lender } from "../tensor/lender.js";
import type { Placed } from "../tensor/placed.js";
import { isTensor, lentTensor, type Tensor } from "../tensor/tensor.js";
import { hostView, View } from "../tensor/view.js";
import type { HandedOut } from "./handed-out.js";

/** The session behind a slot. */
export interface SlotOwner {
  readonly released: boolean;
  /** Its backend: what runs there takes the slot as it lies. */
  readonly opened: object;
  readonly handedOut: HandedOut;
}

class Slot extends Lender {
  readonly type: Lender["type"];
  readonly shape: readonly number[];
  readonly place: Placed;
  readonly owner: SlotOwner;
  readonly #places: Places;

  constructor(owner: SlotOwner, places: Places, place: Placed) {
    super();
    this.owner = owner;
    this.place = place;
    this.type = place.type;
    this.shape = place.shape;
    this.#places = places;
  }

  get location(): Lender["location"] {
    return this.#places.location;
  }

  check(): void {
    if (this.owner.released)
      throw new InsituError("released", "the tensor's session was released, and its memory with it");
  }

  view(): View {
    this.check();
    return hostView(this.place);
  }

  lend(): View {
    this.check();
    return this.#places.lend(this.place);
  }

  async read(): Promise<View> {
    this.check();
    return this.#places.read(this.place);
  }
}

/** What a run left on the device: given back once no tensor shows it, and brought to the host where the session goes before. */
class ResultSlot extends Slot {
  #shown = 1;
  /** The elements, once they were brought out. */
  #host: View | undefined;
  readonly #free: () => void;

  constructor(owner: SlotOwner, places: Places, place: Placed) {
    super(owner, places, place);
    owner.handedOut.add(this);
    this.#free = () => {
      owner.handedOut.delete(this);
      // What was brought out, and the memory of a session that was released, was given back already.
      if (this.#host === undefined && !owner.released) places.free(place);
    };
  }

  override get location(): Lender["location"] {
    return this.#host === undefined ? super.location : "cpu";
  }

  override check(): void {
    if (this.#host === undefined) super.check();
    if (this.#shown === 0) throw new InsituError("released", "the tensor was disposed, and its memory given back");
  }

  override view(): View {
    this.check();
    return this.#host ?? super.view();
  }

  override lend(): View {
    this.check();
    return this.#host ?? super.lend();
  }

  override async read(): Promise<View> {
    this.check();
    return this.#host ?? super.read();
  }

  async bringOut(): Promise<void> {
    const host = await super.read();
    if (this.#shown === 0) return;
    this.#free();
    this.#host = host;
  }

  override again(): Slot {
    this.#shown++;
    return this;
  }

  override disposed(): void {
    if (this.#shown > 0 && --this.#shown === 0) this.#free();
  }
}

const slots = new WeakMap<Tensor, Slot>();

/** Gives back what tensors showed that were dropped without `dispose`. */
const dropped = new FinalizationRegistry<ResultSlot>((slot) => slot.disposed());

/** A tensor on the backend for one result of a run. */
export function makeResultSlot(
  owner: SlotOwner,
  places: Places,
  output: Value,
  type: Placed["type"],
  dims: readonly number[],
): Tensor {
  const [place] = places.allocate([{ cache: output, type, shape: dims }]);
  const slot = new ResultSlot(owner, places, place);
  const tensor = lentTensor(slot);
  slots.set(tensor, slot);
  dropped.register(tensor, slot);
  return tensor;
}

/** True for a tensor in the memory of some session's backend. */
export const isSlot = (tensor: Tensor): boolean => slots.has(tensor);

/** A slot for tensors that an input takes. `bounds`: whole numbers between which all lies that is ever written there, where that is known. */
export function makeSlot(
  owner: SlotOwner,
  places: Places,
  input: Value,
  dims: readonly number[],
  bounds?: readonly [least: number, most: number],
): Tensor {
  const [place] = places.allocate([{ cache: input, type: input.fact!.type, shape: dims, bounds }]);
  const slot = new Slot(owner, places, place);
  const tensor = lentTensor(slot);
  slots.set(tensor, slot);
  return tensor;
}

/** Where a tensor lies that is a slot on this session's device; undefined for others. */
export function placeInSlot(tensor: unknown, owner: SlotOwner): Placed | undefined {
  const slot = isTensor(tensor) ? slots.get(tensor) : undefined;
  if (slot === undefined || slot.owner.opened !== owner.opened || slot.place instanceof View) return undefined;
  slot.check();
  return slot.place;
}

/** Rows of a tensor, a slot or the host's own, that go to rows of a slot. */
export interface SlotPiece {
  readonly from: Tensor;
  readonly start: number;
  readonly count: number;
  /** The first row that they go to. */
  readonly at: number;
}

/** Writes rows of a slot. */
export function fillSlot(owner: SlotOwner, places: Places, target: Tensor, pieces: readonly SlotPiece[]): void {
  const to = placeInSlot(target, owner) ?? target.toView();
  places.copy(
    pieces.map(({ from, start, count, at }) => ({
      from: (placeInSlot(from, owner) ?? from.toView()).slice(0, start, start + count),
      to: to.slice(0, at, at + count),
    })),
  );
}
