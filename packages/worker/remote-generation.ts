/** A text that a thread makes, as the page sees it: an async iterable of tokens. The thread runs ahead of the reader by a few tokens and no more. */
import { InsituError } from "#insitu/base/error.js";
import { checkSignal } from "#insitu/base/arguments.js";
import type { OptionNames } from "#insitu/base/option-names.js";
import type { BatchToken } from "#insitu/generate/batch.js";
import type { GeneratedToken, GenerationSummary } from "#insitu/generate/generation.js";
import { type GenerateOptions, generateOptionNames } from "#insitu/generate/options.js";
import { textBytes, textsOf } from "#insitu/generate/text-bytes.js";
import { errorOf, splitOptions } from "./crossing.js";
import type { Link, StreamEvent } from "./link.js";

/** Tokens that may be under way to a reader that has not come for them. */
const ahead = 32;

/** Tokens that are taken before as many more are allowed: a message for each would cost both threads a task. */
const share = 8;

/** Options that can cross, and the signal, which stays here. */
export function crossingOptions<T extends GenerateOptions>(
  what: string,
  given: T | undefined,
  names: Parameters<typeof splitOptions<T>>[2],
): { readonly plain: Readonly<Record<string, unknown>>; readonly signal: AbortSignal | undefined } {
  const { signal, ...options } = given ?? {};
  checkSignal(signal);
  return { plain: splitOptions(what, options as T, names).options.plain, signal };
}

/** A text in the making. It is made while it is iterated, and iterated once. */
export class RemoteGeneration implements AsyncIterable<GeneratedToken> {
  readonly #link: Link;
  readonly #stream: number;
  readonly #signal: AbortSignal | undefined;
  #begun = false;
  #text = "";
  #summary: GenerationSummary | undefined;

  /** For models: the text that the thread knows by a number. */
  constructor(link: Link, stream: number, signal: AbortSignal | undefined) {
    this.#link = link;
    this.#stream = stream;
    this.#signal = signal;
  }

  /** For models: `begin` tells the thread of the text that is wanted, with what of the options can cross. */
  static begin(
    link: Link,
    what: string,
    given: GenerateOptions | undefined,
    begin: (stream: number, options: object) => void,
    names: OptionNames<GenerateOptions> = generateOptionNames,
  ): RemoteGeneration {
    const { plain, signal } = crossingOptions(what, given, names);
    const stream = link.next();
    begin(stream, plain);
    return new RemoteGeneration(link, stream, signal);
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

  /** The text as a stream of bytes, for a `Response` or the next reader. */
  toReadableStream(): ReadableStream<Uint8Array> {
    return textBytes(textsOf(this));
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<GeneratedToken, void, undefined> {
    if (this.#begun)
      throw new InsituError("invalid-argument", "a generation can be iterated once; ask for another one");
    this.#begun = true;
    for await (const event of streamEvents(this.#link, this.#stream, this.#signal)) {
      this.#summary = event.summary ?? this.#summary;
      if (event.kind === "end") return;
      this.#text += event.token.text;
      yield event.token;
    }
  }
}

/** Tokens of several texts, which the thread knows by one number. */
export async function* remoteBatch(
  link: Link,
  stream: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<BatchToken, void, undefined> {
  for await (const event of streamEvents(link, stream, signal))
    if (event.kind === "token") yield event.token as BatchToken;
}

/** What a stream tells, its end last. Throws where it failed; leaving it stops the thread's work. */
async function* streamEvents(
  link: Link,
  stream: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<StreamEvent, void, undefined> {
  signal?.throwIfAborted();
  const events: StreamEvent[] = [];
  let wake: (() => void) | undefined;
  let ended = false;
  const next = async (): Promise<StreamEvent> => {
    while (events.length === 0)
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    const event = events.shift()!;
    ended = event.kind === "end";
    return event;
  };
  link.listen(stream, (event) => {
    events.push(event);
    wake?.();
  });
  const stop = (): void => link.send({ kind: "stop", stream });
  signal?.addEventListener("abort", stop, { once: true });
  try {
    link.send({ kind: "more", stream, count: ahead });
    for (let taken = 1; ; taken++) {
      const event = await next();
      signal?.throwIfAborted();
      if (event.kind === "end" && event.error !== undefined) throw errorOf(event.error);
      yield event;
      if (event.kind === "end") return;
      if (taken % share === 0) link.send({ kind: "more", stream, count: share });
    }
  } finally {
    signal?.removeEventListener("abort", stop);
    if (!ended) await giveUp(stop, next);
  }
}

/** Stops the thread's work on a text, and waits until what it was read with is free for the next one. */
async function giveUp(stop: () => void, next: () => Promise<StreamEvent>): Promise<void> {
  try {
    stop();
  } catch {
    return; // the thread is gone, and the work with it
  }
  while ((await next()).kind !== "end");
}
