/** The grammars of a model's tokens: loaded where the first rule is asked for, and tried again where that failed. */
import type { Grammars, HeldConstraint, TextRule } from "#insitu/choice/constraint.js";
import type { LanguageModelParts } from "./prepare-model.js";

/** Those of one model. */
export class HeldGrammars {
  readonly #parts: LanguageModelParts;
  #grammars: Promise<Grammars> | undefined;

  constructor(parts: LanguageModelParts) {
    this.#parts = parts;
  }

  /** What keeps a text to a rule. Throws for a rule that cannot be enforced. */
  async constrain(rule: TextRule): Promise<HeldConstraint> {
    const { makeGrammars, tokenizer, config, defaults, dialogue } = this.#parts;
    this.#grammars ??= makeGrammars(
      tokenizer.grammarVocabulary(config["vocab_size"], defaults.endTokens, new Set(dialogue.grammarMarkers)),
    );
    const loading = this.#grammars;
    let grammars: Grammars;
    try {
      grammars = await loading;
    } catch (error) {
      // What could not be loaded may be there the next time.
      if (this.#grammars === loading) this.#grammars = undefined;
      throw error;
    }
    return grammars.constrain(rule);
  }
}
