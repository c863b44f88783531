/**
 * Texts on pages: all of them lie in blocks of one pool, and one run reads tokens of any number of them. Who reads how much next is the scheduler's to say,
 * which counts tokens and blocks.
 */
import type { InsituError } from "../base/error.js";
import type { TokenDrawer } from "../decoder/token-drawer.js";
import { Scheduler, type SchedulerOptions } from "#insitu/schedule/scheduler.js";
import type { TextBlocks } from "#insitu/schedule/text-blocks.js";
import { Context, type ContextOptions } from "./context.js";
import { EmbeddedText } from "./embedded-text.js";
import { Lane } from "./lane.js";
import { MadeText } from "./made-text.js";
import { noToken, type PagedDecoder, type PagedPart, type PagedResult } from "./paged-decoder.js";
import { PagedRows } from "./paged-rows.js";
import {
  type BegunRuns,
  type BegunStep,
  drawingsOfPart,
  drawnRow,
  isOneToken,
  type Layout,
  type PartResult,
  type Step,
  type StepPart,
  type StepPlan,
  type TextFailure,
} from "./step.js";
import { StepBudget } from "./step-budget.js";
import type { EngineText } from "./text.js";

/** Slots that texts which do not run leave for those that do, where texts keep states without rows: contexts that wait have one each. */
const keptSlots = 8;

/** How texts on pages are scheduled. */
export interface PagedSettings extends Omit<SchedulerOptions, "blockSize"> {
  /** Tokens that a run reads at most while no text has begun to come, which would wait for it. */
  readonly promptBudget: number;
  /** True if what a run reads while texts come may go by how long that takes. */
  readonly learnsBudget: boolean;
}

/** Pages, and the texts that lie there. */
export class PagedLayout implements Layout, TextBlocks {
  readonly draws: boolean;
  readonly checks: boolean;
  readonly goesAhead: boolean;
  readonly #decoder: PagedDecoder;
  readonly #scheduler: Scheduler;
  readonly #budget: StepBudget;
  readonly #lane = new Lane();
  readonly #texts = new Map<string, EngineText>();
  #drawer: TokenDrawer | undefined;

  constructor(decoder: PagedDecoder, { promptBudget, learnsBudget, ...settings }: PagedSettings) {
    this.#decoder = decoder;
    this.#budget = new StepBudget(settings.tokenBudget, promptBudget, {
      learns: learnsBudget,
      // One token of each text, and as many of prompts.
      least: Number.isFinite(settings.mostRunning) ? 2 * settings.mostRunning : 0,
    });
    this.draws = decoder.draws;
    this.checks = decoder.checks;
    this.goesAhead = decoder.goesAhead;
    const { pool, states } = decoder.pages;
    // A text that runs has a slot of its own.
    const mostRunning = Math.min(settings.mostRunning, Math.max(1, (states?.count ?? Infinity) - keptSlots));
    this.#scheduler = new Scheduler(
      {
        ...settings,
        mostRunning: states === undefined ? mostRunning : Math.min(mostRunning, settings.tokenBudget),
        blockSize: pool.blockSize,
        wholeBlocks: states !== undefined,
      },
      this,
    );
  }

  /** What waits, runs and had to begin again. */
  get figures(): { readonly waiting: number; readonly running: number; readonly preemptions: number } {
    const { waiting, running, preemptions } = this.#scheduler;
    return { waiting, running, preemptions };
  }

  /** The shape of contexts of at most `capacity` tokens. */
  static shapeOf({ overwrites, longTexts }: PagedDecoder, capacity: number, sinks: number): ContextOptions {
    return { capacity, sinks, longFrom: longTexts?.from, overwrites, isWhole: true };
  }

  /** An empty context for a text that shares beginnings with those of its salt. */
  static open({ pages }: PagedDecoder, shape: ContextOptions, salt = ""): Context {
    return new Context(new PagedRows(pages, pages.pool.add(undefined, salt), shape.capacity), shape);
  }

  add(text: EngineText): void {
    const { id, tenant, priority } = text.owner;
    const { length } = text.context;
    this.#scheduler.add({ id, tenant, priority, length: length + text.unread, most: text.mostRows });
    this.#texts.set(id, text);
  }

  remove(text: EngineText): void {
    const { id } = text.owner;
    this.#texts.delete(id);
    this.#scheduler.remove(id);
    if (this.#texts.size > 0) return;
    this.#drawer?.release();
    this.#drawer = undefined;
    this.#lane.drawn = new Map();
  }

  laneOf(): Lane {
    return this.#lane;
  }

  plan(isReady: (text: EngineText) => boolean): StepPlan {
    const texts = [...this.#texts.values()];
    // What a text that slides writes over is its own already.
    const slides = new Set(texts.filter((text) => text.slides));
    const failed: TextFailure[] = [];
    const sliding = [...slides].filter(isReady).flatMap((text) => {
      try {
        return [text.part(1)];
      } catch (error) {
        failed.push({ text, error });
        return [];
      }
    });
    for (const text of texts) {
      const { owner, context } = text;
      // A text that has become a long one is read anew.
      if (!text.slides && context.longPart(text.pending) > 0 && text.readAgain(context.length)) context.becomeLong();
      this.#scheduler.told(owner.id, context.length, context.length + text.unread);
    }
    const isPlanned = (id: string): boolean => {
      const text = this.#texts.get(id)!;
      return !slides.has(text) && isReady(text);
    };
    const { beside, alone } = this.#budget;
    const { parts, admitted, stuck } = this.#scheduler.plan(isPlanned, texts.some(isComing) ? beside : alone);
    for (const { id } of admitted) {
      const text = this.#texts.get(id)!;
      try {
        text.start();
      } catch (error) {
        failed.push({ text, error });
      }
    }
    const planned = parts.map(({ id, count }) => this.#texts.get(id)!.part(count));
    const isLeft = ({ text }: StepPart): boolean => text.isOver || failed.some((other) => other.text === text);
    const all = this.#withoutLatePenalties([...planned, ...sliding].filter((part) => !isLeft(part)));
    const steps = this.#runsOf(all).map((own) => ({ lane: this.#lane, parts: own }));
    if (stuck === undefined) return { steps, failed };
    const { pool } = this.#decoder.pages;
    const text = this.#texts.get(stuck)!;
    const { sequence } = text.context.rows as PagedRows;
    const error = (): InsituError => pool.exhausted(1, `${text.unread} rows of "${sequence.name}"`);
    return { steps, failed, stuck: { text, error } };
  }

  /** The runs that parts are read in: one for all, or, where texts keep states without rows, one for those of as many tokens. */
  #runsOf(parts: readonly StepPart[]): readonly (readonly StepPart[])[] {
    if (this.#decoder.pages.states === undefined) return parts.length === 0 ? [] : [parts];
    const runs = new Map<number, StepPart[]>();
    for (const part of parts) {
      const count = part.tokens === "drawn" ? 1 : part.tokens.length;
      runs.set(count, [...(runs.get(count) ?? []), part]);
    }
    return [...runs.values()];
  }

  /** Penalties go by tokens: those of texts whose last one is not known go on only where the device has noted it. */
  #withoutLatePenalties(parts: readonly StepPart[]): readonly StepPart[] {
    const isLate = ({ text, tokens }: StepPart): boolean =>
      tokens === "drawn" && text.drawing!.options.repetitionPenalty !== 1;
    if (!parts.some(isLate) || this.#goesOn(parts)) return parts;
    for (const part of parts.filter(isLate)) this.#scheduler.skip(part.text.owner.id);
    return parts.filter((part) => !isLate(part));
  }

  /** True if penalties can go on from tokens that the host does not know, or there are none: a step reads what the one before drew, row by row. */
  #goesOn(parts: readonly StepPart[]): boolean {
    const drawings = parts.flatMap(({ text }) => text.drawing ?? []);
    const from = this.#decoder
      .rowsFor(parts.length)
      .map((row) => (row < parts.length ? drawnRow(parts[row], this.#lane.drawn) : row));
    this.#drawer ??= this.#decoder.drawer();
    return this.#drawer.goesOn(from, drawings);
  }

  mayRepeat({ parts }: Step, count: number): boolean {
    const ids = parts.map(({ text }) => text.owner.id);
    return (
      this.#decoder.goesAhead &&
      parts.every((part) => part.wants === "token" && isOneToken(part, this.#lane.drawn)) &&
      this.#scheduler.mayRead(ids, count) &&
      this.#goesOn(parts)
    );
  }

  async begin({ lane, parts }: Step, count: number): Promise<BegunRuns> {
    const others = parts.filter(({ wants }) => wants !== "hidden");
    const draws = others.some(({ wants }) => wants === "token");
    this.#drawer ??= draws ? this.#decoder.drawer() : undefined;
    const read = others.map((part): PagedPart => ({
      ...this.#entryOf(part),
      keep: part.keep,
      reads: part.text.reads,
      wantsLogits: part.wants === "logits",
      drawings: drawingsOfPart(part),
      from: drawnRow(part, lane.drawn),
    }));
    const begun =
      read.length === 0 ? undefined : await this.#decoder.begin(read, draws ? this.#drawer : undefined, count);
    // Where guesses are checked, the host knows first which token is the last.
    lane.drawn = new Map(
      others.flatMap(({ text, wants, keep }, at) => (wants === "token" && keep === 1 ? [[text, begun!.rows[at]]] : [])),
    );
    const summed = new Map<StepPart, PartResult>();
    // Each hands out a row for each of its tokens: they are read one by one. What the run before wrote stays written where one fails.
    for (const part of parts) if (part.wants === "hidden") summed.set(part, await this.#sum(part));
    const runs = begun?.results ?? Promise.resolve([noResult]);
    const results = runs.then((all) =>
      all.map(({ tokenOf, logitsOf, hiddenOf }) =>
        parts.map((part): PartResult => {
          const at = others.indexOf(part);
          if (part.wants === "token")
            return { kind: "token", token: tokenOf(at, 0), before: (fromEnd) => tokenOf(at, fromEnd) };
          if (part.wants === "logits")
            return {
              kind: "logits",
              at: (fromEnd) => logitsOf(at, fromEnd),
              hidden: hiddenOf && ((fromEnd) => hiddenOf(at, fromEnd)),
            };
          return summed.get(part) ?? { kind: "nothing" };
        }),
      ),
    );
    // Nobody has to wait for them.
    results.catch(() => undefined);
    return { results };
  }

  async #sum(part: StepPart): Promise<PartResult> {
    try {
      const { sums } = part.text as EmbeddedText;
      return { kind: "hidden", sums: await this.#decoder.sumHidden(this.#entryOf(part), sums) };
    } catch (error) {
      return { kind: "failed", error };
    }
  }

  #entryOf({ text, tokens, over }: StepPart): Pick<PagedPart, "sequence" | "tokens" | "position" | "rows"> {
    const { context } = text;
    const { sequence } = context.rows as PagedRows;
    const { offset = Infinity } = this.#decoder.longTexts ?? {};
    const position = over?.position ?? sequence.position;
    // Positions that no short text has are those of long ones, where a text slides.
    const isFurther = context.isLong || position + (tokens === "drawn" ? 1 : tokens.length) > offset;
    return {
      sequence,
      tokens: tokens === "drawn" ? 1 : tokens,
      ...((over !== undefined || isFurther) && { position: position + (isFurther ? offset : 0) }),
      ...(over && { rows: over.rows }),
    };
  }

  settle({ parts }: Step, isBegun: boolean): void {
    if (isBegun) return this.#scheduler.commit();
    for (const { text } of parts) this.#scheduler.skip(text.owner.id);
  }

  took({ parts }: BegunStep, milliseconds: number): void {
    const tokens = parts.reduce((sum, part) => sum + (part.tokens === "drawn" ? 1 : part.tokens.length), 0);
    if (tokens > 2 * parts.length) this.#budget.took(tokens, milliseconds);
  }

  get available(): number {
    const { pool } = this.#decoder.pages;
    return pool.room / pool.blockSize;
  }

  share(id: string): number {
    const text = this.#texts.get(id)!;
    const { context } = text;
    if (!text.sharesRows || text.pending === 0 || context.ahead > 0) return context.length;
    const before = context.length;
    const length = context.share(text.tokens.slice(0, -1));
    if (length > before) text.catchUp();
    return length;
  }

  names(id: string, _from: number, to: number): readonly number[] {
    const text = this.#texts.get(id)!;
    const { sequence } = text.context.rows as PagedRows;
    return text.sharesRows && !text.slides ? sequence.blockHashes(text.tokens, to) : [];
  }

  release(id: string): void {
    this.#texts.get(id)?.loseRows();
  }
}

/** Of a run that nothing was asked of. */
const noResult: PagedResult = { tokenOf: noToken, logitsOf: () => new Float32Array() };

/** True for a text that somebody reads as it comes. */
const isComing = (text: EngineText): boolean =>
  !text.isOver && text instanceof MadeText && text.made + text.drawnAhead > 0;
