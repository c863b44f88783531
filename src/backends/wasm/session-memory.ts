/**
 * What one session has in the memories: buffers taken and given back, weights, copies of constants and operands where kernels need them.
 * Knows no step: the engine does.
 */
import { InsituError } from "../../base/error.js";
import type { Value } from "../../graph/graph.js";
import type { Plan } from "../../plan/plan.js";
import { copyView } from "../../tensor/copy.js";
import { type ByteStorage, byteLengthOf, type ElementType } from "../../tensor/element-type.js";
import { RestingView } from "../../tensor/rows.js";
import { elementCount, sharesBytes, View } from "../../tensor/view.js";
import type { CacheRequest } from "../backend.js";
import type { Taker, WasmArena } from "./arena.js";
import { type CacheGroup, cacheGroups } from "./cache-groups.js";
import type { WasmMemories } from "./memories.js";
import type { WasmMemory } from "./memory.js";
import { carriageOf } from "./seats.js";
import { TransientBlocks } from "./transient.js";

/** What a new buffer is wanted near to. */
interface Near {
  /** Caches that steps read together with this one. */
  readonly group?: CacheGroup;
  /** True for the first buffer of a group: there must be room for the others. */
  readonly first?: boolean;
  /** A view that it is read together with. */
  readonly view?: View;
}

/** What a session has in one memory. */
class Share {
  readonly memory: WasmMemory;
  /** Everything taken, to be given back together. */
  readonly taken = new Map<number, number>();
  /** Copies of constants that kernels here read, by the view that the graph holds. */
  readonly resident = new Map<View, View>();
  /** Copies of operands that lie in other memories, by their storage. */
  readonly carried = new Map<View["data"], number>();
  readonly transients: TransientBlocks;
  weightBytes = 0;
  /** Of weights that sessions have in common. */
  commonBytes = 0;

  constructor(memory: WasmMemory) {
    this.memory = memory;
    this.transients = new TransientBlocks((bytes) => {
      const address = memory.take(bytes);
      this.taken.set(address, bytes);
      return address;
    });
  }
}

/** The memory of one session. */
export class SessionMemory implements Taker {
  readonly memories: WasmMemories;
  /** By the number of the memory. */
  readonly #shares: Share[] = [];
  /** Where the last weights and each group of caches went. */
  #weights: WasmMemory;
  readonly #groups = new WeakMap<CacheGroup, WasmMemory>();
  /** The group of each cache of a plan, in an order in which caches that meet in one step follow each other. */
  readonly #nearOf = new WeakMap<Plan, ReadonlyMap<Value, Near>>();

  constructor(memories: WasmMemories) {
    this.memories = memories;
    this.#weights = memories.all[0];
  }

  /** A zeroed buffer, near to what it will be read with. */
  allocate(type: ElementType, shape: readonly number[], near?: Near): View {
    if (type === "string") return View.allocate(type, shape);
    const bytes = byteLengthOf(type, elementCount(shape));
    return this.#allocateIn(this.#seatFor(bytes, near), type, shape);
  }

  /** Buffers for caches of a plan, all or none: those that meet in one step are made one after the other, so that they can lie together. */
  allocateCaches(plan: Plan, caches: readonly CacheRequest[]): View[] {
    const near = this.#nearIn(plan);
    const order = [...near.keys()];
    const made = new Map<CacheRequest, View>();
    try {
      for (const each of caches.toSorted((a, b) => order.indexOf(a.cache) - order.indexOf(b.cache)))
        made.set(each, this.allocate(each.type, each.shape, near.get(each.cache)));
    } catch (error) {
      for (const view of made.values()) this.free(view);
      throw error;
    }
    return caches.map((each) => made.get(each)!);
  }

  #nearIn(plan: Plan): ReadonlyMap<Value, Near> {
    let near = this.#nearOf.get(plan);
    if (near === undefined) {
      near = new Map(
        cacheGroups(plan).flatMap((group) =>
          group.pairs.map(({ past }, at): [Value, Near] => [past, { group, first: at === 0 }]),
        ),
      );
      this.#nearOf.set(plan, near);
    }
    return near;
  }

  #allocateIn(seat: number, type: Exclude<ElementType, "string">, shape: readonly number[]): View {
    const bytes = byteLengthOf(type, elementCount(shape));
    const { memory, taken } = this.#share(seat);
    const address = memory.takeZeroed(bytes);
    taken.set(address, bytes);
    return memory.viewAt(address, type, shape);
  }

  /** The memory for a new buffer: beside what it will be read with, if there is room. */
  #seatFor(bytes: number, { group, first = false, view }: Near = {}): number {
    const preferred =
      (group && (this.#groups.get(group) ?? (group.weights && this.memories.of(group.weights)))) ??
      (view && this.memories.of(view));
    const count = group !== undefined && first ? group.pairs.length : 1;
    const memory = this.memories.withRoom(bytes, count, preferred);
    if (group !== undefined) this.#groups.set(group, memory);
    return this.memories.numberOf(memory);
  }

  /** Memory for weights, one piece for each size. Those that come together lie together. */
  allocateBytes(sizes: readonly number[]): Uint8Array[] {
    return sizes.map((bytes) => {
      this.#weights = this.memories.forWeights(bytes, this.#weights);
      const seat = this.memories.numberOf(this.#weights);
      const address = this.take(seat, bytes);
      this.#share(seat).weightBytes += bytes;
      return new Uint8Array(this.#weights.buffer, address, bytes);
    });
  }

  /** Counts weights that sessions have in common, for `describe`. */
  countCommon(pieces: readonly Uint8Array[]): void {
    for (const piece of pieces) {
      const memory = this.memories.of(new View("uint8", [piece.length], piece));
      if (memory !== undefined) this.#share(this.memories.numberOf(memory)).commonBytes += piece.length;
    }
  }

  /** Gives back what `allocate` gave, and copies of it. */
  free(view: View): void {
    const memory = this.memories.of(view);
    if (memory === undefined) return;
    this.give(this.memories.numberOf(memory), memory.addressOf(view)!);
    this.#shares.forEach(({ carried }, seat) => {
      const address = carried.get(view.data);
      if (address === undefined) return;
      carried.delete(view.data);
      this.give(seat, address);
    });
  }

  /** True if two views may have a byte in common. */
  overlap(a: View, b: View): boolean {
    const memory = this.memories.of(a);
    if (memory !== this.memories.of(b)) return false;
    if (memory === undefined) return sharesBytes(a, b);
    const [first, second] = [memory.addressOf(a)!, memory.addressOf(b)!];
    return first < second + spanOf(b) && second < first + spanOf(a);
  }

  /** An operand in another memory than its own: in the same place of the arena, or in a buffer of its own. */
  carriage(view: View, from: number, seat: number, arena: WasmArena): ReturnType<typeof carriageOf> {
    const offset = arena.offsetOf(view, from);
    if (offset !== undefined) {
      const { buffer, start } = arena.at(seat);
      return carriageOf(view, buffer, start + offset);
    }
    const { carried, memory } = this.#share(seat);
    let address = carried.get(view.data);
    if (address === undefined) {
      address = this.take(seat, (view.data as ByteStorage).byteLength);
      carried.set(view.data, address);
    }
    return carriageOf(view, memory.buffer, address);
  }

  /** A constant in a memory: copied there when a kernel first asks for its address. */
  resident(view: View, seat: number): View {
    const { memory, resident } = this.#share(seat);
    if (memory.holds(view)) return view;
    let copy = resident.get(view);
    if (copy === undefined) {
      if (view.type === "string") throw new InsituError("internal", "a kernel asks for the address of strings");
      copy = this.#allocateIn(seat, view.type, view.shape);
      copyView(view instanceof RestingView ? view.whole : view, copy);
      resident.set(view, copy);
    }
    return copy;
  }

  #share(seat: number): Share {
    return (this.#shares[seat] ??= new Share(this.memories.all[seat]));
  }

  /** Gives a buffer back. */
  give(seat: number, address: number): void {
    const { memory, taken } = this.#share(seat);
    const bytes = taken.get(address);
    if (bytes === undefined) return;
    taken.delete(address);
    memory.give(address, bytes);
  }

  /** Takes bytes of a memory; the contents are what was there before. */
  take(seat: number, bytes: number): number {
    const { memory, taken } = this.#share(seat);
    const address = memory.take(bytes);
    taken.set(address, bytes);
    return address;
  }

  /** What steps in a memory take turns with. */
  transients(seat: number): TransientBlocks {
    return this.#share(seat).transients;
  }

  /** Lets go of the copies of a constant that belongs to one program. */
  forgetConstant(constant: View): void {
    for (const { resident } of this.#all()) {
      const copy = resident.get(constant);
      if (copy !== undefined) this.free(copy);
      resident.delete(constant);
    }
  }

  /** A line for each memory that the session uses. */
  describe(): string[] {
    return this.#all().map(({ memory, weightBytes, commonBytes, taken }) => {
      const all = [...taken.values()].reduce((sum, bytes) => sum + bytes, 0);
      return `memory ${this.memories.numberOf(memory)}: ${weightBytes + commonBytes} bytes of weights, ${all - weightBytes} of caches, temporaries and the arena`;
    });
  }

  /** Gives everything back. */
  release(): void {
    for (const { memory, taken } of this.#all()) {
      for (const [address, bytes] of taken) memory.give(address, bytes);
      taken.clear();
    }
  }

  /** Numbers of memories that the session does not use are holes in the list. */
  #all(): Share[] {
    return this.#shares.filter((share) => share !== undefined);
  }
}

/** Bytes from a view's first element to the end of its last. */
const spanOf = ({ type, shape, strides, size }: View): number =>
  size === 0 ? 0 : byteLengthOf(type, 1 + shape.reduce((sum, dim, axis) => sum + (dim - 1) * strides[axis], 0));
