/**
 * The model behind a server through its life: loaded, lost with its device, loaded again. Each loss ends all texts (the engine's matter), lets go of the
 * model and loads another one, with waits that grow while that fails. Knows no HTTP.
 *
 *     loading ─▶ ready ─▶ lost ─▶ ready …          lost for good where nobody can load it again
 */
import { InsituError } from "#insitu/base/error.js";
import type { LanguageModel } from "#insitu/generate/causal-lm.js";
import { isLoss, LostError } from "./lost-error.js";
import type { ServedModel } from "./wire/served-model.js";

/** What a model's life takes. */
interface LifeTools {
  /** Makes a model ready to be asked. */
  readonly prepare: (lm: LanguageModel) => Promise<ServedModel>;
  /** Loads the model again; undefined where nobody can. */
  readonly reload: (() => Promise<LanguageModel>) | undefined;
  /** Hears in a sentence of each loss, and of what became of it. */
  readonly tell: (line: string) => void;
}

/** Where a model is in its life. */
type LifeStatus = "loading" | "ready" | "lost";

/** Seconds before a load that follows on one that failed: each time twice as long, up to a bound. */
const [firstWait, mostWait] = [1, 60];

/** Loads of a model that was lost before it was there for the first time: one that is lost every time is not worth waiting for. */
const mostFirstLoads = 5;

/** Milliseconds that a lost model has to let go of what it has: on a device that is gone that may never end. */
const releaseMilliseconds = 5_000;

/** Seconds after which to ask again, where nobody knows better. */
export const usualRetry = 5;

/** A model that is served, and loaded again when it is lost. */
export class ModelLife {
  /** Resolves once texts can be made for the first time; rejects where the model cannot be had. */
  readonly ready: Promise<void>;
  readonly #tools: LifeTools;
  readonly #closing = new AbortController();
  #status: LifeStatus = "loading";
  /** The one that is there, or was there last. */
  #model: ServedModel | undefined;
  /** A model that nobody else will release. */
  #own: LanguageModel | undefined;
  #lostWhat = "";
  /** When the next load begins. */
  #nextLoad = 0;

  constructor(lm: Promise<LanguageModel>, tools: LifeTools) {
    this.#tools = tools;
    this.ready = this.#begin(lm);
  }

  get status(): LifeStatus {
    return this.#status;
  }

  get model(): ServedModel | undefined {
    return this.#model;
  }

  /** Why there is no model to ask now. */
  get reason(): string {
    if (this.#status === "loading") return "the model is being loaded";
    return this.#tools.reload === undefined
      ? `${this.#lostWhat}, and this server cannot load its model again: it has to be restarted`
      : `${this.#lostWhat}, and the model is being loaded again`;
  }

  /** Seconds after which there may be one. */
  get retryAfterSeconds(): number {
    return Math.max(usualRetry, Math.ceil((this.#nextLoad - performance.now()) / 1000));
  }

  /** Ends the engine; what was loaded here is released. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#model?.engine.close();
    await letGo(this.#own);
    this.#own = undefined;
  }

  async #begin(loading: Promise<LanguageModel>): Promise<void> {
    let lm: LanguageModel | undefined;
    try {
      lm = await loading;
      await this.#take(lm);
    } catch (error) {
      if (!isLoss(error) || this.#tools.reload === undefined) throw error;
      await this.#loadAgain(lm, error, mostFirstLoads);
    }
  }

  /** Serves a model from now on, until it is lost. */
  async #take(lm: LanguageModel): Promise<void> {
    const model = await this.#tools.prepare(lm);
    const { engine } = model;
    this.#model = model;
    if (this.#closing.signal.aborted) return engine.close();
    await engine.warm?.();
    if (this.#closing.signal.aborted) return;
    this.#status = "ready";
    void engine.lost?.then((error) => this.#lost(lm, error));
  }

  async #lost(lm: LanguageModel, error: Error): Promise<void> {
    if (this.#closing.signal.aborted) return;
    // It goes on until the server closes.
    await this.#loadAgain(lm, error, Infinity).catch(() => {});
  }

  /** Lets go of a lost model and loads it again. Rejects with the last error after so many loads that failed. */
  async #loadAgain(lm: LanguageModel | undefined, error: Error, most: number): Promise<void> {
    const { reload, tell } = this.#tools;
    const { signal } = this.#closing;
    const cause = error instanceof LostError ? (error.cause as Error) : error;
    const isDevice = cause instanceof InsituError && cause.code === "device-lost";
    this.#status = "lost";
    this.#lostWhat = isDevice ? "the GPU was lost" : "the model's caches were lost";
    tell(`${this.reason} (${cause.message})`);
    await letGo(lm);
    this.#own = undefined;
    if (reload === undefined) return;
    const began = performance.now();
    for (let failed = 0; !signal.aborted; failed++) {
      if (failed > 0) await this.#wait(Math.min(firstWait * 2 ** (failed - 1), mostWait));
      if (signal.aborted) return;
      let loaded: LanguageModel | undefined;
      try {
        loaded = await reload();
        this.#own = loaded;
        await this.#take(loaded);
        tell(`the model was loaded again, ${((performance.now() - began) / 1000).toFixed(1)} s after it was lost`);
        if (signal.aborted) await letGo(loaded);
        return;
      } catch (cause) {
        await letGo(loaded);
        this.#own = undefined;
        if (failed + 1 >= most) throw cause;
        tell(`the model could not be loaded again: ${cause instanceof Error ? cause.message : String(cause)}`);
      }
    }
  }

  /** Waits some seconds, or until the server closes. */
  #wait(seconds: number): Promise<void> {
    this.#nextLoad = performance.now() + 1000 * seconds;
    const { signal } = this.#closing;
    return new Promise((resolve) => {
      const timer = setTimeout(over, 1000 * seconds);
      function over(): void {
        clearTimeout(timer);
        signal.removeEventListener("abort", over);
        resolve();
      }
      signal.addEventListener("abort", over);
      if (signal.aborted) over();
    });
  }
}

/** Releases a model within a time. */
async function letGo(lm: LanguageModel | undefined): Promise<void> {
  if (lm === undefined) return;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => void (timer = setTimeout(resolve, releaseMilliseconds)));
  await Promise.race([lm.release().catch(() => {}), late]);
  clearTimeout(timer);
}
