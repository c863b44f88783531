/**
 * Memory that a tensor shows but does not own: a cache of a state, on the host or on a device. Whoever owns it says each time whether it may
 * still be looked at, and is told when an array of it is handed out that a caller may keep. Knows nothing of states.
 */
import type { ElementType } from "./element-type.js";
import type { View } from "./view.js";

/** Where a tensor's bytes live. */
export type TensorLocation = "cpu" | "gpu-buffer";

/** The owner of memory that a tensor shows. */
export abstract class Lender {
  abstract readonly type: ElementType;
  abstract readonly shape: readonly number[];
  /** Where the memory is: only what is on the "cpu" can be viewed and lent. */
  abstract readonly location: TensorLocation;
  /** Throws once the memory can no longer be looked at. */
  abstract check(): void;
  /** The memory as insitu's own rooms see it, for one call at a time. Throws as `check` does. */
  abstract view(): View;
  /** The memory as a caller may keep it: nobody else gets it while the array is held. Throws as `check` does. */
  abstract lend(): View;
  /** A copy of the elements on the host, as they are now. Rejects as `check` throws. */
  abstract read(): Promise<View>;
  /** What a second tensor of the same elements is to show. */
  again(): Lender {
    return this;
  }
  /** A tensor that showed it was disposed. */
  disposed(): void {}
}
