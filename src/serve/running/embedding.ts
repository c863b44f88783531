/** Texts that are read for the mean of their last hidden state alone: in chunks between the steps of others, on blocks of the same pool. */
import type { InsituError } from "../../base/error.js";
import type { PagedEntry, PagedState } from "../../cache/paged-state.js";
import type { Sequence } from "../../cache/sequence.js";

/** Reads tokens of one text; the sum of the last hidden state over them. */
interface HiddenDecoder {
  readonly pages: PagedState;
  sumHidden(entry: PagedEntry): Promise<Float64Array>;
}

interface Job {
  readonly tokens: readonly number[];
  readonly signal: AbortSignal | undefined;
  readonly resolve: (mean: Float32Array) => void;
  readonly reject: (error: unknown) => void;
  sequence: Sequence | undefined;
  sums: Float64Array | undefined;
}

/** Texts to embed, in the order in which they came. */
export class Embeddings {
  readonly #decoder: HiddenDecoder;
  readonly #chunk: number;
  readonly #jobs: Job[] = [];
  #named = 0;
  #closed: InsituError | undefined;

  /** `chunk`: tokens that a run reads at most. */
  constructor(decoder: HiddenDecoder, chunk: number) {
    this.#decoder = decoder;
    this.#chunk = chunk;
  }

  get count(): number {
    return this.#jobs.length;
  }

  /** True while one of them has blocks. */
  get holdsBlocks(): boolean {
    return this.#jobs[0]?.sequence !== undefined;
  }

  add(tokens: readonly number[], signal: AbortSignal | undefined): Promise<Float32Array> {
    return new Promise((resolve, reject) => {
      this.#jobs.push({ tokens, signal, resolve, reject, sequence: undefined, sums: undefined });
    });
  }

  /** Reads a chunk of the first one, if there are blocks for all of it; `isAlone` where nobody else will give some back. */
  async step(isAlone: boolean): Promise<void> {
    const [job] = this.#jobs;
    if (job === undefined) return;
    const { pool } = this.#decoder.pages;
    try {
      job.signal?.throwIfAborted();
      if (this.#closed !== undefined) throw this.#closed;
      if (job.sequence === undefined) {
        const needed = Math.ceil(job.tokens.length / pool.blockSize);
        if (needed * pool.blockSize > pool.room) {
          if (isAlone) throw pool.exhausted(needed, "a text to embed");
          return;
        }
        // Rows that others have read would be missing from the mean: nothing is shared.
        job.sequence = pool.add(undefined, `embedding ${this.#named++}`);
      }
      const { sequence } = job;
      const tokens = job.tokens.slice(sequence.length, sequence.length + this.#chunk);
      const sums = await this.#decoder.sumHidden({ sequence, tokens });
      job.sums = job.sums?.map((sum, at) => sum + sums[at]) ?? sums;
      if (sequence.length < job.tokens.length) return;
      this.#end(job);
      job.resolve(Float32Array.from(job.sums, (sum) => sum / job.tokens.length));
    } catch (error) {
      this.#end(job);
      job.reject(error);
    }
  }

  /** Each ends with the error when its turn comes. */
  close(error: InsituError): void {
    this.#closed = error;
  }

  #end(job: Job): void {
    this.#jobs.splice(this.#jobs.indexOf(job), 1);
    job.sequence?.release();
  }
}
