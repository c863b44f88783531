/** The arena of one executor: a stretch in each memory that a step runs in, taken when the first one does. All are laid out alike. */
import type { View } from "../../tensor/view.js";
import type { Arena, Stretch } from "../engine.js";
import type { WasmMemories } from "./memories.js";

/** Takes and gives back buffers of the memories, by their numbers. */
export interface Taker {
  readonly memories: WasmMemories;
  take(seat: number, bytes: number): number;
  give(seat: number, address: number): void;
}

/** Memory for intermediate values in several memories. */
export class WasmArena implements Arena {
  readonly #bytes: number;
  readonly #taker: Taker;
  readonly #stretches: (Stretch | undefined)[] = [];

  constructor(bytes: number, taker: Taker) {
    this.#bytes = bytes;
    this.#taker = taker;
  }

  at(seat: number): Stretch {
    let stretch = this.#stretches[seat];
    if (stretch === undefined) {
      const start = this.#taker.take(seat, this.#bytes); // may grow the memory, which gives it a new buffer
      stretch = { buffer: this.#taker.memories.all[seat].buffer, start };
      this.#stretches[seat] = stretch;
    }
    return stretch;
  }

  /** How far from the arena's start in its memory the storage of a view begins; undefined where it lies elsewhere. */
  offsetOf({ data }: View, seat: number): number | undefined {
    const stretch = this.#stretches[seat];
    if (stretch === undefined || Array.isArray(data)) return undefined;
    const offset = data.byteOffset - stretch.start;
    return offset >= 0 && offset + data.byteLength <= this.#bytes ? offset : undefined;
  }

  /** Gives all stretches back. */
  release(): void {
    this.#stretches.forEach((stretch, seat) => stretch && this.#taker.give(seat, stretch.start));
    this.#stretches.length = 0;
  }
}
