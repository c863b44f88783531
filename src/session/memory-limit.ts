/** What a session may take of the machine's memory: asked before weights are read and before caches are made. Measures nothing itself. */
import type { BackendSession } from "../backends/backend.js";
import { InsituError } from "../base/error.js";
import type { AllocateBytes } from "../onnx/external.js";
import type { ShareBytes } from "../tensor/arriving.js";

/** A number of bytes as people read it, with the exact number beside it. */
export function sizeText(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let [value, unit] = [bytes, 0];
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return unit === 0 ? `${bytes} bytes` : `${value.toFixed(value < 10 ? 2 : 1)} ${units[unit]} (${bytes} bytes)`;
}

/** The memory that one session may take. */
export class MemoryLimit {
  readonly #most: number | undefined;
  #weightBytes = 0;

  /** `most` is what may be had in all; undefined where nobody knows. */
  constructor(most: number | undefined) {
    this.#most = most;
  }

  /** Memory for weights from a backend. Throws `out-of-memory`, before anything is taken, where they are too large. */
  guard(backend: BackendSession): AllocateBytes {
    return (sizes) => {
      this.addWeights(sizes.reduce((sum, bytes) => sum + bytes, 0));
      return backend.allocateBytes?.(sizes) ?? sizes.map((bytes) => allocateOnHeap(bytes));
    };
  }

  /** The same for weights that sessions have in common; nothing where the backend has no such memory. */
  guardShared(backend: BackendSession): ShareBytes {
    return async (key, sizes) => {
      const bytes = sizes.reduce((sum, each) => sum + each, 0);
      this.addWeights(bytes);
      const shared = await backend.shareBytes?.(key, sizes);
      // What is not shared is counted where it is taken.
      if (shared === undefined) this.#weightBytes -= bytes;
      return shared;
    };
  }

  /** Counts weights. Throws `out-of-memory` where they are too large in all. */
  addWeights(bytes: number): void {
    this.#weightBytes += bytes;
    if (this.#most === undefined || this.#weightBytes <= this.#most) return;
    throw new InsituError(
      "out-of-memory",
      `the model's weights take ${sizeText(this.#weightBytes)}, and ${sizeText(this.#most)} of memory are available; use a model with fewer or quantized weights, or raise the option memoryLimit`,
    );
  }

  /** Throws `out-of-memory`, before anything is taken, where caches of so many bytes are too large beside the weights. */
  checkState(bytes: number): void {
    if (this.#most === undefined || bytes + this.#weightBytes <= this.#most) return;
    throw new InsituError(
      "out-of-memory",
      `the caches of this state take ${sizeText(bytes)} beside ${sizeText(this.#weightBytes)} of weights, and ${sizeText(this.#most)} of memory are available; create the state with a smaller capacity or batch, or raise the option memoryLimit`,
    );
  }
}

function allocateOnHeap(bytes: number): Uint8Array {
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    throw new InsituError("out-of-memory", `weights of ${sizeText(bytes)} cannot be allocated`, { cause });
  }
}
