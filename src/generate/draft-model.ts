/** A language model as the draft of another: what its guesses lie on, and whether the two fit together. */
import { InsituError } from "../base/error.js";
import type { DecoderEngine } from "../engine/decoder-engine.js";
import { DraftText } from "../engine/draft-text.js";
import type { Context } from "../engine/context.js";
import type { DraftSource, TextAsk } from "../engine/text-ask.js";
import type { TokenEngine } from "../engine/token-engine.js";
import { guessing } from "#insitu/choice/tuning.js";
import type { DraftHead } from "#insitu/heads/draft-head.js";
import type { LanguageModel } from "./causal-lm.js";
import type { ContextPool } from "./context-pool.js";
import type { DraftModel } from "./options.js";
import type { LanguageModelParts } from "./prepare-model.js";

/** Contexts that a model guesses on: those of texts with a salt are kept for nobody. */
export function draftSource(model: DecoderEngine, pool: ContextPool): DraftSource {
  const salted = new WeakSet<object>();
  const { engine } = model;
  const take = (tokens: readonly number[], salt: string): Context => {
    if (salt === "") return pool.take(tokens).context;
    const context = model.open(salt);
    context.share(tokens.slice(0, -1));
    salted.add(context);
    return context;
  };
  const give = (context: Context): void => {
    if (salted.has(context)) context.release();
    else pool.give(context);
  };
  return {
    engine,
    follow(made) {
      const text = new DraftText(made, take(made.tokens, made.owner.salt), engine.layout.draws);
      try {
        engine.add(text);
      } catch (error) {
        give(text.context);
        throw error;
      }
      return text;
    },
    advance: () => engine.advance(),
    async leave(follower) {
      const text = follower as DraftText;
      await engine.quit(text);
      give(text.context);
    },
  };
}

/** How a draft guesses for all texts of a model. Throws where it cannot. */
export function draftSpeculation(model: Guessed, draft: DraftModel): TextAsk["speculate"] {
  checkDraft(model, draft);
  return { tokens: guessing.most, draft: draft.forServers.draft, adaptive: true };
}

/** A model's own head, opened. */
export async function openHead(
  model: Pick<LanguageModel, "session" | "vocabulary" | "forServers">,
  open: LanguageModelParts["openHead"],
): Promise<DraftHead> {
  const { session, names } = await open();
  try {
    const { DraftHead: Head } = await import("#insitu/heads/draft-head.js");
    return new Head(session, model, names);
  } catch (error) {
    await session.release();
    throw error;
  }
}

/** A model that is guessed for. */
interface Guessed {
  readonly vocabulary: number;
  readonly forServers?: { readonly engine: TokenEngine };
}

/** Throws for a draft that cannot guess what a model says. */
export function checkDraft(model: Guessed, draft: DraftModel): void {
  const { engine, of } = draft.forServers.draft;
  if (of !== undefined && model.forServers !== undefined && of !== model.forServers.engine)
    throw new InsituError(
      "invalid-argument",
      "option speculate.draft is the head of another model: call loadHead() of the model that it is to guess for",
    );
  if (engine !== undefined && engine === model.forServers?.engine)
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
