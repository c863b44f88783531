/** One text in the thread that makes it: begun when tokens are asked for, ahead of the reader by what it allows, given up when it says so. */
import type { GeneratedToken, GenerationSummary } from "#insitu/generate/generation.js";
import { errorData } from "./crossing.js";
import type { FromThread } from "./messages.js";

/** A text in the making, or several whose tokens come in one stream: those have no summary. */
type Tokens = AsyncIterable<GeneratedToken> & { readonly summary?: GenerationSummary };

/** A text that the page knows by a number. */
export class ThreadText {
  readonly #stream: number;
  readonly #post: (message: FromThread) => void;
  readonly #stopping = new AbortController();
  #generation: Tokens | undefined;
  /** Why there is no text to make. */
  #refusal: unknown;
  #allowed = 0;
  #running = false;
  #wake: (() => void) | undefined;

  /** `make` begins the text; what it throws is told when the first token is asked for. */
  constructor(stream: number, post: (message: FromThread) => void, make: (signal: AbortSignal) => Tokens) {
    this.#stream = stream;
    this.#post = post;
    try {
      this.#generation = make(this.#stopping.signal);
    } catch (error) {
      this.#refusal = error;
    }
  }

  /** Allows more tokens; the first time it is asked, the text is begun. */
  allow(count: number): void {
    this.#allowed += count;
    this.#wake?.();
    if (!this.#running) void this.#make();
  }

  async #make(): Promise<void> {
    this.#running = true;
    const generation = this.#generation;
    let error: unknown = this.#refusal;
    try {
      if (generation !== undefined) await this.#run(generation);
    } catch (thrown) {
      error = thrown;
    }
    const stopped = this.#stopping.signal.aborted;
    this.#post({
      kind: "end",
      stream: this.#stream,
      summary: generation?.summary,
      error: error === undefined || stopped ? undefined : errorData(error),
    });
  }

  /** Gives the text up before its next token. */
  stop(): void {
    this.#stopping.abort();
    this.#wake?.();
  }

  async #run(generation: Tokens): Promise<void> {
    const { signal } = this.#stopping;
    for await (const token of generation) {
      this.#post({ kind: "token", stream: this.#stream, token, summary: generation.summary });
      this.#allowed--;
      while (this.#allowed <= 0 && !signal.aborted)
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      if (signal.aborted) return;
    }
  }
}
