/**
 * Which texts read which of their tokens in the next run. No phases: what has been read of each text catches up with what is known of it.
 * Texts that need one token go first, then prompts in chunks, then texts that wait, within a budget of tokens. Knows no model, no tokens and
 * no clock; driven step by step: `plan`, then `commit`.
 *
 * Out of blocks, the text that has read least gives all of its back and waits again, in front. One that this befell `mostPreemptions` times
 * comes back only when there is room for all that it may ever need, which is kept for it from then on.
 */
import { InsituError } from "../base/error.js";
import type { TextBlocks } from "./text-blocks.js";
import { WaitingLine } from "./waiting-line.js";

/** How texts are scheduled. */
export interface SchedulerOptions {
  /** Rows of a block. */
  readonly blockSize: number;
  /** Tokens that a run reads at most. */
  readonly tokenBudget: number;
  /** Texts that run at a time, at most the budget. */
  readonly mostRunning: number;
  /** Texts that wait at a time, those that ran before not counted. */
  readonly mostWaiting: number;
  /** Blocks that stay free when a text is admitted beside others, for those to grow. */
  readonly watermark: number;
  /** How often a text may have to begin again. */
  readonly mostPreemptions: number;
}

/** A text that is asked for. */
interface AddedText {
  readonly id: string;
  readonly tenant: string;
  readonly priority: number;
  /** Tokens that are known: the prompt's. */
  readonly length: number;
  /** Tokens that it may have in the end. */
  readonly most: number;
}

/** Tokens of one text that a run reads. */
interface TextPart {
  readonly id: string;
  readonly from: number;
  readonly count: number;
  /** True if these are its last ones: what comes after them is wanted. */
  readonly isLast: boolean;
}

/** What happens in a step. Preempted texts have no blocks any more, admitted ones those that they share. */
interface StepPlan {
  readonly parts: readonly TextPart[];
  /** Texts that begin, or begin again, and how many of their tokens were there already. */
  readonly admitted: readonly { readonly id: string; readonly reused: number }[];
  readonly preempted: readonly string[];
  /** A text that runs alone and does not fit all the same: somebody else has the blocks. It can only be removed. */
  readonly stuck: string | undefined;
}

interface Text extends AddedText {
  readonly arrival: number;
  /** Tokens known and tokens read. */
  length: number;
  computed: number;
  /** Tokens that the step reads. */
  reading: number;
  preemptions: number;
}

/** Schedules texts. */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #blocks: TextBlocks;
  readonly #texts = new Map<string, Text>();
  readonly #waiting = new WaitingLine<Text>();
  /** In the order in which they were admitted. */
  #running: Text[] = [];
  #arrivals = 0;
  #preemptions = 0;
  /** Those of the waiting that ran before. */
  #returned = 0;

  constructor(options: SchedulerOptions, blocks: TextBlocks) {
    if (options.mostRunning > options.tokenBudget)
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

  /** False where as many texts wait as may. */
  add(added: AddedText): boolean {
    if (this.#texts.has(added.id))
      throw new InsituError("invalid-argument", `there is a text "${added.id}" already: names are given once`);
    if (this.#waiting.count - this.#returned >= this.#options.mostWaiting) return false;
    const text: Text = { ...added, arrival: this.#arrivals++, computed: 0, reading: 0, preemptions: 0 };
    this.#texts.set(added.id, text);
    this.#waiting.add(text);
    return true;
  }

  /** Ends a text, wherever it is: its blocks are free at once. Not while a run reads it. */
  remove(id: string): void {
    const text = this.#texts.get(id);
    if (text === undefined) return;
    this.#texts.delete(id);
    if (this.#waiting.remove(text)) {
      if (text.preemptions > 0) this.#returned--;
      return;
    }
    this.#running = this.#running.filter((each) => each !== text);
    this.#blocks.release(id);
  }

  /** What the next run reads. `commit` must follow. */
  plan(): StepPlan {
    const step = new Step(this.#options.tokenBudget);
    for (const text of this.#running) this.#shareMore(text, step);
    for (const text of this.#running)
      if (text.length - text.computed === 1 && this.#makeRoom(text, 1, step, () => true)) this.#read(text, 1, step);
    for (const text of this.#running) if (text.reading === 0) this.#readPrompt(text, step);
    while (step.preempted.length === 0 && this.#admit(step));
    const [only] = this.#running;
    const isStuck = this.#running.length === 1 && only.reading === 0 && step.preempted.length === 0;
    return {
      parts: this.#running.flatMap(partOf),
      admitted: step.admitted,
      preempted: step.preempted,
      stuck: isStuck ? only.id : undefined,
    };
  }

  /** The run is over: texts whose last tokens were read have one more now, but for those that ended and were removed. */
  commit(): void {
    for (const text of this.#running) {
      text.computed += text.reading;
      if (text.reading > 0 && text.computed === text.length) text.length++;
      text.reading = 0;
    }
  }

  /** The run failed and changed nothing. */
  abandon(): void {
    for (const text of this.#running) text.reading = 0;
  }

  /** What others have read meanwhile of a prompt need not be read again. Before anything else: blocks that were spoken for are not taken. */
  #shareMore(text: Text, step: Step): void {
    text.reading = 0;
    if (text.length - text.computed === 1) return;
    text.computed = this.#blocks.share(text.id);
    if (this.#free() < 0) this.#preempt(text, step);
  }

  /** A chunk of a text that was admitted before; the others' blocks are taken only from those that do not run now. */
  #readPrompt(text: Text, step: Step): void {
    if (!this.#running.includes(text) || step.budget === 0) return;
    const count = this.#chunkOf(text, step);
    if (count === 0 || !this.#makeRoom(text, count, step, ({ reading }) => reading === 0)) return;
    this.#read(text, count, step);
  }

  /** Admits the text whose turn it is, if all that is known of it fits; false where none is admitted. */
  #admit(step: Step): boolean {
    const text = this.#waiting.first;
    if (text === undefined || step.budget === 0 || this.#running.length >= this.#options.mostRunning) return false;
    const reused = this.#blocks.share(text.id);
    const isProtected = this.#isProtected(text);
    // Prompts that are not read to their end have spoken for blocks as well.
    const others = this.#running.filter((other) => !this.#isProtected(other));
    const spokenFor = others.reduce((sum, other) => sum + this.#blocksOf(other.length) - this.#reach(other), 0);
    const watermark = isProtected || this.#running.length === 0 ? 0 : this.#options.watermark;
    const wanted = this.#blocksOf(isProtected ? text.most : text.length) - this.#blocksOf(reused);
    if (wanted > this.#free() - spokenFor - watermark) {
      this.#blocks.release(text.id);
      return false;
    }
    this.#waiting.takeFirst();
    if (text.preemptions > 0) this.#returned--;
    text.computed = reused;
    this.#running.push(text);
    step.admitted.push({ id: text.id, reused });
    const count = this.#chunkOf(text, step);
    if (count > 0) this.#read(text, count, step);
    return true;
  }

  /** Tokens that a text reads now: none where another one is reading the same beginning, which it can take over afterwards. */
  #chunkOf(text: Text, step: Step): number {
    const count = Math.min(step.budget, text.length - text.computed);
    // The last token is read in any case: its logits are wanted.
    const names = this.#blocks.names(text.id, text.computed, Math.min(text.computed + count, text.length - 1));
    if (names.length > 0 && step.names.has(names[0])) return 0;
    for (const name of names) step.names.add(name);
    return count;
  }

  #read(text: Text, count: number, step: Step): void {
    text.reading = count;
    step.budget -= count;
  }

  /** Blocks for `count` more rows of a text; where there are none, texts with fewer rows give theirs back. False where the text must wait. */
  #makeRoom(text: Text, count: number, step: Step, mayLose: (text: Text) => boolean): boolean {
    if (!this.#running.includes(text)) return false;
    const needed = this.#blocksOf(text.computed + count) - this.#blocksOf(text.computed);
    // What is kept for a text is there.
    if (needed === 0 || this.#isProtected(text)) return true;
    while (needed > this.#free()) {
      const victims = this.#running.filter(
        (other) => (other === text || mayLose(other)) && !this.#isProtected(other) && other.priority <= text.priority,
      );
      const [least] = victims.toSorted(
        (a, b) => a.priority - b.priority || a.computed - b.computed || b.arrival - a.arrival,
      );
      // The others go on and give back what they have in the end.
      if (victims.length === 1) return false;
      this.#preempt(least, step);
      if (least === text) return false;
    }
    return true;
  }

  #preempt(text: Text, step: Step): void {
    step.budget += text.reading;
    step.preempted.push(text.id);
    this.#running = this.#running.filter((each) => each !== text);
    this.#blocks.release(text.id);
    text.computed = 0;
    text.reading = 0;
    text.preemptions++;
    this.#preemptions++;
    this.#returned++;
    this.#waiting.putBack(text);
  }

  #isProtected({ preemptions }: Text): boolean {
    return preemptions >= this.#options.mostPreemptions;
  }

  /** Blocks that nobody has spoken for: not in this step, and not as what is kept for a text. */
  #free(): number {
    return this.#running.reduce((free, text) => {
      const until = this.#isProtected(text) ? this.#blocksOf(text.most) : this.#reach(text);
      return free - (until - this.#blocksOf(text.computed));
    }, this.#blocks.available);
  }

  /** Blocks of a text after this step. */
  #reach({ computed, reading }: Text): number {
    return this.#blocksOf(computed + reading);
  }

  #blocksOf(rows: number): number {
    return Math.ceil(rows / this.#options.blockSize);
  }
}

/** A step in the making. */
class Step {
  budget: number;
  readonly admitted: { id: string; reused: number }[] = [];
  readonly preempted: string[] = [];
  /** Of blocks that are being written. */
  readonly names = new Set<number>();

  constructor(budget: number) {
    this.budget = budget;
  }
}

const partOf = ({ id, computed, reading, length }: Text): TextPart[] =>
  reading === 0 ? [] : [{ id, from: computed, count: reading, isLast: computed + reading === length }];
