/** Has a device compile what a first prompt and the tokens behind it run, before anybody asks: nothing is computed, and nothing is left of the texts. */
import type { Session } from "../session/session.js";
import { linearEngine, type ReadingOptions } from "./decoder-engine.js";
import { MadeText } from "./made-text.js";
import { readSampling } from "#insitu/choice/sampling.js";
import { budget } from "./tuning.js";

/** For texts on linear caches that are read so: a prompt of a usual length, and tokens one by one. `tell` hears of what is compiled. */
export const compileAhead = (
  session: Session,
  reading: ReadingOptions,
  tell: (ready: number, total: number) => void,
): Promise<void> =>
  session.compileAhead(async () => {
    const model = linearEngine(session, reading);
    const sampling = readSampling({ temperature: 0, seed: 0 });
    const owner = { id: "", tenant: "", priority: 0, salt: "" };
    // What fails here fails where it is used.
    const listener = { token: () => undefined, ended() {}, failed() {} };
    for (const length of new Set([Math.min(budget.usualPrompt, reading.capacity - 1), 1])) {
      const context = model.open();
      const ask = { prompt: new Array<number>(length).fill(0), maxTokens: 1, endTokens: new Set<number>(), sampling };
      const text = new MadeText(ask, owner, context, listener, model.engine.layout);
      model.engine.add(text);
      await model.engine.advance();
      await model.engine.quit(text);
      context.release();
    }
  }, tell);
