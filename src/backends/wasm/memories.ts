/**
 * The shared memories of the WASM backend, numbered as the threads know them, and which of them something new goes to. Weights stay
 * within a share of each memory, in the order they come, so that a layer lies together and there is room beside it for its caches and the
 * arena. Address space costs nothing: opening one memory more is better than filling one up.
 */
import { InsituError } from "../../base/error.js";
import type { View } from "../../tensor/view.js";
import { mostMemories } from "./control.js";
import type { WasmMemory } from "./memory.js";

/** The share of a memory that weights may fill: caches and the arena are to lie beside them. */
const weightShare = 0.6;

/** The share that weights and caches may fill: the arena and temporaries are taken when a program first runs. */
const cacheShare = 0.75;

/** The share that one tensor may fill that is larger than what is left for weights elsewhere. */
const fullShare = 0.9;

/** What decides whether something goes into a memory. */
interface Room {
  readonly usedBytes: number;
  readonly mostBytes: number;
  fits(bytes: number, count: number): boolean;
}

/** All memories of one set of threads. */
export class WasmMemories {
  readonly #memories: WasmMemory[];
  readonly #numbers = new Map<WasmMemory, number>();
  readonly #open: () => WasmMemory;
  readonly #empty: Room;
  /** Why the engine gave no further memory, the last time it was asked. */
  #refusal: InsituError | undefined;

  /** `open` makes another memory that the threads have joined, with `occupied` bytes for them in it. */
  constructor(first: WasmMemory, open: () => WasmMemory, occupied: number) {
    const { mostBytes } = first;
    this.#memories = [first];
    this.#numbers.set(first, 0);
    this.#open = open;
    this.#empty = {
      usedBytes: occupied,
      mostBytes,
      fits: (bytes, count) => occupied + bytes * count <= mostBytes - 4096,
    };
  }

  get all(): readonly WasmMemory[] {
    return this.#memories;
  }

  numberOf(memory: WasmMemory): number {
    return this.#numbers.get(memory) ?? -1;
  }

  /** The memory that a view lies in. */
  of(view: View): WasmMemory | undefined {
    for (const memory of this.#memories) if (memory.holds(view)) return memory;
    return undefined;
  }

  /** Bytes that all memories have grown to. */
  get byteLength(): number {
    return this.#memories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
  }

  /** The memory for the next weights; `last` is where those before them went. */
  forWeights(bytes: number, last: WasmMemory): WasmMemory {
    const order = [last, ...this.#memories.slice(this.numberOf(last) + 1), ...this.#memories];
    const within =
      (share: number) =>
      (room: Room): boolean =>
        room.usedBytes + bytes <= room.mostBytes * share && room.fits(bytes, 1);
    return (
      order.find(within(weightShare)) ??
      this.#opened(within(weightShare)) ??
      // One tensor, or a file with its weights inside, may be larger than the share.
      order.find(within(fullShare)) ??
      this.#opened(within(fullShare)) ??
      order.find((memory) => memory.fits(bytes)) ??
      this.#refuse(bytes)
    );
  }

  /** A memory with room for `count` buffers of `bytes`; the preferred one if it has it. */
  withRoom(bytes: number, count: number, preferred: WasmMemory | undefined): WasmMemory {
    const order = preferred === undefined ? this.#memories : [preferred, ...this.#memories];
    const generous = (room: Room): boolean =>
      room.usedBytes + bytes * count <= room.mostBytes * cacheShare && room.fits(bytes, count);
    return (
      order.find(generous) ??
      this.#opened(generous) ??
      order.find((memory) => memory.fits(bytes, count)) ??
      order.find((memory) => memory.fits(bytes)) ??
      this.#refuse(bytes)
    );
  }

  /** Opens a memory if an empty one is right; undefined where it is not, or there can be no more. */
  #opened(isRight: (room: Room) => boolean): WasmMemory | undefined {
    if (this.#memories.length >= mostMemories || !isRight(this.#empty)) return undefined;
    try {
      const memory = this.#open();
      this.#numbers.set(memory, this.#memories.push(memory) - 1);
      return memory;
    } catch (error) {
      if (!(error instanceof InsituError)) throw error;
      this.#refusal = error;
      return undefined;
    }
  }

  #refuse(bytes: number): never {
    const { mostBytes } = this.#memories[0];
    const why =
      bytes > mostBytes
        ? `one has at most ${mostBytes}`
        : `there are ${this.#memories.length} of at most ${mostBytes} bytes, and ${this.#refusal === undefined ? "no more can be opened" : this.#refusal.message}`;
    throw new InsituError(
      "out-of-memory",
      `${bytes} bytes are needed in one WebAssembly memory: ${why}; release sessions or states, or make them smaller`,
      { cause: this.#refusal },
    );
  }
}
