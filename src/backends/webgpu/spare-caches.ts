/**
 * Buffers of caches that were given back a moment ago: the next state of the same sizes gets them, zeroed, since a device takes milliseconds to find
 * memory for each. They are gone after a while, and before anything large is allocated that none of them fits.
 */
import { keeping } from "../../webgpu-kernels/tuning.js";
import { DeviceBuffer, type DeviceMemory } from "./buffers.js";

/** Those of one session. */
export class SpareCaches {
  readonly #memory: DeviceMemory;
  readonly #spares = new Set<DeviceBuffer>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(memory: DeviceMemory) {
    this.#memory = memory;
  }

  /** A zeroed buffer of so many bytes. Where there is no memory for it, the memory's `settle` tells. */
  take(bytes: number, label: string, wayOut: string): DeviceBuffer {
    for (const spare of this.#spares) {
      if (spare.bytes !== bytes || !spare.isOpen) continue;
      this.#spares.delete(spare);
      const { device } = this.#memory;
      // Before all that is submitted from now on, and behind what was.
      device.submit((encoder) => encoder.clearBuffer(spare.gpu));
      return this.#memory.renewed(spare);
    }
    if (bytes >= keeping.leastSpareCacheBytes) this.drop();
    return this.#memory.allocate(bytes, label, wayOut);
  }

  /** A cache is let go of, in the session's order. */
  give(buffer: DeviceBuffer): void {
    if (!buffer.isOpen || buffer.bytes < keeping.leastSpareCacheBytes || this.#memory.isReleased)
      return this.#memory.free(buffer);
    this.#spares.add(buffer);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.drop(), keeping.spareCacheMilliseconds);
    // Nobody's process waits for it.
    (this.#timer as { unref?(): void }).unref?.();
  }

  /** Lets go of all. */
  drop(): void {
    clearTimeout(this.#timer);
    for (const spare of this.#spares) this.#memory.free(spare);
    this.#spares.clear();
  }
}
