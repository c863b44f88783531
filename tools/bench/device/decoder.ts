/** What is asked of everyone who decodes on a device, insitu and peers alike. Nobody is named here. */

/** A model that is loaded on a device. Times are milliseconds by its own clock, of results that were waited for. */
export interface DeviceDecoder {
  /**
   * Makes so many tokens behind each prompt, the likeliest each time, all texts at once: milliseconds a step. What was read of the same prompts
   * before is not read again, and the first token, which ends the reading, does not count.
   */
  decode(prompts: readonly (readonly number[])[], steps: number): Promise<number>;
  /** Reads a prompt from its beginning and makes one token behind it: milliseconds. */
  prefill(prompt: readonly number[]): Promise<number>;
  /** The token behind each of some prompts. */
  next(prompts: readonly (readonly number[])[]): Promise<readonly number[]>;
  /** Reads prompts from their beginnings and makes so many tokens behind each, all texts at once: milliseconds. Where it can be asked. */
  batch?(prompts: readonly (readonly number[])[], tokens: number): Promise<number>;
  /** Milliseconds to the first token of the first text that had one, in the last `batch`. */
  readonly firstTokenMs?: number | undefined;
  /** Bytes of the buffers that each step of the last `decode` made on the device; undefined where nobody counts. */
  readonly bytesAStep?: number | undefined;
  /** Tokens that the last `decode` had under way at a time, where it asks for some before others have come. */
  readonly tokensInFlight?: number | undefined;
  stop(): Promise<void>;
}

/** One who decodes, not loaded yet. */
export interface DecoderEntry {
  readonly name: string;
  /** "insitu", or the name of a peer. */
  readonly runtime: string;
  open(): Promise<DeviceDecoder>;
}
