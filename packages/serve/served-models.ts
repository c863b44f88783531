/**
 * The models of one server: loaded when they are asked for, let go of when others need their memory or nobody has asked for a while. One is loaded at a
 * time. A model that has to give way takes in nothing more, ends what is under way, and comes back in its turn: who asks for it meanwhile waits.
 * Knows no HTTP.
 */
import { InsituError } from "#insitu/base/error.js";
import type { LanguageModel } from "#insitu/generate/causal-lm.js";
import { ModelLife } from "./model-life.js";
import type { ModelSource } from "./options.js";
import type { ServedModel } from "./wire/served-model.js";

/** How models are kept. */
interface KeepingRules {
  /** Bytes that all that are loaded may take together. */
  readonly memory: number;
  /** Seconds that a model stays loaded which nobody asks. */
  readonly keepAlive: number;
  /** Makes a model ready to be asked. */
  readonly prepare: (lm: LanguageModel, name: string) => Promise<ServedModel>;
  readonly tell: (line: string) => void;
}

/** Where a model is: it may be asked, is being loaded, gives way, or is not there. */
type ModelState = "ready" | "loading" | "leaving" | "unloaded" | "lost";

/** A model that was taken to answer a request, until it is given back. */
export interface TakenModel {
  readonly model: ServedModel;
  release(): void;
}

interface Waiting {
  readonly resolve: (taken: TakenModel) => void;
  readonly reject: (error: Error) => void;
}

/** One model through loads and departures. */
class KeptModel {
  readonly source: ModelSource;
  lm: LanguageModel | undefined;
  life: ModelLife | undefined;
  isLeaving = false;
  isLoading = false;
  /** Requests that it answers. */
  taken = 0;
  readonly waiting = new Set<Waiting>();
  /** Bytes that it took when it was loaded last. */
  bytes: number | undefined;
  lastAsked = 0;
  timer: ReturnType<typeof setTimeout> | undefined;
  loads = 0;

  constructor(source: ModelSource) {
    this.source = source;
  }

  get state(): ModelState {
    if (this.isLeaving) return "leaving";
    if (this.isLoading) return "loading";
    if (this.life === undefined) return "unloaded";
    return this.life.status === "ready" ? "ready" : this.life.status;
  }
}

/** What is told of a model. */
interface ModelFacts {
  readonly name: string;
  readonly state: ModelState;
  readonly pinned: boolean;
  readonly model: ServedModel | undefined;
  readonly bytes: number | undefined;
  readonly waiting: number;
  readonly loads: number;
}

/** Models by name. */
export class ServedModels {
  readonly #models: ReadonlyMap<string, KeptModel>;
  readonly #rules: KeepingRules;
  /** Loads, one after the other. */
  #line: Promise<unknown> = Promise.resolve();
  #isClosed = false;
  /** Called when a model may have nothing under way any more. */
  #idle: (() => void)[] = [];

  constructor(sources: readonly ModelSource[], rules: KeepingRules) {
    this.#rules = rules;
    this.#models = new Map(sources.map((source) => [source.name, new KeptModel(source)]));
    if (this.#models.size < sources.length)
      throw new InsituError("invalid-argument", "two models of a server have the same name: name them apart");
  }

  /** Loads those that are always there. */
  async begin(): Promise<void> {
    for (const kept of this.#models.values())
      if (kept.source.pinned === true) (await this.take(kept.source.name)).release();
  }

  has(name: string): boolean {
    return this.#models.has(name);
  }

  get facts(): readonly ModelFacts[] {
    return Array.from(this.#models.values(), (kept) => ({
      name: kept.source.name,
      state: kept.state,
      pinned: kept.source.pinned === true,
      model: kept.life?.model,
      bytes: kept.life === undefined ? undefined : kept.bytes,
      waiting: kept.waiting.size,
      loads: kept.loads,
    }));
  }

  /** Takes a model, once it is loaded; rejects where it cannot be, and with the signal's reason. */
  take(name: string, signal?: AbortSignal): Promise<TakenModel> {
    const kept = this.#models.get(name)!;
    kept.lastAsked = performance.now();
    if (this.#isClosed) return Promise.reject(new InsituError("closed", "the server is closed"));
    if (kept.state === "ready") return Promise.resolve(this.#taken(kept));
    if (kept.state === "lost") return Promise.reject(new InsituError("device-lost", kept.life!.reason));
    return new Promise((resolve, reject) => {
      const over = (): void => signal?.removeEventListener("abort", left);
      const waiting: Waiting = {
        resolve: (taken) => {
          over();
          resolve(taken);
        },
        reject: (error) => {
          over();
          reject(error);
        },
      };
      function left(): void {
        kept.waiting.delete(waiting);
        reject(signal!.reason as Error);
      }
      signal?.addEventListener("abort", left, { once: true });
      kept.waiting.add(waiting);
      this.#wantLoad(kept);
    });
  }

  /** Ends everything and lets go of all. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const kept of this.#models.values()) this.#refuseAll(kept, new InsituError("closed", "the server is closed"));
    this.#tellIdle();
    await Promise.all(Array.from(this.#models.values(), (kept) => this.#letGo(kept)));
    await this.#line;
    await Promise.all(Array.from(this.#models.values(), (kept) => this.#letGo(kept)));
  }

  /** Lets texts finish within a time. */
  async drain(limitMilliseconds: number): Promise<void> {
    await Promise.all(
      Array.from(this.#models.values(), async (kept) => kept.life?.model?.engine.drain(limitMilliseconds)),
    );
  }

  #taken(kept: KeptModel): TakenModel {
    kept.taken++;
    clearTimeout(kept.timer);
    let isTaken = true;
    return {
      model: kept.life!.model!,
      release: () => {
        if (!isTaken) return;
        isTaken = false;
        kept.taken--;
        kept.lastAsked = performance.now();
        if (kept.taken > 0) return;
        this.#tellIdle();
        this.#letGoLater(kept);
      },
    };
  }

  /** Has a model let go of once nobody has asked for it in a while. */
  #letGoLater(kept: KeptModel): void {
    const { keepAlive } = this.#rules;
    if (keepAlive === Infinity || kept.source.pinned === true || kept.isLeaving) return;
    kept.timer = setTimeout(() => {
      if (kept.taken > 0 || kept.state !== "ready") return;
      kept.isLeaving = true;
      void this.#inLine(() => this.#depart(kept));
    }, keepAlive * 1000);
    // A model that waits keeps no process alive.
    (kept.timer as { unref?: () => void }).unref?.();
  }

  #tellIdle(): void {
    const all = this.#idle;
    this.#idle = [];
    for (const each of all) each();
  }

  #inLine(work: () => Promise<void>): Promise<void> {
    const done = this.#line.then(work);
    this.#line = done.catch(() => {});
    return done;
  }

  #wantLoad(kept: KeptModel): void {
    if (kept.isLoading) return;
    kept.isLoading = true;
    void this.#inLine(() => this.#load(kept)).catch((error: unknown) => {
      kept.isLoading = false;
      this.#refuseAll(kept, error instanceof Error ? error : new Error(String(error)));
    });
  }

  #refuseAll(kept: KeptModel, error: Error): void {
    for (const waiting of kept.waiting) waiting.reject(error);
    kept.waiting.clear();
  }

  async #load(kept: KeptModel): Promise<void> {
    const { memory, prepare, tell } = this.#rules;
    const { name, load } = kept.source;
    if (this.#isClosed) throw new InsituError("closed", "the server is closed");
    // Those who waited may have left, and a model that was lost comes back by itself.
    if (kept.waiting.size === 0 || (kept.life !== undefined && !kept.isLeaving)) return this.#loaded(kept);
    const room = await this.#makeRoom(kept);
    const began = performance.now();
    const limit = memory === Infinity ? undefined : room;
    const lm = await load(limit);
    try {
      kept.lm = lm;
      kept.life = new ModelLife(Promise.resolve(lm), {
        prepare: (loaded) => prepare(loaded, name),
        reload: () => load(limit),
        tell,
      });
      await kept.life.ready;
    } catch (error) {
      await this.#letGo(kept);
      throw error;
    }
    kept.loads++;
    kept.bytes = bytesOf(lm);
    if (kept.bytes > room) {
      const { bytes } = kept;
      await this.#letGo(kept);
      throw tooLarge(name, bytes, memory);
    }
    tell(`${name} was loaded in ${((performance.now() - began) / 1000).toFixed(1)} s, ${megabytes(kept.bytes)}`);
    this.#loaded(kept);
  }

  /** Gives a model to all who waited for it. */
  #loaded(kept: KeptModel): void {
    kept.isLoading = false;
    if (kept.life?.status === "lost") {
      this.#refuseAll(kept, new InsituError("device-lost", kept.life.reason));
      return;
    }
    for (const waiting of kept.waiting) waiting.resolve(this.#taken(kept));
    kept.waiting.clear();
    if (kept.taken === 0 && kept.life !== undefined) this.#letGoLater(kept);
  }

  /** Has others give way until there is room for a model; the bytes that it may take. Of what a model takes nothing is known before its first load. */
  async #makeRoom(kept: KeptModel): Promise<number> {
    const { memory } = this.#rules;
    if (memory === Infinity) return Infinity;
    for (;;) {
      const others = [...this.#models.values()].filter((each) => each !== kept && each.life !== undefined);
      const used = others.reduce((sum, { bytes = 0 }) => sum + bytes, 0);
      const removable = others.filter(({ source }) => source.pinned !== true);
      const wanted = kept.bytes ?? (removable.length === 0 ? 0 : memory);
      if (used + wanted <= memory) return memory - used;
      if (removable.length === 0) throw tooLarge(kept.source.name, kept.bytes ?? memory, memory - used);
      await this.#depart(removable.reduce((a, b) => (b.lastAsked < a.lastAsked ? b : a)));
    }
  }

  /** A model takes in nothing more, ends what is under way, and goes. */
  async #depart(kept: KeptModel): Promise<void> {
    kept.isLeaving = true;
    clearTimeout(kept.timer);
    while (kept.taken > 0 && !this.#isClosed) await new Promise<void>((resolve) => void this.#idle.push(resolve));
    await this.#letGo(kept);
    kept.isLeaving = false;
    this.#rules.tell(`${kept.source.name} was let go of`);
    // Who asked meanwhile waits for it in its turn.
    if (kept.waiting.size > 0) this.#wantLoad(kept);
  }

  async #letGo(kept: KeptModel): Promise<void> {
    const { life, lm } = kept;
    clearTimeout(kept.timer);
    kept.life = undefined;
    kept.lm = undefined;
    await life?.close();
    await lm?.release();
  }
}

/** What a model takes: its weights, what runs need beside them, and its caches. */
export function bytesOf(lm: LanguageModel): number {
  const { weightBytes, arenaBytes } = lm.session.memory;
  return weightBytes + arenaBytes + (lm.pages?.byteLength ?? 0);
}

const megabytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

const tooLarge = (name: string, bytes: number, room: number): InsituError =>
  new InsituError(
    "out-of-memory",
    `the model "${name}" takes ${megabytes(bytes)}, and ${megabytes(room)} are available: raise the server's bound on memory, pin fewer models, or serve a smaller variant`,
  );
