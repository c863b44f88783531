/** Where the values of one executor's runs lie: in the arena, which all its programs share, or in a buffer for a copy without gaps. */
import { unreachable } from "../base/error.js";
import type { Value } from "../graph/graph.js";
import type { Placement } from "../plan/layout.js";
import { arrayConstructorOf, byteLengthOf, type ElementType, storageLengthOf } from "../tensor/element-type.js";
import { elementCount, View, viewIn } from "../tensor/view.js";
import type { MemoryUse } from "./backend.js";
import type { Arena, Engine } from "./engine.js";

/** Memory for values, taken from an engine, and what was taken so far. */
export class ValueMemory {
  readonly #engine: Engine;
  #arena: Arena | undefined;
  #arenaBytes = 0;
  #allocations = 0;
  #allocatedBytes = 0;
  /** Arena views by seat and placement: they hold as long as the arena does. */
  #arenaViews: WeakMap<Placement, View>[] = [];
  /** Memory for copies of values that have gaps, by the value that shows them without. */
  readonly #gapless = new Map<Value, View>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  get use(): MemoryUse {
    return { arenaBytes: this.#arenaBytes, allocations: this.#allocations, allocatedBytes: this.#allocatedBytes };
  }

  /** The arena; there is one once a program was reserved for. */
  get arena(): Arena {
    return this.#arena ?? unreachable("the arena was not reserved");
  }

  /** Makes the arena large enough; true where it moved. */
  reserve(bytes: number): boolean {
    if (this.#arena !== undefined && bytes <= this.#arenaBytes) return false;
    this.#arena = this.#engine.arena(bytes, this.#arena);
    this.#arenaBytes = bytes;
    this.#arenaViews = [];
    this.count(bytes);
    return true;
  }

  /** The view of a placement: the same object for as long as the arena stays where it is. */
  inArena(placement: Placement & { kind: "arena" }, seat: number): View {
    const views = (this.#arenaViews[seat] ??= new WeakMap());
    let view = views.get(placement);
    if (view === undefined) {
      const { type, shape, offset } = placement;
      if (type === "string") unreachable("strings do not live in the arena");
      const { buffer, start } = this.arena.at(seat);
      const length = storageLengthOf(type, elementCount(shape));
      view = new View(type, shape, new (arrayConstructorOf(type))(buffer, start + offset, length));
      views.set(placement, view);
    }
    return view;
  }

  /** Memory of the engine's for a value, kept from run to run; it doubles where a longer one comes. */
  gapless(value: Value, type: Exclude<ElementType, "string">, shape: readonly number[], source: View): View {
    const bytes = byteLengthOf(type, elementCount(shape));
    let memory = this.#gapless.get(value);
    if (memory === undefined || memory.byteLength < bytes) {
      if (memory !== undefined) this.#engine.free(memory);
      const size = Math.max(bytes, 2 * (memory?.byteLength ?? 0));
      this.count(size);
      memory = this.#engine.allocate("uint8", [size], source);
      this.#gapless.set(value, memory);
    }
    return viewIn(memory, type, shape);
  }

  /** Counts a buffer that was allocated. */
  count(bytes: number): void {
    this.#allocations++;
    this.#allocatedBytes += bytes;
  }
}
