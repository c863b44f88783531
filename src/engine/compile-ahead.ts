/** Has a device compile what a first prompt and the tokens behind it run, before anybody asks: nothing is computed, and nothing is left of the texts. */
import type { Session } from "../session/session.js";
import { type DecoderEngine, linearEngine, type ReadingOptions } from "./decoder-engine.js";
import { MadeText } from "./made-text.js";
import { readSampling } from "#insitu/choice/sampling.js";
import { budget } from "./tuning.js";

/**
 * For texts on linear caches that are read so: a prompt of a usual length, and tokens one by one. `tell` hears of what is compiled. Never rejects: what fails
 * here fails where it is used, or is there by then.
 */
export const compileAhead = (
  session: Session,
  reading: ReadingOptions,
  tell: (ready: number, total: number) => void,
): Promise<void> =>
  session
    .compileAhead(async () => {
      const model = linearEngine(session, reading);
      for (const length of new Set([Math.min(budget.usualPrompt, reading.capacity - 1), 1])) await begin(model, length);
    }, tell)
    .catch(() => undefined);

/** Begins a text behind a prompt of so many tokens, whose first run is refused. */
async function begin(model: DecoderEngine, length: number): Promise<void> {
  const context = model.open();
  try {
    const sampling = readSampling({ temperature: 0, seed: 0 });
    const owner = { id: "", tenant: "", priority: 0, salt: "" };
    const listener = { token: () => undefined, ended() {}, failed() {} };
    const ask = { prompt: new Array<number>(length).fill(0), maxTokens: 1, endTokens: new Set<number>(), sampling };
    const text = new MadeText(ask, owner, context, listener, model.engine.layout);
    model.engine.add(text);
    await model.engine.advance();
    await model.engine.quit(text);
  } finally {
    context.release();
  }
}
