/** A text that a thread makes, as the page sees it: an async iterable of tokens. The thread runs ahead of the reader by a few tokens and no more. */
import { InsituError } from "../base/error.js";
import { checkSignal } from "../base/arguments.js";
import type { OptionNames } from "../base/option-names.js";
import type { GeneratedToken, GenerationSummary } from "../generate/generation.js";
import { type GenerateOptions, generateOptionNames } from "../generate/options.js";
import { errorOf, splitOptions } from "./crossing.js";
import type { Link, StreamEvent } from "./link.js";

/** Tokens that may be under way to a reader that has not come for them. */
const ahead = 32;

/** A text in the making. It is made while it is iterated, and iterated once. */
export class RemoteGeneration implements AsyncIterable<GeneratedToken> {
  readonly #link: Link;
  readonly #stream: number;
  readonly #signal: AbortSignal | undefined;
  readonly #events: StreamEvent[] = [];
  #wake: (() => void) | undefined;
  #begun = false;
  #ended = false;
  #text = "";
  #summary: GenerationSummary | undefined;

  /** `begin` tells the thread of the text that is wanted, with what of the options can cross. */
  constructor(
    link: Link,
    what: string,
    given: GenerateOptions | undefined,
    begin: (stream: number, options: object) => void,
    names: OptionNames<GenerateOptions> = generateOptionNames,
  ) {
    const { signal, ...options } = given ?? {};
    checkSignal(signal);
    const { plain } = splitOptions(what, options, names).options;
    this.#link = link;
    this.#stream = link.next();
    this.#signal = signal;
    begin(this.#stream, plain);
  }

  /** What it took so far; undefined before the first token. */
  get summary(): GenerationSummary | undefined {
    return this.#summary;
  }

  /** The text so far. */
  get textSoFar(): string {
    return this.#text;
  }

  /** Makes the whole text. */
  async text(): Promise<string> {
    for await (const _ of this);
    return this.#text;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<GeneratedToken, void, undefined> {
    if (this.#begun)
      throw new InsituError("invalid-argument", "a generation can be iterated once; ask for another one");
    this.#begun = true;
    this.#signal?.throwIfAborted();
    this.#link.listen(this.#stream, (event) => {
      this.#events.push(event);
      this.#wake?.();
    });
    const stop = (): void => this.#link.send({ kind: "stop", stream: this.#stream });
    this.#signal?.addEventListener("abort", stop, { once: true });
    try {
      this.#link.send({ kind: "more", stream: this.#stream, count: ahead });
      for (;;) {
        const event = await this.#next();
        this.#signal?.throwIfAborted();
        this.#summary = event.summary ?? this.#summary;
        if (event.kind === "end") {
          if (event.error !== undefined) throw errorOf(event.error);
          return;
        }
        this.#text += event.token.text;
        yield event.token;
        this.#link.send({ kind: "more", stream: this.#stream, count: 1 });
      }
    } finally {
      this.#signal?.removeEventListener("abort", stop);
      if (!this.#ended) await this.#giveUp(stop);
    }
  }

  async #next(): Promise<StreamEvent> {
    while (this.#events.length === 0)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    const event = this.#events.shift()!;
    this.#ended = event.kind === "end";
    return event;
  }

  /** Stops the thread's work on the text, and waits until what it was read with is free for the next one. */
  async #giveUp(stop: () => void): Promise<void> {
    try {
      stop();
    } catch {
      return; // the thread is gone, and the work with it
    }
    while (!this.#ended) await this.#next();
  }
}
