/** Decoders that several groups measure: each is loaded when it is first asked for, and stays until the load is done. */
import type { DecoderEntry, DeviceDecoder } from "./decoder.js";

/** One who decodes, loaded once. */
export class KeptDecoder {
  readonly name: string;
  readonly runtime: string;
  readonly #open: () => Promise<DeviceDecoder>;
  #opened: Promise<DeviceDecoder> | undefined;

  constructor(entry: DecoderEntry) {
    this.name = entry.name;
    this.runtime = entry.runtime;
    this.#open = () => entry.open();
  }

  get(): Promise<DeviceDecoder> {
    return (this.#opened ??= this.#open());
  }

  async stop(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    // One that failed to open has nothing to let go of.
    await opened?.then(
      (decoder) => decoder.stop(),
      () => undefined,
    );
  }
}
