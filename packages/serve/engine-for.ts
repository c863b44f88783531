/** The engine that a server runs a model on, where its owner brings none. */
import type { LanguageModel } from "#insitu/generate/causal-lm.js";
import type { Engine } from "./engine.js";
import { oneAtATime } from "./one-at-a-time.js";
import type { ServerSettings } from "./options.js";
import { withBreakEven } from "./running/break-even.js";
import { createEngine } from "./running/create-engine.js";

/** Many texts at a time where the model lies on pages, else one after the other. */
export async function engineFor(lm: LanguageModel, settings: ServerSettings): Promise<Engine> {
  const { maxQueue, maxRunning, prefixes, draft } = settings;
  if (lm.pages === undefined) return oneAtATime(lm, maxQueue, draft);
  const decoder = lm.pagedDecoder;
  return createEngine(lm, {
    mostWaiting: maxQueue,
    ...(maxRunning === undefined ? {} : { mostRunning: maxRunning }),
    ...(draft === undefined ? {} : { draft }),
    ...(prefixes === undefined || decoder === undefined
      ? {}
      : { prefixes: await withBreakEven(await prefixes, decoder, lm.vocabulary) }),
  });
}
