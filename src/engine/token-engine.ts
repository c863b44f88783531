/**
 * The engine: the one loop that drives a decoder. Texts say what they have to read and what they want; each turn plans steps over those that are ready,
 * begins them as far ahead as keeps a device busy, and lands the oldest. Where texts lie is the layout's matter, what becomes of tokens the text's.
 *
 *     plan ─▶ begin ─▶ (under way) ─▶ land ─▶ texts hear of tokens, end, or go on
 *       ▲        └─ the next step is planned before this one's tokens are known ─┘
 *
 * It runs while somebody asks: `advance` is one turn. A text that fails takes no other with it.
 */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import { Drafting } from "./drafting.js";
import { MadeText } from "./made-text.js";
import type { Lane } from "./lane.js";
import type { BegunRuns, BegunStep, Layout, PartResult, Step } from "./step.js";
import type { EngineText } from "./text.js";
import { flight } from "./tuning.js";

/** What the owner of an engine hears. */
export interface EngineWatch {
  /** A step was begun. */
  begun?(step: Step): void;
  /** True if there may be room soon for a text that has none. */
  isWaiting?(): boolean;
  /** A text has no room, and nothing that is under way will give it any: true where some was found. */
  makeRoom?(): boolean;
  /** A text has ended or left: nothing of it is under way here, and its rows are what they were. Before it lets go of them. */
  left?(text: EngineText): void;
}

/** What generates completions for a server: takes requests, batches them, reports figures. */
export class TokenEngine {
  readonly layout: Layout;
  /** Guesses of other models for its texts. */
  readonly drafting: Drafting = new Drafting(this);
  readonly #watch: EngineWatch;
  readonly #texts = new Set<EngineText>();
  /** Oldest first. */
  #underWay: BegunStep[] = [];
  #turn: Promise<boolean> | undefined;
  /** True while steps are being begun: what they read stays where it is. Who waits for that is told. */
  #isBeginning = false;
  #waiting: (() => void)[] = [];

  constructor(layout: Layout, watch: EngineWatch = {}) {
    this.layout = layout;
    this.#watch = watch;
  }

  /** A text takes part from now on, until it is over. */
  add(text: EngineText): void {
    this.layout.add(text);
    this.#texts.add(text);
    if (text instanceof MadeText) text.joins(this.drafting.lookups);
  }

  /** Ends a text without a further word. */
  leave(text: EngineText): void {
    text.isOver = true;
    if (!this.#isBeginning) this.#sweep();
  }

  /** Ends a text without a further word; nothing uses its context any more when this resolves. */
  async quit(text: EngineText): Promise<void> {
    this.leave(text);
    while (this.#texts.has(text)) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (text instanceof MadeText) await this.drafting.gone(text);
  }

  /** Ends a text with an error. */
  fail(text: EngineText, error: unknown): void {
    try {
      text.fail(error instanceof Error ? error : new InsituError("internal", `a text failed: ${valueText(error)}`));
    } catch {
      // Who throws hears no more.
    }
    this.leave(text);
  }

  get texts(): ReadonlySet<EngineText> {
    return this.#texts;
  }

  /** One turn: begins what can be begun and lands what was begun first. False where nothing can be done. Turns do not overlap: who asks meanwhile shares one. */
  advance(): Promise<boolean> {
    return (this.#turn ??= this.#advance());
  }

  async #advance(): Promise<boolean> {
    try {
      while (await this.#begin());
      const oldest = this.#underWay.shift();
      if (oldest === undefined) return false;
      await this.#land(oldest);
      return true;
    } finally {
      this.#turn = undefined;
    }
  }

  /** Plans steps and begins them; true if more may be begun before anything lands. */
  async #begin(): Promise<boolean> {
    const { layout } = this;
    const depths = layout.goesAhead ? this.#depths() : undefined;
    const goesOn = (text: EngineText): boolean => {
      const lane = layout.laneOf(text);
      return text.isAsked && text.isReady(lane) && lane.underWay < (depths?.get(lane) ?? 1);
    };
    const guessedFor: MadeText[] = [];
    for (const text of this.#texts)
      if (text instanceof MadeText && text.wantsDraft && goesOn(text)) guessedFor.push(text);
    if (guessedFor.length > 0) await this.drafting.propose(guessedFor);
    const { steps, failed, stuck } = layout.plan(goesOn);
    for (const { text, error } of failed) this.fail(text, error);
    if (stuck !== undefined && steps.length + this.#underWay.length === 0 && this.#watch.isWaiting?.() !== true) {
      if (this.#watch.makeRoom?.() === true) return true;
      this.fail(stuck.text, stuck.error());
    }
    this.#isBeginning = true;
    try {
      for (const step of steps) await this.#beginStep(step);
    } finally {
      this.#isBeginning = false;
      for (const told of this.#waiting.splice(0)) told();
      this.#sweep();
    }
    return layout.goesAhead && steps.length > 0;
  }

  /** Steps that may be under way in each lane, on a device: fewer where all its texts go on in series. One depth for all: a text that is left out of a step waits for its token. */
  #depths(): ReadonlyMap<Lane, number> {
    const depths = new Map<Lane, number>();
    for (const text of this.#texts) {
      const own = this.#seriesOf(text) > 1 ? flight.seriesDepth : flight.depth;
      const lane = this.layout.laneOf(text);
      if (text.isAsked && !text.isOver) depths.set(lane, Math.max(own, depths.get(lane) ?? 1));
    }
    return depths;
  }

  /** Begins a step. Where it is refused, less is read at once if that may help; else its texts are read one by one: only those that fail alone have failed. */
  async #beginStep(step: Step): Promise<void> {
    const { layout } = this;
    const { lane, parts } = step;
    const count = this.#countOf(step);
    const since = performance.now();
    let begun: BegunRuns;
    try {
      begun = await layout.begin(step, count);
    } catch (error) {
      layout.settle(step, false);
      lane.drawn = new Map();
      if (layout.readsLess?.(step, error) === true) return;
      if (parts.length === 1) return this.fail(parts[0].text, error);
      for (const part of parts) {
        if (part.text.isOver) continue;
        await this.#beginStep({ lane, parts: [part] });
        // On a host the results of one run lie where the next one's will.
        if (!layout.goesAhead) for (const begun of this.#underWay.splice(0)) await this.#land(begun);
      }
      return;
    }
    for (const part of parts) part.text.begun(part, count);
    layout.settle(step, true);
    lane.underWay++;
    this.#underWay.push({ lane, parts, results: begun.results, count, since });
    this.#watch.begun?.(step);
  }

  /** Steps that are begun at once: more than one where all that is wanted are tokens that the device draws, and they come fast. */
  #countOf(step: Step): number {
    if (!this.layout.goesAhead) return 1;
    const texts = step.parts.map(({ text }) => text);
    const wanted = Math.min(...texts.flatMap((text) => [this.#seriesOf(text), text.mostAhead]));
    return wanted > 1 && this.layout.mayRepeat(step, wanted) ? wanted : 1;
  }

  /** Not more than the text has: it may end soon. */
  #seriesOf(text: EngineText): number {
    const { series } = this.layout.laneOf(text);
    const made = text instanceof MadeText ? text.made : 0;
    return text.atOnce ?? Math.max(1, Math.min(series, Math.floor(made / flight.seriesDepth)));
  }

  async #land(step: BegunStep): Promise<void> {
    const { lane, parts, count } = step;
    let results: readonly (readonly PartResult[])[];
    try {
      results = await step.results;
    } catch (error) {
      lane.underWay--;
      for (const { text } of parts) if (!text.isOver) this.fail(text, error);
      return;
    }
    const took = lane.landed(count, step.since);
    this.layout.took?.(step, took);
    for (const result of results)
      for (const [at, { text }] of parts.entries())
        try {
          text.land(result[at]);
        } catch (error) {
          this.fail(text, error);
        }
    this.drafting.landed(step);
    this.#sweep();
  }

  /** Takes leave of texts that are over. */
  #sweep(): void {
    let isAnyOver = false;
    for (const text of this.#texts) {
      if (!text.isOver) continue;
      isAnyOver = true;
      this.#texts.delete(text);
      text.context.forgetAhead();
      if (text instanceof MadeText) this.drafting.left(text);
      this.#watch.left?.(text);
      this.layout.remove(text);
    }
    if (!isAnyOver) return;
    // What was begun for nobody is not waited for.
    this.#underWay = this.#underWay.filter(({ lane, parts }) => {
      const isWanted = parts.some(({ text }) => !text.isOver);
      if (!isWanted) lane.underWay--;
      return isWanted;
    });
  }
}
