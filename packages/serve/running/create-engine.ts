/** `createEngine`: an engine over a language model on pages, its options checked. What it does is text-engine.ts's. */
import { checkCount, checkObject } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { LanguageModel } from "#insitu/generate/causal-lm.js";
import { draftSpeculation } from "#insitu/generate/draft-model.js";
import type { DraftModel } from "#insitu/generate/options.js";
import type { Engine } from "../engine.js";
import type { PrefixStore } from "./prefix-store.js";
import type { PagedDecoder } from "#insitu/engine/paged-decoder.js";
import { running } from "#insitu/engine/tuning.js";
import { TextEngine } from "./text-engine.js";

/** How an engine works. */
export interface EngineOptions {
  /** Tokens that a run reads at most: 256 where left out; on a GPU up to 2048, and while texts stream as many as take 34 ms. Prompts are read in chunks of at most so many. */
  readonly tokenBudget?: number;
  /** Texts that run at a time: 16 where left out, and 64 on a GPU. */
  readonly mostRunning?: number;
  /** Texts that wait at a time: 64 where left out. */
  readonly mostWaiting?: number;
  /** Blocks that stay free when a text is admitted beside others: a hundredth of them, at least one, where left out. */
  readonly watermark?: number;
  /** Where blocks of texts are kept beyond the pool, so that prompts which begin as others did need not be read again after a restart. */
  readonly prefixes?: PrefixStore;
  /** A smaller model with the same vocabulary that guesses tokens of all texts; released by its owner. */
  readonly draft?: DraftModel;
  /** How often a text may have to give its blocks back and be read again: 3 where left out. */
  readonly mostPreemptions?: number;
}

type CountOption = Exclude<keyof EngineOptions, "prefixes" | "draft">;

/** What an engine runs on: a language model that was loaded with cache: "paged". */
export interface EngineModel extends Pick<LanguageModel, "contextLength" | "vocabulary"> {
  readonly pagedDecoder: PagedDecoder | undefined;
}

/** An engine over a model's pages. The model must do nothing else meanwhile, and is released by its owner. */
export function createEngine(model: EngineModel, options: EngineOptions = {}): Engine {
  checkObject("the options of an engine", options);
  for (const [name, least] of Object.entries({
    tokenBudget: 1,
    mostRunning: 1,
    mostWaiting: 0,
    watermark: 0,
    mostPreemptions: 0,
  }))
    checkCount(`option ${name}`, options[name as CountOption], least);
  const decoder = model.pagedDecoder;
  if (decoder === undefined)
    throw new InsituError("invalid-argument", 'an engine needs a model on pages: load it with cache: "paged"');
  const { blocks } = decoder.pages.pool;
  const { tokenBudget = decoder.usualTokens, mostWaiting = 64, mostPreemptions = 3, prefixes } = options;
  const promptBudget = options.tokenBudget ?? decoder.promptTokens;
  if (prefixes !== undefined && decoder.pages.states !== undefined)
    throw new InsituError(
      "invalid-argument",
      `option prefixes keeps blocks of keys and values, and the model also has recurrent states, "${decoder.pages.stateNames[0]}" for one: leave the store out; prefixes are still shared in memory`,
    );
  const usual = decoder.goesAhead ? running.device : running.host;
  const { mostRunning = Math.min(usual, tokenBudget), watermark = Math.ceil(blocks / 100) } = options;
  const speculate = options.draft && draftSpeculation(model, options.draft);
  const settings = {
    tokenBudget,
    promptBudget,
    learnsBudget: options.tokenBudget === undefined && decoder.goesAhead,
    mostRunning,
    mostWaiting,
    watermark,
    mostPreemptions,
    prefixes,
    speculate,
  };
  return new TextEngine(decoder, model, settings);
}
