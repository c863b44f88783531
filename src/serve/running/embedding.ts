/** A text that is read for the mean of its last hidden state alone, in its turn beside others. Runs nothing and holds no blocks. */
import type { PagedEntry } from "../../cache/paged-state.js";

/** Adds up the last hidden state over tokens of one text, on top of the sums of those before them. */
interface HiddenDecoder {
  sumHidden(entry: PagedEntry, before?: Float64Array): Promise<Float64Array>;
}

let named = 0;

/** A text to embed. */
export class Embedding {
  readonly id = `embedding ${named++}`;
  readonly tenant: string;
  readonly priority = 0;
  readonly tokens: readonly number[];
  readonly mean: Promise<Float32Array>;
  /** Nobody hears of it any more. */
  isOver = false;
  readonly #signal: AbortSignal | undefined;
  readonly #resolve: (mean: Float32Array) => void;
  readonly #reject: (error: unknown) => void;
  #leave: (() => void) | undefined;
  #sums: Float64Array | undefined;
  #rounds = 0;

  constructor(tokens: readonly number[], tenant: string, signal: AbortSignal | undefined) {
    this.tokens = tokens;
    this.tenant = tenant;
    this.#signal = signal;
    let [resolve, reject]: [(mean: Float32Array) => void, (error: unknown) => void] = [() => {}, () => {}];
    this.mean = new Promise((done, failed) => ([resolve, reject] = [done, failed]));
    [this.#resolve, this.#reject] = [resolve, reject];
  }

  /** Rows that others have read, or that it has read before, would be missing from the mean: nothing is shared. */
  get salt(): string {
    return `${this.id}, ${this.#rounds++}`;
  }

  get mostRows(): number {
    return this.tokens.length;
  }

  /** Has `leave` called where whoever asked leaves. */
  onLeave(leave: () => void): void {
    this.#leave = leave;
    this.#signal?.addEventListener("abort", leave, { once: true });
  }

  /** Reads tokens of it; true where they were the last. */
  async read(decoder: HiddenDecoder, entry: PagedEntry): Promise<boolean> {
    this.#sums = await decoder.sumHidden(entry, entry.sequence.length === 0 ? undefined : this.#sums);
    return entry.sequence.length === this.tokens.length;
  }

  /** All was read. */
  end(): void {
    const { length } = this.tokens;
    this.#close();
    this.#resolve(Float32Array.from(this.#sums ?? [], (sum) => sum / length));
  }

  fail(error: unknown): void {
    this.#close();
    this.#reject(error);
  }

  #close(): void {
    this.isOver = true;
    if (this.#leave !== undefined) this.#signal?.removeEventListener("abort", this.#leave);
  }
}
