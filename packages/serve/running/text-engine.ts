/**
 * Texts of many callers on one pool of pages: who waits, who is refused, what a store has of their beginnings, and what is counted. The token engine makes
 * the texts; between its turns events are served. A text that cannot go on fails alone.
 */
import { checkCount } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { Context } from "#insitu/engine/context.js";
import { EmbeddedText } from "#insitu/engine/embedded-text.js";
import { MadeText } from "#insitu/engine/made-text.js";
import type { PagedDecoder } from "#insitu/engine/paged-decoder.js";
import { PagedLayout, type PagedSettings } from "#insitu/engine/paged-layout.js";
import type { PagedRows } from "#insitu/engine/paged-rows.js";
import { longPause } from "#insitu/engine/pause.js";
import type { EngineText, TextOwner } from "#insitu/engine/text.js";
import type { TextAsk } from "#insitu/engine/text-ask.js";
import { TokenEngine } from "#insitu/engine/token-engine.js";
import { warming } from "#insitu/engine/tuning.js";
import { usualSteps, warmStep, warmTokens } from "./warm-texts.js";
import { FairPlaces } from "#insitu/schedule/fair-places.js";
import type {
  EmbeddingAsker,
  Engine,
  EngineFigures,
  EnginePool,
  RunningText,
  TextListener,
  TextRequest,
} from "../engine.js";
import { isLoss, LostError, toldError } from "../lost-error.js";
import { checkPrompt } from "./check-prompt.js";
import { poolSeenBy } from "./pool-view.js";
import { QueueFullError, RetryHint } from "./queue-full.js";
import type { PrefixStore } from "./prefix-store.js";
import { SavedPrefixes } from "./saved-prefixes.js";

/** An engine's options without gaps. */
interface EngineSettings extends PagedSettings {
  /** Texts that wait at a time, those that ran before not counted. */
  readonly mostWaiting: number;
  readonly prefixes: PrefixStore | undefined;
  /** How tokens of texts are guessed that do not say. */
  readonly speculate: TextAsk["speculate"];
}

let embedded = 0;

/** What generates completions for a server: takes requests, batches them, reports figures. */
export class TextEngine implements Engine {
  readonly context: number;
  readonly vocabulary: number;
  readonly embed?: Engine["embed"];
  readonly warm?: Engine["warm"];
  readonly lost: Promise<Error>;
  readonly #decoder: PagedDecoder;
  readonly #layout: PagedLayout;
  readonly #engine: TokenEngine;
  /** All that were taken in and are not over, by name. */
  readonly #texts = new Map<string, EngineText>();
  /** Those that had no turn yet. */
  readonly #places: FairPlaces<TextOwner>;
  readonly #hint = new RetryHint();
  readonly #saved: SavedPrefixes | undefined;
  /** Texts that came where there is a store, those whose beginnings it is asked for, and those of which it has answered. */
  readonly #came: MadeText[] = [];
  readonly #fetches = new Set<Promise<void>>();
  readonly #fetched: { readonly text: MadeText; readonly bring: () => void }[] = [];
  /** Ends a wait for the store. */
  #wake: () => void = () => {};
  readonly #counts = { promptTokens: 0, reusedTokens: 0, madeTokens: 0, steps: 0, guessedTokens: 0, rightGuesses: 0 };
  readonly #speculate: TextAsk["speculate"];
  /** Turns, until no text is left. */
  #running: Promise<void> | undefined;
  #warming: Promise<void> | undefined;
  /** Why nothing is taken in any more. */
  #refusal: InsituError | undefined;
  #tellLost: (error: Error) => void = () => {};

  constructor(
    decoder: PagedDecoder,
    { contextLength, vocabulary }: { readonly contextLength: number; readonly vocabulary: number },
    { prefixes, mostWaiting, speculate, ...settings }: EngineSettings,
  ) {
    this.#speculate = speculate;
    const { blocks, blockSize } = decoder.pages.pool;
    this.#places = new FairPlaces(mostWaiting);
    this.#saved = prefixes && new SavedPrefixes(prefixes, decoder.pages);
    this.context = Math.min(contextLength, blocks * blockSize);
    this.vocabulary = vocabulary;
    this.#decoder = decoder;
    this.lost = new Promise((resolve) => void (this.#tellLost = resolve));
    void decoder.lost?.then((error) => this.#lose(error));
    if (decoder.givesHidden) this.embed = (tokens, signal, asker) => this.#embed(tokens, signal, asker);
    this.#layout = new PagedLayout(decoder, settings);
    if (decoder.goesAhead) this.warm = (limit) => (this.#warming ??= this.#warm(settings, limit));
    this.#engine = new TokenEngine(this.#layout, {
      begun: () => void this.#counts.steps++,
      // Blocks are reserved for what a store may have.
      isWaiting: () => this.#isFetching,
      left: (text) => this.#left(text),
    });
  }

  submit(request: TextRequest, listener: TextListener): RunningText {
    if (this.#refusal !== undefined) throw this.#refusal;
    const { id, tenant, priority = 0, salt = "", maxTokens, prompt } = request;
    checkCount("maxTokens of a text", maxTokens, 0);
    checkPrompt(prompt, this);
    if (this.#texts.has(id))
      throw new InsituError("invalid-argument", `there is a text "${id}" already: names are given once`);
    if (maxTokens === 0) {
      let isOver = false;
      queueMicrotask(() => isOver || listener.ended("max-tokens"));
      return { cancel: () => void (isOver = true) };
    }
    const owner = { id, tenant, priority, salt };
    this.#takePlace(owner, request.coming);
    const heard = this.#heard(owner, prompt.length, listener);
    const text = new MadeText({ speculate: this.#speculate, ...request }, owner, this.#open(salt), heard, this.#layout);
    this.#texts.set(id, text);
    if (this.#saved === undefined) this.#engine.add(text);
    else this.#came.push(text);
    this.#start();
    return { cancel: () => this.#leave(text) };
  }

  /** Counts what is told of a text on its way to its listener. */
  #heard(owner: TextOwner, promptTokens: number, listener: TextListener): TextListener {
    let made = 0;
    return {
      started: (told) => {
        this.#places.leave(owner);
        this.#counts.promptTokens += promptTokens;
        this.#counts.reusedTokens += told.cachedTokens;
        listener.started?.(told);
      },
      token: (token) => {
        this.#counts.madeTokens++;
        // Before its end: whoever goes on with it elsewhere finds its prompt at least.
        if (made++ === 0) this.#keep(this.#texts.get(owner.id));
        return listener.token(token);
      },
      ended: (...end) => {
        this.#hint.finished();
        listener.ended(...end);
      },
      failed: (error) => this.#failed(error, listener),
    };
  }

  /** Tells that a text failed. Where the pages were lost with it, all texts have. */
  #failed(error: Error, listener: Pick<TextListener, "failed">): void {
    listener.failed(toldError(error));
    if (isLoss(error)) this.#lose(error);
  }

  /** The pages are gone, or what they hold cannot be told any more: no text goes on, and none begins. Runs that are under way are not waited for. */
  #lose(cause: Error): void {
    if (this.#refusal !== undefined) return;
    this.#refusal = new LostError(cause);
    for (const text of this.#texts.values()) this.#fail(text, this.#refusal);
    this.#tellLost(cause);
  }

  figures(): EngineFigures {
    const { blocks, blockSize } = this.#decoder.pages.pool;
    const { waiting, ...running } = this.#layout.figures;
    return {
      waiting: waiting + this.#came.length + this.#fetches.size + this.#fetched.length,
      ...running,
      blocks,
      blocksUsed: blocks - this.#layout.available,
      blockSize,
      ...this.#counts,
      ...(this.#saved === undefined ? {} : { store: this.#saved.figures }),
    };
  }

  pool(tenant: string): EnginePool {
    const own = [...this.#texts.values()].filter(({ owner }) => owner.tenant === tenant);
    return poolSeenBy(own, this.#decoder.pages);
  }

  async drain(limitMilliseconds: number): Promise<void> {
    this.#refusal ??= closed();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMilliseconds);
    });
    await Promise.race([this.#running, late]);
    clearTimeout(timer);
    await this.close();
  }

  async close(): Promise<void> {
    this.#refusal ??= closed();
    for (const text of this.#texts.values()) this.#fail(text, closed());
    // Runs and reads on a device that is gone may never end.
    if (this.#refusal instanceof LostError) return void this.#saved?.close();
    await Promise.allSettled([this.#running, this.#warming]);
    await this.#saved?.close();
  }

  async #embed(
    tokens: readonly number[],
    signal: AbortSignal | undefined,
    { tenant = "", isNext = false }: EmbeddingAsker = {},
  ): Promise<Float32Array> {
    if (this.#refusal !== undefined) throw this.#refusal;
    checkPrompt(tokens, this);
    signal?.throwIfAborted();
    const id = `embedding ${embedded++}`;
    const owner = { id, tenant, priority: 0, salt: id };
    if (!isNext) this.#takePlace(owner);
    return new Promise((resolve, reject) => {
      const leave = (): void => this.#fail(text, signal?.reason);
      const over = (): void => signal?.removeEventListener("abort", leave);
      const text = new EmbeddedText(tokens, owner, this.#open(id), {
        started: () => this.#places.leave(owner),
        ended(mean) {
          over();
          resolve(mean);
        },
        failed: (error) => {
          over();
          this.#failed(error, { failed: reject });
        },
      });
      signal?.addEventListener("abort", leave, { once: true });
      this.#texts.set(id, text);
      this.#engine.add(text);
      this.#start();
    });
  }

  /** Runs the usual steps, one after the other. What fails for a reason of its own is left to the texts that need it. */
  async #warm(
    { mostRunning, promptBudget }: Pick<PagedSettings, "mostRunning" | "promptBudget">,
    limitMilliseconds: number = warming.milliseconds,
  ): Promise<void> {
    const { blockSize } = this.#decoder.pages.pool;
    const until = performance.now() + limitMilliseconds;
    let took = 0;
    for (const lengths of usualSteps({ texts: mostRunning, tokens: promptBudget, context: this.context })) {
      // One that has to pause for others would be read again.
      const blocks = lengths.reduce((sum, length) => sum + Math.ceil((length + warmTokens) / blockSize), 0);
      if (blocks > this.#layout.available) continue;
      const began = performance.now();
      // The next one takes as long as the last, or longer.
      if (this.#refusal !== undefined || began + took > until) break;
      const step = warmStep(this.#engine, (salt) => this.#open(salt), lengths);
      // A run on a device that is gone may never end.
      const error = await Promise.race([step, this.lost]).catch((failure: unknown) => failure);
      if (isLoss(error)) this.#lose(error);
      if (error !== undefined) break;
      took = performance.now() - began;
    }
    if (this.#refusal instanceof LostError) throw this.#refusal;
  }

  /** An empty context for a text. */
  #open(salt: string): Context {
    return PagedLayout.open(this.#decoder, PagedLayout.shapeOf(this.#decoder, this.context, 0), salt);
  }

  /** Throws where the tenant has its share of a full queue; where others have more than theirs, their newest text gives way. */
  #takePlace(owner: TextOwner, coming?: number): void {
    const yielding = this.#places.take(owner, coming);
    if (yielding === undefined) throw this.#queueFull(owner);
    for (const other of yielding) {
      const text = this.#texts.get(other.id);
      if (text !== undefined) this.#fail(text, this.#queueFull(other));
    }
  }

  #queueFull({ tenant }: TextOwner): QueueFullError {
    return new QueueFullError(this.#places.takenBy(tenant), this.#hint.seconds(this.figures().waiting));
  }

  #start(): void {
    this.#running ??= this.#run();
    this.#wake();
  }

  /** Turns until no text is left, with turns of the event loop before each. */
  async #run(): Promise<void> {
    try {
      for (;;) {
        await longPause();
        this.#takeFetched();
        for (const text of this.#came.splice(0)) if (!text.isOver) this.#fetch(text, this.#saved!);
        if (this.#texts.size === 0 && !this.#isFetching) return;
        if (!(await this.#engine.advance()) && this.#fetched.length === 0) await this.#untilFetched();
      }
    } catch (error) {
      for (const text of this.#texts.values()) this.#fail(text, error);
    } finally {
      this.#running = undefined;
    }
  }

  /** Blocks are reserved for what a store may have. */
  get #isFetching(): boolean {
    return this.#fetches.size + this.#fetched.length > 0;
  }

  /** Until the store has answered for a text, or another one came. */
  async #untilFetched(): Promise<void> {
    if (this.#fetches.size === 0) return;
    const woken = new Promise<void>((resolve) => void (this.#wake = resolve));
    await Promise.race([...this.#fetches, woken]);
  }

  /** Asks the store for a text's beginning before the text waits for its turn; others run meanwhile. Between runs. */
  #fetch(text: MadeText, saved: SavedPrefixes): void {
    // Each text that runs may need a block before the store has answered.
    const reserved = saved.reserve(savedText(text), this.#layout.figures.running + 1);
    if (reserved === undefined) return this.#engine.add(text);
    const fetch = saved.fetch(reserved).then((contents) => {
      this.#fetches.delete(fetch);
      this.#fetched.push({ text, bring: () => saved.bring(reserved, contents) });
    });
    this.#fetches.add(fetch);
  }

  /** Brings what the store had into the pool. Between runs. */
  #takeFetched(): void {
    for (const { text, bring } of this.#fetched.splice(0)) {
      try {
        bring();
        if (!text.isOver) this.#engine.add(text);
      } catch (error) {
        this.#fail(text, error);
      }
    }
  }

  #fail(text: EngineText, error: unknown): void {
    this.#engine.fail(text, error);
    this.#forget(text);
  }

  #leave(text: EngineText): void {
    this.#engine.leave(text);
    this.#forget(text);
  }

  /** Lets go of a text that the token engine does not have: it waits for the store, or has just left. */
  #forget(text: EngineText): void {
    this.#places.leave(text.owner);
    if (!this.#engine.texts.has(text)) this.#left(text);
  }

  /** A text is over, and no run reads it: its blocks are free. */
  #left(text: EngineText): void {
    if (this.#texts.get(text.owner.id) !== text) return;
    this.#texts.delete(text.owner.id);
    this.#places.leave(text.owner);
    if (text.isWhole) this.#keep(text);
    if (text instanceof MadeText) this.#count(text.figures);
    text.context.release();
  }

  #count({ guessed, right }: MadeText["figures"]): void {
    this.#counts.guessedTokens += guessed;
    this.#counts.rightGuesses += right;
  }

  /** Has the store keep what a text has read. */
  #keep(text: EngineText | undefined): void {
    if (text instanceof MadeText) this.#saved?.keep(savedText(text), (text.context.rows as PagedRows).sequence);
  }
}

const savedText = ({ context, tokens }: MadeText): { readonly salt: string; readonly tokens: readonly number[] } => ({
  salt: (context.rows as PagedRows).sequence.salt,
  tokens,
});

const closed = (): InsituError =>
  new InsituError("closed", "the engine accepts nothing new: it is draining, or was closed");
