/** A model's dialogue over its tokenizer: which control tokens are text to it, how a prompt ends, and the most that may be thought. */
import { Dialogue, type ThoughtState } from "#insitu/dialogue/dialogue.js";
import type { DialogueTemplate, Family } from "#insitu/dialogue/family.js";
import { ThinkingBudget } from "#insitu/dialogue/thinking-budget.js";
import type { HeldConstraint } from "#insitu/choice/constraint.js";
import type { TextTokenizer } from "./tokenizer.js";

/** Tokens at a prompt's end in which a mark around thoughts is looked for. */
const endTokens = 16;

/** The template of a tokenizer that has one. */
function templateOf(tokenizer: TextTokenizer): DialogueTemplate | undefined {
  const source = tokenizer.templateSource;
  if (source === undefined) return undefined;
  return {
    source,
    hasToken: (spelling) => tokenizer.tokenOf(spelling) !== undefined,
    render: (messages, more) => tokenizer.renderChat(messages as Parameters<TextTokenizer["renderChat"]>[0], more),
  };
}

/** How a model talks, in tokens. */
export class ModelDialogue extends Dialogue {
  readonly #tokenizer: TextTokenizer;
  /** Control tokens that stand in replies as they are spelled. */
  readonly markerTokens: ReadonlyMap<number, string>;
  /** Tokens that end a reply, beside those that the model's files name. */
  readonly endTokens: readonly number[];

  private constructor(tokenizer: TextTokenizer, template: DialogueTemplate | undefined, family: Family | undefined) {
    super(template, family);
    this.#tokenizer = tokenizer;
    this.markerTokens = new Map(
      this.markers.flatMap((spelling) => {
        const token = tokenizer.tokenOf(spelling);
        // Those that are text already stay as they are.
        return token === undefined || tokenizer.decode([token]) !== "" ? [] : [[token, spelling] as const];
      }),
    );
    this.endTokens = this.ends.flatMap((spelling) => tokenizer.tokenOf(spelling) ?? []);
  }

  /** `format` names a family, where the template is not to decide. */
  static async of(tokenizer: TextTokenizer, format: string | undefined): Promise<ModelDialogue> {
    const template = templateOf(tokenizer);
    if (template === undefined && format === undefined) return new ModelDialogue(tokenizer, undefined, undefined);
    const { familyOf } = await import("#insitu/dialogue/families.js");
    return new ModelDialogue(tokenizer, template, familyOf(template, format));
  }

  /** Whether a prompt leaves the model inside of thoughts. */
  thoughtsAfter(prompt: readonly number[]): ThoughtState {
    if (this.thinking === undefined) return this.thoughtsAt("");
    let text = "";
    let open: number[] = [];
    for (const token of prompt.slice(-endTokens)) {
      const marker = this.markerTokens.get(token);
      if (marker === undefined) open.push(token);
      else {
        text += this.#tokenizer.decode(open) + marker;
        open = [];
      }
    }
    return this.thoughtsAt(text + this.#tokenizer.decode(open));
  }

  /** Keeps a text's thoughts to so many tokens; what it must obey otherwise stays. Undefined where the model has no thoughts that are known. */
  budget(most: number, thoughts: ThoughtState, inner?: HeldConstraint): HeldConstraint | undefined {
    const marks = this.thinking;
    if (marks === undefined || thoughts === "closed") return inner;
    const decoder = this.#tokenizer;
    return new ThinkingBudget(
      {
        marks,
        most,
        isThinking: thoughts === "open",
        decoder,
        markers: this.markerTokens,
        endTokens: decoder.encode(marks.end, { specialTokens: false }),
      },
      inner,
    );
  }
}
