/** One step of the scheduler: what is known of texts, and what happens to them in it. */

/** A text that is asked for. */
export interface AddedText {
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

/** What happens in a step. Preempted and displaced texts have no blocks any more, admitted ones those that they share. */
export interface StepPlan {
  readonly parts: readonly TextPart[];
  /** Texts that begin, or begin again, and how many of their tokens were there already. */
  readonly admitted: readonly { readonly id: string; readonly reused: number }[];
  readonly preempted: readonly string[];
  /** Texts that gave their blocks to another tenant, those that gave it their place and keep their blocks, and those that go on after that. */
  readonly displaced: readonly string[];
  readonly paused: readonly string[];
  readonly resumed: readonly string[];
  /** A text beside which none runs and that does not fit all the same: somebody else has the blocks. It can only be removed. */
  readonly stuck: string | undefined;
}

/** A text on its way. */
export interface ScheduledText extends AddedText {
  readonly arrival: number;
  /** Tokens known and tokens read. */
  length: number;
  computed: number;
  /** Tokens that the step reads. */
  reading: number;
  preemptions: number;
}

/** A step in the making. */
export class Step {
  budget: number;
  readonly admitted: { id: string; reused: number }[] = [];
  readonly preempted: string[] = [];
  readonly displaced: string[] = [];
  readonly paused: string[] = [];
  readonly resumed: string[] = [];
  /** Of blocks that are being written. */
  readonly names: Set<number> = new Set();

  constructor(budget: number) {
    this.budget = budget;
  }

  /** Notes a change that takes the other one back, where that was made before. */
  changed(id: string, to: string[], from: string[]): void {
    const at = from.indexOf(id);
    if (at < 0) to.push(id);
    else from.splice(at, 1);
  }
}

/** What a run reads of a text. */
export const partOf = ({ id, computed, reading, length }: ScheduledText): TextPart[] =>
  reading === 0 ? [] : [{ id, from: computed, count: reading, isLast: computed + reading === length }];
