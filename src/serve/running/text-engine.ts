/**
 * The engine: texts of many callers on one pool of pages. Each step is one run over the tokens that the scheduler names, of any number of
 * texts; between steps events are served. A text that cannot go on fails alone.
 */
import { checkCount } from "../../base/arguments.js";
import { InsituError } from "../../base/error.js";
import { valueText } from "../../base/value-text.js";
import type { PagedEntry } from "../../cache/paged-state.js";
import type { PagedDecoder } from "../../generate/paged-decoder.js";
import { longPause } from "../../generate/pause.js";
import { FairPlaces } from "../../schedule/fair-places.js";
import { Scheduler, type SchedulerOptions } from "../../schedule/scheduler.js";
import type { EmbeddingAsker, Engine, EngineFigures, RunningText, TextListener, TextRequest } from "../engine.js";
import { Embedding } from "./embedding.js";
import { PoolBlocks } from "./pool-blocks.js";
import { QueueFullError, RetryHint } from "./queue-full.js";
import { Text } from "./running-text.js";
import type { PrefixStore } from "./prefix-store.js";
import { SavedPrefixes } from "./saved-prefixes.js";

/** Reads tokens of many texts in one run; some draw the next ones as well. */
export type StepDecoder = Pick<PagedDecoder, "pages" | "step" | "usualTokens" | "givesHidden" | "sumHidden"> &
  Partial<Pick<PagedDecoder, "draws" | "stepDrawn">>;

/** An engine's options without gaps. */
interface EngineSettings extends Omit<SchedulerOptions, "blockSize"> {
  /** Texts that wait at a time, those that ran before not counted. */
  readonly mostWaiting: number;
  readonly prefixes: PrefixStore | undefined;
}

/** Runs texts. */
export class TextEngine implements Engine {
  readonly context: number;
  readonly vocabulary: number;
  readonly embed?: Engine["embed"];
  readonly #decoder: StepDecoder;
  readonly #scheduler: Scheduler;
  readonly #blocks: PoolBlocks;
  readonly #texts = new Map<string, Text | Embedding>();
  /** Those that had no turn yet. */
  readonly #places: FairPlaces<Text | Embedding>;
  readonly #hint = new RetryHint();
  readonly #saved: SavedPrefixes | undefined;
  /** Texts that came where there is a store, those whose beginnings it is asked for, and those of which it has answered. */
  readonly #came: Text[] = [];
  readonly #fetches = new Set<Promise<void>>();
  readonly #fetched: { readonly text: Text; readonly bring: () => void }[] = [];
  /** Ends a wait for the store. */
  #wake: () => void = () => {};
  readonly #counts = { promptTokens: 0, reusedTokens: 0, madeTokens: 0, steps: 0 };
  /** Steps, until no text is left. */
  #running: Promise<void> | undefined;
  /** A run is under way: what it reads stays where it is. */
  #isReading = false;
  #isClosed = false;

  constructor(
    decoder: StepDecoder,
    { contextLength, vocabulary }: { readonly contextLength: number; readonly vocabulary: number },
    { prefixes, mostWaiting, ...settings }: EngineSettings,
  ) {
    const { blocks, blockSize } = decoder.pages.pool;
    this.#places = new FairPlaces(mostWaiting);
    this.#saved = prefixes && new SavedPrefixes(prefixes, decoder.pages);
    this.context = Math.min(contextLength, blocks * blockSize);
    this.vocabulary = vocabulary;
    this.#decoder = decoder;
    if (decoder.givesHidden) this.embed = (tokens, signal, asker) => this.#embed(tokens, signal, asker);
    this.#blocks = new PoolBlocks(decoder.pages.pool, (id) => this.#texts.get(id)!);
    this.#scheduler = new Scheduler({ blockSize, ...settings }, this.#blocks);
  }

  submit(request: TextRequest, listener: TextListener): RunningText {
    if (this.#isClosed) throw closed();
    checkCount("maxTokens of a text", request.maxTokens, 0);
    this.#checkPrompt(request.prompt);
    const { id } = request;
    const text = new Text(request, listener, this.context);
    if (this.#texts.has(id))
      throw new InsituError("invalid-argument", `there is a text "${id}" already: names are given once`);
    if (request.maxTokens === 0) {
      queueMicrotask(() => text.end("max-tokens"));
      return { cancel: () => (text.isOver = true) };
    }
    this.#takePlace(text, request.coming);
    this.#texts.set(id, text);
    if (this.#saved === undefined) this.#line(text);
    else this.#came.push(text);
    this.#start();
    return { cancel: () => this.#cancel(text) };
  }

  figures(): EngineFigures {
    const { blocks, blockSize } = this.#decoder.pages.pool;
    return {
      waiting: this.#waiting,
      running: this.#scheduler.running,
      blocks,
      blocksUsed: blocks - this.#blocks.available,
      blockSize,
      ...this.#counts,
      preemptions: this.#scheduler.preemptions,
      ...(this.#saved === undefined ? {} : { store: this.#saved.figures }),
    };
  }

  async drain(limitMilliseconds: number): Promise<void> {
    this.#isClosed = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMilliseconds);
    });
    await Promise.race([this.#running, late]);
    clearTimeout(timer);
    await this.close();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const text of this.#texts.values()) this.#leave(text, () => text.fail(closed()));
    await this.#running;
    await this.#saved?.close();
  }

  async #embed(
    tokens: readonly number[],
    signal: AbortSignal | undefined,
    { tenant = "", isNext = false }: EmbeddingAsker = {},
  ): Promise<Float32Array> {
    if (this.#isClosed) throw closed();
    this.#checkPrompt(tokens);
    signal?.throwIfAborted();
    const embedding = new Embedding(tokens, tenant, signal);
    if (!isNext) this.#takePlace(embedding);
    embedding.onLeave(() => this.#fail(embedding, signal?.reason));
    this.#texts.set(embedding.id, embedding);
    this.#line(embedding);
    this.#start();
    return embedding.mean;
  }

  /** Throws where the tenant has its share of a full queue; where others have more than theirs, their newest text gives way. */
  #takePlace(text: Text | Embedding, coming?: number): void {
    const yielding = this.#places.take(text, coming);
    if (yielding === undefined) throw this.#queueFull(text);
    for (const other of yielding) this.#fail(other, this.#queueFull(other));
  }

  #queueFull({ tenant }: Text | Embedding): QueueFullError {
    return new QueueFullError(this.#places.takenBy(tenant), this.#hint.seconds(this.#waiting));
  }

  #checkPrompt(prompt: readonly number[]): void {
    if (prompt.length === 0) throw new InsituError("invalid-argument", "the prompt of a text must have a token");
    if (prompt.length > this.context)
      throw new InsituError(
        "context-overflow",
        `the prompt has ${prompt.length} tokens, the context holds ${this.context}: send a shorter one`,
      );
    // A run with a token that is none would fail for every text in it.
    const wrong = prompt.find((token) => !(Number.isSafeInteger(token) && token >= 0 && token < this.vocabulary));
    if (wrong !== undefined)
      throw new InsituError(
        "invalid-argument",
        `a prompt's tokens must be from 0 to ${this.vocabulary - 1}, got ${valueText(wrong)}`,
      );
  }

  #start(): void {
    this.#running ??= this.#run();
    this.#wake();
  }

  /** Steps until no text is left, with turns of the event loop before each. */
  async #run(): Promise<void> {
    try {
      for (;;) {
        await longPause();
        this.#takeFetched();
        this.#sweep();
        for (const text of this.#came.splice(0)) if (!text.isOver) this.#fetch(text, this.#saved!);
        if (this.#texts.size === 0 && !this.#isFetching) return;
        if (this.#scheduler.waiting + this.#scheduler.running > 0) await this.#step();
        else if (this.#fetched.length === 0) await this.#untilFetched();
      }
    } catch (error) {
      for (const text of this.#texts.values()) this.#fail(text, error);
    } finally {
      this.#running = undefined;
    }
  }

  /** Texts that have no turn yet. */
  get #waiting(): number {
    return this.#scheduler.waiting + this.#came.length + this.#fetches.size + this.#fetched.length;
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

  /** Has a text wait for its turn. */
  #line({ id, tenant, priority, tokens, mostRows }: Text | Embedding): void {
    this.#scheduler.add({ id, tenant, priority, length: tokens.length, most: mostRows });
  }

  /** Asks the store for a text's beginning before the text waits for its turn; others run meanwhile. Between runs. */
  #fetch(text: Text, saved: SavedPrefixes): void {
    // Each text that runs may need a block before the store has answered.
    const reserved = saved.reserve(text, this.#scheduler.running + 1);
    if (reserved === undefined) return this.#line(text);
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
        if (!text.isOver) this.#line(text);
      } catch (error) {
        this.#fail(text, error);
      }
    }
  }

  async #step(): Promise<void> {
    const { parts, admitted, stuck } = this.#scheduler.plan();
    for (const { id, reused } of admitted) this.#begin(this.#texts.get(id)!, reused);
    if (stuck !== undefined && !this.#isFetching) {
      const { pool } = this.#decoder.pages;
      this.#fail(this.#texts.get(stuck)!, pool.exhausted(1, `the text "${stuck}", beside which none runs,`));
    }
    const read: ReadPart[] = [];
    const summed: SummedPart[] = [];
    for (const { id, from, count, isLast } of parts) {
      const text = this.#texts.get(id);
      // Whom its listener did not want when it began is gone already.
      if (text === undefined) continue;
      const entry = { sequence: this.#blocks.sequence(id), tokens: text.tokens.slice(from, from + count) };
      if (text instanceof Embedding) summed.push({ text, entry });
      else read.push({ text, entry, isLast });
    }
    if (read.length + summed.length === 0) return this.#scheduler.abandon();
    this.#isReading = true;
    try {
      if (read.length > 0) await this.#read(read);
      for (const part of summed) await this.#sum(part);
    } finally {
      this.#isReading = false;
    }
    this.#counts.steps++;
    // Before its end: whoever goes on with it elsewhere finds its prompt at least.
    if (this.#saved !== undefined)
      for (const { text, entry, isLast } of read)
        if (isLast && text.made === 1 && !text.isOver) this.#saved.keep(text, entry.sequence);
    this.#sweep();
    this.#scheduler.commit();
  }

  /** One run, and what comes of it. Where the run fails, texts are read one by one: only those that fail alone have failed. */
  async #read(parts: readonly ReadPart[]): Promise<void> {
    let after: (index: number) => Float32Array | number;
    try {
      after = await this.#runParts(parts);
    } catch (error) {
      if (parts.length > 1) for (const part of parts) await this.#read([part]);
      else this.#fail(parts[0].text, error);
      return;
    }
    for (const [index, { text, isLast }] of parts.entries()) if (isLast) this.#goOn(text, after(index));
  }

  /** Texts to embed are read one by one: each hands out a row for each of its tokens. */
  async #sum({ text, entry }: SummedPart): Promise<void> {
    try {
      if (!text.isOver && (await text.read(this.#decoder, entry))) this.#leave(text, () => text.end());
    } catch (error) {
      this.#fail(text, error);
    }
  }

  /** What comes after each part: the logits, or the token where it is drawn where the model runs. */
  async #runParts(parts: readonly ReadPart[]): Promise<(index: number) => Float32Array | number> {
    const decoder = this.#decoder;
    const entries = parts.map(({ entry }) => entry);
    const drawings = parts.map(({ text, isLast }) => (isLast ? text.drawing : undefined));
    const given = drawings.find((drawing) => drawing !== undefined);
    if (given === undefined || decoder.draws !== true || decoder.stepDrawn === undefined) {
      const logits = await decoder.step(entries);
      return (index) => logits.at(0, index);
    }
    const tellsLogits = parts.some(({ isLast }, index) => isLast && drawings[index] === undefined);
    const all = drawings.map((drawing) => drawing ?? given);
    const { tokens, logits } = await decoder.stepDrawn(entries, all, tellsLogits);
    return (index) => (drawings[index] === undefined ? logits!.at(0, index) : tokens[index]);
  }

  #goOn(text: Text, after: Float32Array | number): void {
    if (text.isOver) return;
    try {
      const before = text.made;
      const end = text.goOn(after, this.context);
      this.#counts.madeTokens += text.made - before;
      if (end === undefined) return;
      this.#hint.finished();
      this.#leave(text, () => text.end(end));
    } catch (error) {
      this.#fail(text, error);
    }
  }

  #begin(text: Text | Embedding, reused: number): void {
    this.#places.leave(text);
    try {
      if (text instanceof Embedding || !text.start(reused)) return;
      this.#counts.promptTokens += text.request.prompt.length;
      this.#counts.reusedTokens += reused;
    } catch (error) {
      this.#fail(text, error);
    }
  }

  #fail(text: Text | Embedding, error: unknown): void {
    this.#leave(text, () => text.fail(toldError(error)));
  }

  #cancel(text: Text): void {
    this.#leave(text, () => (text.isOver = true));
  }

  /** Takes leave of a text: its blocks are free now, or after the run that is under way. */
  #leave(text: Text | Embedding, tell: () => void): void {
    this.#places.leave(text);
    try {
      tell();
    } catch {
      // A listener that throws hears no more.
      text.isOver = true;
    }
    if (!this.#isReading) this.#remove(text);
  }

  /** Forgets texts that are over. */
  #sweep(): void {
    for (const text of this.#texts.values()) if (text.isOver) this.#remove(text);
  }

  #remove(text: Text | Embedding): void {
    const { id } = text;
    if (!text.isOver || this.#texts.get(id) !== text) return;
    const sequence = this.#blocks.find(id);
    if (text instanceof Text && text.isWhole && sequence !== undefined) this.#saved?.keep(text, sequence);
    this.#scheduler.remove(id);
    this.#blocks.release(id);
    this.#texts.delete(id);
  }
}

/** A text's part of a run. */
interface ReadPart {
  readonly text: Text;
  readonly entry: PagedEntry;
  readonly isLast: boolean;
}

/** A part of a text to embed. */
interface SummedPart {
  readonly text: Embedding;
  readonly entry: PagedEntry;
}

const closed = (): InsituError =>
  new InsituError("closed", "the engine takes nothing in any more: it drains, or was closed");

/** What is told of an error; who holds the blocks of a full pool is for the server's log alone. */
function toldError(error: unknown): Error {
  if (!(error instanceof Error)) return new InsituError("internal", `a text failed: ${valueText(error)}`);
  if (!(error instanceof InsituError) || error.code !== "out-of-memory") return error;
  const message = "the server has no room left for this text: ask again, ask for less, or serve with more --blocks";
  return new InsituError("out-of-memory", message, { cause: error });
}
