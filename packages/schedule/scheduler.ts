/**
 * Which texts read which of their tokens in the next run. No phases: what has been read of each text catches up with what is known of it.
 * Texts that need one token go first, then prompts in chunks, those of texts that waited among them, within a budget of tokens. Knows no
 * model, no tokens and no clock; driven step by step: `plan`, then `commit`.
 *
 * Tenants have equal shares of the places to run, of the budget and of the blocks, as far as they want them. One that waits with fewer texts
 * running than another takes a place over: that text pauses with all that it has read. One that waits for blocks takes those of the tenant that
 * has the most, whose newest text begins again. A tenant's oldest text is left alone by either, so that each goes on. One that has just come
 * goes ahead: its first steps are for tenants like it alone, so that short texts wait for no large runs, with one for all now and then.
 *
 * Out of blocks, the text that has read least gives all of its back and waits again: of the tenant that has the most blocks, where it has
 * several texts. One that this befell `mostPreemptions` times comes back only when there is room for all that it may ever need, which is
 * kept for it from then on.
 */
import { InsituError } from "#insitu/base/error.js";
import { type AddedText, partOf, Step, type StepPlan, type ScheduledText } from "./step.js";
import { byTenant, largestOf, leftOf, without } from "./tenants.js";
import type { TextBlocks } from "./text-blocks.js";
import { WaitingLine } from "./waiting-line.js";

/** How texts are scheduled. */
export interface SchedulerOptions {
  /** Rows of a block. */
  readonly blockSize: number;
  /** Tokens that a run reads at most. */
  readonly tokenBudget: number;
  /** Texts that run at a time, at most the budget; Infinity for all there are, whatever a run reads then. */
  readonly mostRunning: number;
  /** Blocks that stay free when a text is admitted beside others, for those to grow. */
  readonly watermark: number;
  /** How often a text may have to begin again. */
  readonly mostPreemptions: number;
  /** True if parts of prompts end with a block where they can: there what has no rows can be taken over. */
  readonly wholeBlocks?: boolean;
}

/** Steps in which a tenant that has come is new, and those that such ones have before all others have one. */
const headStart = 32;
const mostAhead = 16;

/** Schedules texts. */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #blocks: TextBlocks;
  readonly #texts = new Map<string, ScheduledText>();
  readonly #waiting = new WaitingLine<ScheduledText>();
  /** In the order in which they were admitted. */
  #running: ScheduledText[] = [];
  /** Those of the waiting that have blocks. */
  #paused: ScheduledText[] = [];
  /** Tenants that have texts, and in how many steps some were read since they came. */
  readonly #tenants = new Map<string, { texts: number; steps: number }>();
  /** Steps since the last one that was for all. */
  #ahead = 0;
  #arrivals = 0;
  #preemptions = 0;

  constructor(options: SchedulerOptions, blocks: TextBlocks) {
    if (options.mostRunning > options.tokenBudget && options.mostRunning !== Infinity)
      throw new InsituError(
        "invalid-argument",
        `${options.mostRunning} texts that run at a time need a budget of as many tokens, got ${options.tokenBudget}`,
      );
    this.#options = options;
    this.#blocks = blocks;
  }

  get waiting(): number {
    return this.#waiting.count;
  }

  get running(): number {
    return this.#running.length;
  }

  /** How often a text had to give its blocks back. */
  get preemptions(): number {
    return this.#preemptions;
  }

  /** Has a text wait for its turn. */
  add(added: AddedText): void {
    if (this.#texts.has(added.id))
      throw new InsituError("invalid-argument", `there is a text "${added.id}" already: names are given once`);
    const arrival = this.#arrivals++;
    const text: ScheduledText = { ...added, arrival, computed: 0, reading: 0, preemptions: 0 };
    this.#texts.set(added.id, text);
    const present = this.#tenants.get(added.tenant);
    if (present === undefined) this.#tenants.set(added.tenant, { texts: 1, steps: 0 });
    else present.texts++;
    this.#waiting.add(text);
  }

  /** Ends a text, wherever it is: its blocks are free at once. Not while a run reads it. */
  remove(id: string): void {
    const text = this.#texts.get(id);
    if (text === undefined) return;
    this.#texts.delete(id);
    if (--this.#tenants.get(text.tenant)!.texts === 0) this.#tenants.delete(text.tenant);
    const hasBlocks = !this.#waiting.remove(text) || this.#paused.includes(text);
    this.#running = without(this.#running, text);
    this.#paused = without(this.#paused, text);
    if (hasBlocks) this.#blocks.release(id);
  }

  /** What is true of a text now: tokens read, those of runs that were begun among them, and tokens known or about to be. */
  told(id: string, computed: number, length: number): void {
    const text = this.#texts.get(id);
    if (text === undefined) return;
    text.length = length;
    if (this.#running.includes(text) || this.#paused.includes(text)) text.computed = computed;
  }

  /** What the next run reads of texts that can be read now, of all where left out, within a budget of tokens. `commit` must follow. */
  plan(isReady: (id: string) => boolean = () => true, budget: number = this.#options.tokenBudget): StepPlan {
    const step = new Step(budget);
    for (const text of this.#running) this.#shareMore(text, step);
    while (step.preempted.length === 0 && this.#admit(step));
    this.#resume(step);
    const isAhead = this.#ahead < mostAhead && this.#running.some(({ tenant }) => this.#isNew(tenant));
    const ready = new Set(this.#running.filter(({ id }) => isReady(id)));
    this.#readTexts(step, (text) => ready.has(text) && (!isAhead || this.#isNew(text.tenant)));
    const isEmpty = this.#running.every(({ reading }) => reading === 0);
    if (isEmpty) this.#readTexts(step, (text) => ready.has(text));
    // A step in which nothing can be read is none.
    if (this.#running.some(({ reading }) => reading > 0)) this.#ahead = isAhead && !isEmpty ? this.#ahead + 1 : 0;
    const { admitted, preempted, displaced, paused, resumed } = step;
    const [only = this.#waiting.first(), next] = this.#running;
    const isIdle = next === undefined && only?.reading === 0 && preempted.length + displaced.length === 0;
    const isStuck = isIdle && isReady(only.id);
    return {
      parts: this.#running.flatMap(partOf),
      admitted,
      preempted,
      displaced,
      paused,
      resumed,
      stuck: isStuck ? only?.id : undefined,
    };
  }

  /** The run is over: texts whose last tokens were read have one more now, but for those that ended and were removed. */
  commit(): void {
    for (const tenant of new Set(this.#running.filter(({ reading }) => reading > 0).map((text) => text.tenant)))
      this.#tenants.get(tenant)!.steps++;
    for (const text of this.#running) {
      text.computed += text.reading;
      if (text.reading > 0 && text.computed === text.length) text.length++;
      text.reading = 0;
    }
  }

  /** True if each of these texts may go on by so many tokens without blocks that another one has spoken for, or that are kept for it. */
  mayRead(ids: readonly string[], count: number): boolean {
    const texts = ids.map((id) => this.#texts.get(id)!).filter((text) => !this.#isProtected(text));
    const more = texts.reduce((sum, text) => sum + this.#blocksOf(text.computed + count) - this.#reach(text), 0);
    return more <= this.#free();
  }

  /** A text is not read after all. */
  skip(id: string): void {
    const text = this.#texts.get(id);
    if (text !== undefined) text.reading = 0;
  }

  /** What others have read meanwhile of a prompt need not be read again. Before anything else: blocks that were spoken for are not taken. */
  #shareMore(text: ScheduledText, step: Step): void {
    text.reading = 0;
    if (text.length - text.computed === 1) return;
    text.computed = this.#blocks.share(text.id);
    if (this.#free() < 0) this.#preempt(text, step);
  }

  #isNew(tenant: string): boolean {
    return this.#tenants.get(tenant)!.steps < headStart;
  }

  /**
   * Texts that need one token, then prompts, in chunks: each tenant reads an equal share of what is left of the budget, and what one does not want
   * is the others'.
   */
  #readTexts(step: Step, isMeant: (text: ScheduledText) => boolean): void {
    const meant = this.#running.filter(isMeant);
    for (const text of meant)
      if (text.length - text.computed === 1 && this.#makeRoom(text, 1, step, () => true)) this.#read(text, 1, step);
    const unread = [...byTenant(meant.filter(({ reading }) => reading === 0))].toSorted(
      ([, a], [, b]) => leftOf(a) - leftOf(b),
    );
    for (const [at, [, texts]] of unread.entries()) {
      const until = step.budget - Math.ceil(step.budget / (unread.length - at));
      for (const text of texts) this.#readPrompt(text, step.budget - until, step);
    }
  }

  /** A chunk of a text; the others' blocks are taken only from those that do not run now. */
  #readPrompt(text: ScheduledText, most: number, step: Step): void {
    if (!this.#running.includes(text) || most <= 0) return;
    const count = this.#chunkOf(text, most, step);
    if (count === 0 || !this.#makeRoom(text, count, step, ({ reading }) => reading === 0)) return;
    this.#read(text, count, step);
  }

  /** Admits the text whose turn it is, if there is a place and all that is known of it fits; false where none is admitted. */
  #admit(step: Step): boolean {
    const running = byTenant(this.#running);
    const text = this.#waiting.first((tenant) => running.get(tenant)?.length ?? 0);
    if (text === undefined || step.displaced.includes(text.id)) return false;
    const own = running.get(text.tenant) ?? [];
    const isFull = this.#running.length >= this.#options.mostRunning;
    const pausing = isFull ? largestOf(text, own.length + 1, ({ length }) => length, running) : undefined;
    if (isFull && pausing === undefined) return false;
    // What its tenant's prompts take of the budget is read before it.
    if (leftOf(own) >= step.budget || !this.#begin(text, own.length === 0, step)) return false;
    // It may be gone already, for its blocks.
    if (pausing !== undefined && this.#running.length >= this.#options.mostRunning) this.#pause(pausing, step);
    this.#waiting.take(text);
    this.#running.push(text);
    return true;
  }

  /** Finds room for all that is known of a text that waits; false where there is none. `isFirst` where nothing of its tenant runs. */
  #begin(text: ScheduledText, isFirst: boolean, step: Step): boolean {
    if (this.#paused.includes(text)) {
      this.#paused = without(this.#paused, text);
      step.changed(text.id, step.resumed, step.paused);
      return true;
    }
    const reused = this.#blocks.share(text.id);
    const all = this.#blocksOf(this.#isProtected(text) ? text.most : text.length);
    // Blocks stay free for others to grow; those of one that has nothing else are few.
    const spare = this.#isProtected(text) || isFirst ? 0 : this.#options.watermark;
    while (all - this.#blocksOf(reused) > this.#free() - this.#spokenFor() - spare) {
      const holding = byTenant([...this.#running, ...this.#paused]);
      const least = all + this.#heldBy(holding.get(text.tenant) ?? []);
      const largest = isFirst ? largestOf(text, least, (texts) => this.#spareOf(texts), holding) : undefined;
      if (largest === undefined) {
        this.#blocks.release(text.id);
        return false;
      }
      step.displaced.push(largest.id);
      this.#giveBack(largest, step);
      this.#waiting.add(largest);
    }
    text.computed = reused;
    step.admitted.push({ id: text.id, reused });
    return true;
  }

  /** A text gives its place to another tenant's, and keeps its blocks. */
  #pause(text: ScheduledText, step: Step): void {
    step.changed(text.id, step.paused, step.resumed);
    step.budget += text.reading;
    text.reading = 0;
    this.#running = without(this.#running, text);
    this.#paused.push(text);
    this.#waiting.add(text);
  }

  /** Places that are free while those whose turn it is wait for blocks: who has blocks goes on, and gives them back in the end. */
  #resume(step: Step): void {
    for (const text of this.#paused) {
      if (this.#running.length >= this.#options.mostRunning) return;
      this.#begin(text, false, step);
      this.#waiting.take(text);
      this.#running.push(text);
    }
  }

  /** Tokens that a text reads now: none where another one is reading the same beginning, which it can take over afterwards. */
  #chunkOf(text: ScheduledText, most: number, step: Step): number {
    const count = this.#partOf(text, Math.min(most, text.length - text.computed));
    // The last token is read in any case: its logits are wanted.
    const names = this.#blocks.names(text.id, text.computed, Math.min(text.computed + count, text.length - 1));
    if (names.length > 0 && step.names.has(names[0])) return 0;
    for (const name of names) step.names.add(name);
    return count;
  }

  /** Tokens of a part that ends with a block, where parts do and one ends there. */
  #partOf({ length, computed }: ScheduledText, count: number): number {
    const { blockSize, wholeBlocks = false } = this.#options;
    if (!wholeBlocks) return count;
    // The last token is read in any case: its logits are wanted.
    const end = Math.min(computed + count, length - 1);
    const whole = end - (end % blockSize) - computed;
    return whole > 0 ? whole : count;
  }

  #read(text: ScheduledText, count: number, step: Step): void {
    text.reading = count;
    step.budget -= count;
  }

  /** Blocks for `count` more rows of a text; where there are none, texts with fewer rows give theirs back. False where the text must wait. */
  #makeRoom(text: ScheduledText, count: number, step: Step, mayLose: (text: ScheduledText) => boolean): boolean {
    if (!this.#running.includes(text)) return false;
    const needed = this.#blocksOf(text.computed + count) - this.#blocksOf(text.computed);
    // What is kept for a text is there.
    if (needed === 0 || this.#isProtected(text)) return true;
    while (needed > this.#free()) {
      const all = [...this.#running, ...this.#paused];
      const holding = byTenant(all);
      const spareOf = ({ tenant }: ScheduledText): number => this.#spareOf(holding.get(tenant)!);
      const victims = all.filter((other) => {
        const mayGo = other === text || this.#paused.includes(other) || mayLose(other);
        return mayGo && !this.#isProtected(other) && other.priority <= text.priority;
      });
      const [least] = victims.toSorted(
        (a, b) =>
          a.priority - b.priority || spareOf(b) - spareOf(a) || a.computed - b.computed || b.arrival - a.arrival,
      );
      // The others go on and give back what they have in the end.
      if (victims.length === 1) return false;
      this.#preempt(least, step);
      if (least === text) return false;
    }
    return true;
  }

  #preempt(text: ScheduledText, step: Step): void {
    step.preempted.push(text.id);
    this.#giveBack(text, step);
    text.preemptions++;
    this.#waiting.putBack(text);
  }

  /** Takes all blocks of a text, and its place. */
  #giveBack(text: ScheduledText, step: Step): void {
    step.budget += text.reading;
    this.#waiting.remove(text);
    this.#running = without(this.#running, text);
    this.#paused = without(this.#paused, text);
    this.#blocks.release(text.id);
    text.computed = 0;
    text.reading = 0;
    this.#preemptions++;
  }

  /** Blocks that texts have, or have spoken for. */
  #heldBy(texts: readonly ScheduledText[]): number {
    return texts.reduce((sum, { length }) => sum + this.#blocksOf(length), 0);
  }

  /** The same of a tenant that has several texts; one that has only one keeps it. */
  #spareOf(texts: readonly ScheduledText[]): number {
    return texts.length < 2 ? 0 : this.#heldBy(texts);
  }

  /** Blocks that prompts will take which are not read to their end. */
  #spokenFor(): number {
    const others = [...this.#running, ...this.#paused].filter((other) => !this.#isProtected(other));
    return others.reduce((sum, other) => sum + this.#blocksOf(other.length) - this.#reach(other), 0);
  }

  #isProtected({ preemptions }: ScheduledText): boolean {
    return preemptions >= this.#options.mostPreemptions;
  }

  /** Blocks that nobody has spoken for: not in this step, and not as what is kept for a text. */
  #free(): number {
    return [...this.#running, ...this.#paused].reduce((free, text) => {
      const until = this.#isProtected(text) ? this.#blocksOf(text.most) : this.#reach(text);
      return free - (until - this.#blocksOf(text.computed));
    }, this.#blocks.available);
  }

  /** Blocks of a text after this step. */
  #reach({ computed, reading }: ScheduledText): number {
    return this.#blocksOf(computed + reading);
  }

  #blocksOf(rows: number): number {
    return Math.ceil(rows / this.#options.blockSize);
  }
}
