/**
 * Elements that are on their way to the host: they have their place there, which is filled while other work goes on. Whoever looks into it before it
 * is full is told that they are absent, as of those that stay in their files (deferred.ts), and can wait for them.
 */
import { AbsentElements, type LaterElements } from "./deferred.js";
import type { ByteStorage, ElementType } from "./element-type.js";
import { View } from "./view.js";

/** Places that several sessions have in common, one for each size; `settle` is there for the one that is to fill them, and tells the others whether it did. */
export interface SharedBytes {
  readonly pieces: readonly Uint8Array[];
  readonly settle?: (isFilled: boolean) => void;
}

/** Gives such places to whoever knows them by the same key; undefined where it cannot. */
export type ShareBytes = (key: string, sizes: readonly number[]) => Promise<SharedBytes | undefined>;

/** Elements in row-major order with a place of their own. */
export class ArrivingElements implements LaterElements {
  readonly key: string;
  readonly type: Exclude<ElementType, "string">;
  /** Where they come to lie. */
  readonly place: ByteStorage;
  readonly #arrival: () => Promise<void>;
  #isThere = false;

  /** `arrival` resolves once the place is full, after `arrived` was called, and rejects where it cannot be filled. */
  constructor(type: Exclude<ElementType, "string">, key: string, place: ByteStorage, arrival: () => Promise<void>) {
    this.type = type;
    this.key = key;
    this.place = place;
    this.#arrival = arrival;
  }

  get elements(): ByteStorage {
    if (!this.#isThere) throw new AbsentElements(this);
    return this.place;
  }

  viewAs(shape: readonly number[]): View {
    return this.#isThere ? new View(this.type, shape, this.place) : new ArrivingView(this, shape);
  }

  hold(): Promise<void> {
    return this.#arrival();
  }

  /** The place is full. */
  arrived(): void {
    this.#isThere = true;
  }
}

/** A view of elements that may not be there yet: it is compared with others by their place. */
class ArrivingView extends View {
  readonly #elements: ArrivingElements;

  constructor(elements: ArrivingElements, shape: readonly number[], offset?: number, strides?: readonly number[]) {
    super(elements.type, shape, elements.place, offset, strides);
    this.#elements = elements;
  }

  override get data(): ByteStorage {
    return this.#elements.elements;
  }

  override show(shape: readonly number[], offset: number = this.offset, strides?: readonly number[]): View {
    return new ArrivingView(this.#elements, shape, offset, strides);
  }
}
