/** A language model as the draft of another: what its guesses lie on, and whether the two fit together. */
import { InsituError } from "../base/error.js";
import type { DecoderEngine } from "../engine/decoder-engine.js";
import type { DraftSource, TextAsk } from "../engine/text-ask.js";
import { guessing } from "../engine/tuning.js";
import type { ContextPool } from "./context-pool.js";
import type { DraftModel } from "./options.js";

/** Contexts that a model guesses on: those of texts with a salt are kept for nobody. */
export function draftSource(model: DecoderEngine, pool: ContextPool): DraftSource {
  const salted = new WeakSet<object>();
  return {
    engine: model.engine,
    take(tokens, salt) {
      if (salt === "") return pool.take(tokens).context;
      const context = model.open(salt);
      context.share(tokens.slice(0, -1));
      salted.add(context);
      return context;
    },
    give(context) {
      if (salted.has(context)) context.release();
      else pool.give(context);
    },
  };
}

/** How a draft guesses for all texts of a model. Throws where it cannot. */
export function draftSpeculation(model: Guessed, draft: DraftModel): TextAsk["speculate"] {
  checkDraft(model, draft);
  return { tokens: guessing.most, draft: draft.forServers.draft, adaptive: true };
}

/** A model that is guessed for. */
type Guessed = Pick<DraftModel, "vocabulary"> & Partial<DraftModel>;

/** Throws for a draft that cannot guess what a model says. */
export function checkDraft(model: Guessed, draft: DraftModel): void {
  if (draft.forServers.engine === model.forServers?.engine)
    throw new InsituError(
      "invalid-argument",
      "option speculate.draft is the model itself: load a smaller one, or load this one a second time",
    );
  if (draft.vocabulary !== model.vocabulary)
    throw new InsituError(
      "invalid-argument",
      `option speculate.draft has ${draft.vocabulary} tokens in its vocabulary, the model has ${model.vocabulary}: take a draft of the same family`,
    );
}
