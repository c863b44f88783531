/**
 * Memory that one dispatch of a step hands to the next. It holds nothing from step to step, and runs of a session take turns: one set of buffers
 * serves all steps of all programs. A step that needs several has one of each slot, so that no dispatch binds one buffer twice. Values that steps
 * hand to each other lie in the session's arena, which is not counted here.
 */
import { type DeviceBuffer, type DeviceMemory, holds } from "./buffers.js";

/** Buffers that programs are bound to: they stay as long as one is. */
interface ScratchSet {
  readonly buffers: readonly DeviceBuffer[];
  release(): void;
}

interface Shared {
  readonly buffers: readonly DeviceBuffer[];
  users: number;
}

const wayOut = "ask for fewer tokens at a time or a smaller batch, or use another backend";

/** The scratch of a session. */
export class Scratch {
  readonly #memory: DeviceMemory;
  /** The largest so far: what is bound next gets it. */
  #current: Shared = { buffers: [], users: 0 };
  /** All whose buffers are there: the largest, and smaller ones that programs are still bound to. */
  readonly #open = new Set<Shared>();

  constructor(memory: DeviceMemory) {
    this.#memory = memory;
  }

  get byteLength(): number {
    return [...this.#open].flatMap(({ buffers }) => buffers).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Buffers of at least these bytes, the same for all who ask for no more than there is. */
  take(sizes: readonly number[]): ScratchSet {
    const { buffers } = this.#current;
    if (!sizes.every((size, slot) => holds(buffers[slot], size))) this.#current = this.#larger(sizes);
    const shared = this.#current;
    shared.users++;
    let held = true;
    return {
      buffers: shared.buffers,
      release: () => {
        if (!held) return;
        held = false;
        shared.users--;
        this.#letGo(shared);
      },
    };
  }

  #larger(sizes: readonly number[]): Shared {
    const before = this.#current;
    const slots = Math.max(before.buffers.length, sizes.length);
    const buffers: DeviceBuffer[] = [];
    try {
      for (let slot = 0; slot < slots; slot++) {
        const bytes = Math.max(sizes[slot] ?? 0, before.buffers[slot]?.bytes ?? 0);
        buffers.push(this.#memory.allocate(bytes, `memory in between ${slot}`, wayOut));
      }
    } catch (error) {
      for (const buffer of buffers) this.#memory.free(buffer);
      throw error;
    }
    const larger = { buffers, users: 0 };
    this.#current = larger;
    this.#open.add(larger);
    this.#letGo(before);
    return larger;
  }

  /** Frees what nobody is bound to, and nobody will be. */
  #letGo(shared: Shared): void {
    if (shared.users > 0 || shared === this.#current) return;
    this.#open.delete(shared);
    for (const buffer of shared.buffers) this.#memory.free(buffer);
  }
}
