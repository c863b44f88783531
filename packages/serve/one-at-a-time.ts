/**
 * The simplest engine: texts wait in line, turn by turn over tenants, and each is made alone. What batches is compared with it,
 * and where nothing batches it serves.
 */
import { InsituError } from "#insitu/base/error.js";
import { PulledText } from "#insitu/engine/pulled-text.js";
import type { TextAsk } from "#insitu/engine/text-ask.js";
import type { LanguageModel } from "#insitu/generate/causal-lm.js";
import { draftSpeculation } from "#insitu/generate/draft-model.js";
import type { DraftModel } from "#insitu/generate/options.js";
import { FairPlaces } from "#insitu/schedule/fair-places.js";
import { WaitingLine } from "#insitu/schedule/waiting-line.js";
import type { Engine, EngineFigures, RunningText, TextListener, TextRequest } from "./engine.js";
import { isLoss, LostError } from "./lost-error.js";
import { QueueFullError } from "./running/queue-full.js";

interface Waiting {
  readonly tenant: string;
  readonly priority: number;
  readonly arrival: number;
  readonly request: TextRequest;
  readonly listener: TextListener;
  readonly stop: AbortController;
}

/** Makes an engine that generates one completion at a time, without batching. */
export function oneAtATime(lm: LanguageModel, maxQueue = 256, draft?: DraftModel): Engine {
  return new OneAtATime(lm, maxQueue, draft && draftSpeculation(lm, draft));
}

class OneAtATime implements Engine {
  readonly context: number;
  readonly vocabulary: number;
  readonly lost: Promise<Error>;
  readonly #lm: LanguageModel;
  readonly #speculate: TextAsk["speculate"];
  readonly #places: FairPlaces<Waiting>;
  readonly #line = new WaitingLine<Waiting>();
  #arrivals = 0;
  #running: Waiting | undefined;
  #work: Promise<void> | undefined;
  /** Why nothing is taken in any more. */
  #refusal: InsituError | undefined;
  #made = { promptTokens: 0, reusedTokens: 0, madeTokens: 0, steps: 0, guessedTokens: 0, rightGuesses: 0 };

  constructor(lm: LanguageModel, most: number, speculate: TextAsk["speculate"]) {
    this.#lm = lm;
    this.#speculate = speculate;
    this.#places = new FairPlaces(most);
    this.context = lm.contextLength;
    // Where there is no device there is nothing to lose but one text at a time.
    this.lost = (lm.session.lost ?? new Promise<never>(() => {})).then((error) => this.#lose(error));
    const size = lm.config["vocab_size"];
    this.vocabulary = typeof size === "number" ? size : lm.tokenizer.grammarVocabulary(undefined, []).spellings.length;
  }

  submit(request: TextRequest, listener: TextListener): RunningText {
    if (this.#refusal !== undefined) throw this.#refusal;
    const { prompt } = request;
    if (prompt.length >= this.context)
      throw new InsituError(
        "context-overflow",
        `the prompt has ${prompt.length} tokens, and the context holds ${this.context} for prompt and completion together`,
      );
    const { tenant, priority = 0 } = request;
    const text = { tenant, priority, arrival: this.#arrivals++, request, listener, stop: new AbortController() };
    const yielding = this.#places.take(text, request.coming);
    if (yielding === undefined) throw this.#queueFull(text);
    for (const other of yielding) {
      this.#line.remove(other);
      other.listener.failed(this.#queueFull(other));
    }
    this.#line.add(text);
    this.#work ??= this.#loop();
    return {
      cancel: () => {
        text.stop.abort();
        this.#places.leave(text);
        this.#line.remove(text);
      },
    };
  }

  #queueFull({ tenant }: Waiting): QueueFullError {
    return new QueueFullError(this.#places.takenBy(tenant), 1);
  }

  /** Takes the text whose turn it is out of the line. */
  #next(): Waiting | undefined {
    const text = this.#line.first();
    if (text === undefined) return undefined;
    this.#line.take(text);
    this.#places.leave(text);
    return text;
  }

  figures(): EngineFigures {
    return {
      ...this.#made,
      waiting: this.#line.count,
      running: this.#running === undefined ? 0 : 1,
      blocks: 1,
      blocksUsed: this.#running === undefined ? 0 : 1,
      blockSize: this.context,
      preemptions: 0,
    };
  }

  async drain(limitMilliseconds: number): Promise<void> {
    this.#refusal ??= closed();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => void (timer = setTimeout(resolve, limitMilliseconds)));
    await Promise.race([this.#work ?? Promise.resolve(), late]);
    clearTimeout(timer);
    await this.close();
  }

  async close(): Promise<void> {
    this.#refusal ??= closed();
    this.#failAll(new InsituError("closed", "the server was closed before the completion was finished"));
    // A run on a device that is gone may never end.
    if (!(this.#refusal instanceof LostError)) await this.#work;
  }

  /** The device is gone: no text goes on, and none begins. */
  #lose(cause: Error): Error {
    const error = new LostError(cause);
    this.#refusal ??= error;
    this.#failAll(error);
    return cause;
  }

  #failAll(error: InsituError): void {
    const left = this.#running === undefined ? [] : [this.#running];
    for (let next = this.#next(); next !== undefined; next = this.#next()) left.push(next);
    for (const { stop, listener } of left) {
      if (stop.signal.aborted) continue;
      stop.abort();
      listener.failed(error);
    }
  }

  async #loop(): Promise<void> {
    // Nothing is heard inside of submit.
    await Promise.resolve();
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#running = next;
      await this.#make(next);
      this.#running = undefined;
    }
    this.#work = undefined;
  }

  async #make({ request, listener, stop }: Waiting): Promise<void> {
    const { signal } = stop;
    const { engine, contexts } = this.#lm.forServers;
    try {
      const { context, reused } = await contexts.take(request.prompt);
      const ask = { speculate: this.#speculate, ...request };
      const text = new PulledText(engine, ask, context, () => signal.throwIfAborted());
      try {
        this.#began(reused, request.prompt.length, listener);
        await this.#tell(text, listener);
      } finally {
        const { guessed, right } = text.text.figures;
        this.#made.guessedTokens += guessed;
        this.#made.rightGuesses += right;
        await text.leave();
        contexts.give(context);
      }
    } catch (error) {
      if (!signal.aborted) listener.failed(toldError(error));
    }
  }

  async #tell(text: PulledText, listener: TextListener): Promise<void> {
    for (let next = await text.next(); next !== undefined; next = await text.next()) {
      const { made, isToken, end } = next;
      if (isToken) {
        this.#made.madeTokens++;
        this.#made.steps++;
        if (listener.token(made) === "stop") return listener.ended(end ?? "stopped");
      }
      if (end !== undefined) return listener.ended(end, isToken ? undefined : made);
    }
  }

  #began(cachedTokens: number, promptTokens: number, listener: TextListener): void {
    this.#made.promptTokens += promptTokens;
    this.#made.reusedTokens += cachedTokens;
    listener.started?.({ cachedTokens });
  }
}

const closed = (): InsituError => new InsituError("closed", "the server accepts no new requests");

function toldError(error: unknown): Error {
  if (isLoss(error)) return new LostError(error);
  return error instanceof Error ? error : new Error(String(error));
}
