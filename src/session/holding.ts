/**
 * One input that a state holds: its buffer, its reserve along the sequence, and who shares it. Knows places and lengths of one
 * cache; the backend knows its bytes, the state the conversation.
 */
import type { CacheRequest, Move, Places } from "../backends/backend.js";
import { InsituError } from "../base/error.js";
import { isKnown } from "../graph/dim.js";
import { factText } from "../graph/fact.js";
import type { Pair } from "../plan/pairs.js";
import { cloneView } from "../tensor/copy.js";
import type { ElementType } from "../tensor/element-type.js";
import type { TensorLocation } from "../tensor/lender.js";
import { type Placed, sameNumbers } from "../tensor/placed.js";
import { bytesIn, hostView, View } from "../tensor/view.js";

/** A buffer that forks of a state may share until one of them writes. */
interface Shared {
  /** Contiguous, of the full capacity. */
  place: Placed;
  holders: number;
  /** Set once it was shown as a view. */
  seen?: true;
  /** The same bytes in the arrays that callers have, once one was asked for, and the holdings that were asked. */
  lent?: { readonly view: View; readonly by: Set<Holding> };
}

/** A present on its way to becoming the past. */
export interface Adoption {
  /** Bytes that do not stay where the run made them. */
  readonly movedBytes: number;
  /** What is to be brought into the cache's buffer before `settle`. */
  readonly move?: Move;
  /** Makes the present the past, and lets go of what it replaces. */
  settle(): void;
  /** Leaves the cache as it is. */
  abandon(): void;
}

/** The first reserve of a cache that grows, in rows, where the caller names no capacity. */
const firstReserve = 64;

/** A cache before it is made: what its buffer is to be. */
export interface CacheShape extends CacheRequest {
  readonly pair: Pair;
}

/** The buffer of an empty cache: its full shape, or a reserve of rows for one that grows. */
export function cacheShape(
  pair: Pair,
  type: ElementType,
  shape: readonly number[],
  reserve: number | undefined,
): CacheShape {
  const { axis, kind } = pair;
  const grows = kind !== "update" && axis !== undefined;
  return { pair, cache: pair.past, type, shape: grows ? shape.with(axis, reserve ?? firstReserve) : shape };
}

/** A cache inside a state. */
export class Holding {
  readonly pair: Pair;
  readonly name: string;
  readonly type: ElementType;
  readonly #places: Places;
  #buffer: Shared;
  /** Valid rows along the sequence, for a cache that grows; the whole capacity for one that does not. */
  #length: number;

  private constructor(pair: Pair, places: Places, buffer: Shared, length: number) {
    this.pair = pair;
    this.name = pair.past.name;
    this.type = buffer.place.type;
    this.#places = places;
    this.#buffer = buffer;
    this.#length = length;
  }

  /** Empty caches, all or none. */
  static createAll(caches: readonly CacheShape[], places: Places): Holding[] {
    return places.allocate(caches).map((place, at) => {
      const { pair, shape } = caches[at];
      const { axis, kind } = pair;
      const length = kind !== "update" || axis === undefined ? 0 : shape[axis];
      return new Holding(pair, places, { place, holders: 1 }, length);
    });
  }

  /** True if the cache starts empty and gets longer; false if it has its full shape from the start. */
  get grows(): boolean {
    return this.pair.kind !== "update";
  }

  /** Rows that fit along the sequence; undefined for a state without one. */
  get capacity(): number | undefined {
    return this.pair.axis === undefined ? undefined : this.#buffer.place.shape[this.pair.axis];
  }

  get length(): number {
    return this.#length;
  }

  /** The whole buffer, in its full capacity. */
  get buffer(): Placed {
    return this.#buffer.place;
  }

  /** The whole buffer as a caller may keep it: nobody but this holding and its forks will ever use the bytes while the caller does. */
  lend(): View {
    const lent = (this.#buffer.lent ??= { view: this.#places.lend(this.buffer), by: new Set() });
    lent.by.add(this);
    return lent.view;
  }

  /** True if somebody may have a view or an array of the buffer. */
  get isSeen(): boolean {
    return this.#buffer.seen === true || this.#buffer.lent !== undefined;
  }

  /** The whole buffer, in the array that callers have where there is one. */
  get shown(): View {
    this.#buffer.seen = true;
    return this.#buffer.lent?.view ?? hostView(this.buffer);
  }

  get location(): TensorLocation {
    return this.#places.location;
  }

  /** The elements of a place in the buffer, on the host. */
  read(place: Placed): Promise<View> {
    return this.#places.read(place);
  }

  /** Copies into places of the buffer, which no fork shares then, all as if at once. Returns the bytes copied to that end. */
  move(movesIn: (buffer: Placed) => readonly Move[]): number {
    const detached = this.detach();
    this.#places.copy(movesIn(this.buffer));
    return detached;
  }

  /** What a run reads as the past: the valid rows of a growing cache, else the whole. */
  get past(): Placed {
    const { axis } = this.pair;
    return this.grows && axis !== undefined ? this.buffer.slice(axis, 0, this.#length) : this.buffer;
  }

  /** Makes the buffer this holding's own before a run writes it. Returns the bytes copied. */
  detach(): number {
    const shared = this.#buffer;
    if (shared.holders === 1) return 0;
    const { place, lent } = shared;
    if (lent?.by.has(this) !== true) this.#replace(this.#copyOf(place));
    else {
      // The array that callers have of this cache goes on showing it; the forks take the copy.
      moveOthers(shared, this.#copyOf(place));
      this.#buffer = { place, holders: 1, lent: { view: lent.view, by: new Set([this]) } };
      // Where they have the same array from a fork too, it may show neither.
      if (lent.by.size > 1) this.#replace(this.#copyOf(place));
    }
    return this.buffer.byteLength;
  }

  /** Makes room for `rows` along the sequence by doubling. Returns the bytes moved. */
  reserve(rows: number, mayGrow: boolean): number {
    const { axis } = this.pair;
    const capacity = this.capacity;
    if (axis === undefined || capacity === undefined || rows <= capacity) return 0;
    if (!mayGrow) {
      throw new InsituError(
        "not-in-place",
        `cache "${this.name}": ${rows} rows exceed the reserve of ${capacity}, and inPlace: "require" forbids moving it; create the state with a larger capacity`,
      );
    }
    const larger = this.#allocate(this.buffer.shape.with(axis, Math.max(rows, capacity * 2)));
    this.#places.copy([{ from: this.past, to: larger.slice(axis, 0, this.#length) }]);
    this.#replace(larger);
    return this.past.byteLength;
  }

  /**
   * What is to be done so that the cache holds what a run made of the past. Nothing is written or let go of before `settle`: results may
   * still show the old bytes. `owned` says that the present's buffer can be kept as it is.
   */
  adopt(present: Placed, owned: boolean): Adoption {
    const { axis } = this.pair;
    const length = this.grows && axis !== undefined ? present.shape[axis] : this.#length;
    const stay = (): void => void (this.#length = length);
    if (present.buffer === this.buffer.buffer) return { movedBytes: 0, settle: stay, abandon() {} };
    this.checkPresent(present.shape);
    const movedBytes = present.byteLength;
    const place = this.#placeFor(present);
    if (place !== undefined) return { movedBytes, move: { from: present, to: place }, settle: stay, abandon() {} };
    const keeps = owned && present.contiguous;
    const next = keeps ? present : this.#copyOf(present);
    return {
      movedBytes,
      settle: () => {
        this.#replace(next);
        stay();
      },
      abandon: () => {
        if (!keeps) this.#places.free(next);
      },
    };
  }

  /** Where a present goes in the buffer as it is; undefined where it needs another: a cache that is joined anew has no gaps. */
  #placeFor({ shape }: Placed): Placed | undefined {
    const { axis, kind } = this.pair;
    if (kind === "append") return undefined;
    if (sameNumbers(shape, this.buffer.shape)) return this.buffer;
    if (kind !== "grow" || axis === undefined || shape[axis] > this.buffer.shape[axis]) return undefined;
    const place = this.buffer.slice(axis, 0, shape[axis]);
    return sameNumbers(shape, place.shape) ? place : undefined;
  }

  /** Throws for a present that the past, as the model declares it, cannot be. */
  checkPresent(shape: readonly number[]): void {
    const { past, present, axis } = this.pair;
    const declared = past.fact?.shape;
    const fits = declared?.every((dim, at) => !isKnown(dim) || dim === shape[at] || (this.grows && at === axis));
    if (declared === undefined || (fits === true && declared.length === shape.length)) return;
    throw new InsituError(
      "invalid-state",
      `cache "${past.name}" is ${factText(past.fact!)}, which its present "${present.name}" of shape [${shape.join(",")}] cannot become; name another output in pairs`,
    );
  }

  /** Copies a tensor in. A growing cache takes any length. */
  write(from: Placed): void {
    const { axis } = this.pair;
    const fits =
      from.type === this.type &&
      from.rank === this.buffer.rank &&
      from.shape.every((dim, at) => dim === this.buffer.shape[at] || (this.grows && at === axis));
    if (!fits) throw new InsituError("invalid-state", `cache "${this.name}" is ${this.buffer}, got ${from}`);
    this.detach();
    if (this.grows && axis !== undefined) {
      this.#length = 0;
      this.reserve(from.shape[axis], true);
      this.#places.copy([{ from, to: this.buffer.slice(axis, 0, from.shape[axis]) }]);
      this.#length = from.shape[axis];
    } else this.#places.copy([{ from, to: this.buffer }]);
  }

  /** The first rows along an axis, all where there are no more; what a run reads as the past where there is no axis. */
  first(axis: number | undefined, rows: number): Placed {
    return axis === undefined ? this.past : this.buffer.slice(axis, 0, Math.min(this.buffer.shape[axis], rows));
  }

  /** True if the rows of a cache on the host are bytes of zero, from one on. */
  isZeroFrom(axis: number, row: number): boolean {
    const count = this.buffer.shape[axis];
    if (row >= count || this.type === "string") return true;
    return bytesIn(cloneView(hostView(this.buffer.slice(axis, row, count)))).every((byte) => byte === 0);
  }

  /** Copies rows in from the first on; those behind them, up to number `touched`, become zeros. */
  fill(axis: number, rows: Placed, touched: number): void {
    const count = rows.shape[axis];
    const end = Math.min(this.buffer.shape[axis], touched);
    this.move((buffer) => [
      { from: rows, to: buffer.slice(axis, 0, count) },
      ...(end > count
        ? [{ from: View.allocate(this.type, buffer.shape.with(axis, end - count)), to: buffer.slice(axis, count, end) }]
        : []),
    ]);
  }

  /** Forgets the rows after `length`. */
  truncate(length: number): void {
    if (this.grows) this.#length = Math.min(this.#length, length);
  }

  /** A copy of all that the cache holds, in memory of its own, until it is let go of. */
  keep(): Placed {
    return this.#copyOf(this.past);
  }

  /** Gives back the memory of a copy. */
  letGo(place: Placed): void {
    this.#places.free(place);
  }

  /** Makes all that the cache holds zeros, as it was in the beginning. */
  clear(): void {
    this.write(View.allocate(this.type, this.past.shape));
  }

  /** A holding of the same bytes; the first of the two to write copies. */
  fork(): Holding {
    this.#buffer.holders++;
    return new Holding(this.pair, this.#places, this.#buffer, this.#length);
  }

  #allocate(shape: readonly number[]): Placed {
    return this.#places.allocate([{ cache: this.pair.past, type: this.type, shape }])[0];
  }

  #copyOf(place: Placed): Placed {
    const copy = this.#allocate(place.shape);
    this.#places.copy([{ from: place, to: copy }]);
    return copy;
  }

  #replace(place: Placed): void {
    this.release();
    this.#buffer = { place, holders: 1 };
  }

  /** Lets go of the buffer; the holding cannot be used afterwards. */
  release(): void {
    const shared = this.#buffer;
    const { place, holders, lent } = shared;
    if (holders > 1 && lent?.by.has(this) !== true) shared.holders--;
    else {
      if (holders > 1) moveOthers(shared, this.#copyOf(place));
      // From here on the callers' array alone keeps the bytes from others.
      this.#buffer = { place, holders: 0 };
      this.#places.free(place);
    }
  }
}

/** Leaves a buffer to one of its holders: the others take a copy, of which callers have no array. */
function moveOthers(shared: Shared, copy: Placed): void {
  shared.place = copy;
  shared.holders--;
  delete shared.lent;
}
