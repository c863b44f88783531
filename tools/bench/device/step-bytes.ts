/** Bytes of the buffers that steps of a decoder make on the device. */
import type { BackendName } from "#insitu/entry/backends.js";
import { countMade, type Made } from "./gpu.js";

/** What bytes were made on the device by work, for each of `steps` steps; nothing is told where no device is asked for. */
export class StepBytes {
  readonly #made: (() => Made) | undefined;
  #before = 0;
  last: number | undefined;

  constructor(made: (() => Made) | undefined) {
    this.#made = made;
  }

  static async start(backend: BackendName | undefined): Promise<StepBytes> {
    return new StepBytes(backend === "webgpu" ? await countMade() : undefined);
  }

  begin(): void {
    this.#before = this.#made?.().bytes ?? 0;
  }

  end(steps: number): void {
    if (this.#made !== undefined) this.last = (this.#made().bytes - this.#before) / steps;
  }
}
