// Conversations of two turns, all at once, in an engine with a store: what each says is compared with what is made of its prompts alone.
import { expect } from "vitest";
import type { LanguageModel } from "../../src/generate/causal-lm.js";
import { CausalLM } from "../../src/index.node.js";
import { openRedisPages } from "../../packages/stores/redis-pages.js";
import type { Engine, StoreFigures } from "../../packages/serve/engine.js";
import { createEngine } from "../../packages/serve/running/create-engine.js";
import { embedded } from "../generate/support.js";
import { submit, tokensAlone } from "./engine-support.js";

/** How long the store may take where it must answer, however busy the machine is, and where it does not answer. */
export const long = 30_000;
export const short = 150;

/** How long values are kept: longer than any test takes. */
export const secondsToLive = 7200;

/** What conversations came to. */
export interface Talk {
  /** Tokens of prompts that were not read again. */
  readonly reused: number;
  readonly store: StoreFigures;
  /** What the log heard of the store. */
  readonly told: readonly string[];
}

/** So many conversations, and what each says alone. */
export class Crowd {
  readonly model: LanguageModel;
  /** Conversations that begin alike in fours. */
  readonly prompts: readonly (readonly number[])[];
  readonly made: number;
  /** What is said at the first turn, and at the second, where the first was heard and asked on. */
  readonly #alone: (readonly [number[], number[]])[];

  private constructor(model: LanguageModel, prompts: readonly number[][], made: number) {
    this.model = model;
    this.prompts = prompts;
    this.made = made;
    this.#alone = [];
  }

  static async gather(size: number, made: number, blocks = 80): Promise<Crowd> {
    const pages = { cache: "paged", batchInvariant: true, context: 200, blocks, keep: 0 } as const;
    const model = await CausalLM.load(embedded, { ...pages, threads: 1 });
    const prompts = Array.from({ length: size }, (_, text) =>
      Array.from(
        { length: 70 + (text % 4) * 9 },
        (_, at) => 300 + ((at * 37 + (text >> 2) * 11 + (at > 66 ? text : 0)) % 1000),
      ),
    );
    const crowd = new Crowd(model, prompts, made);
    for (const prompt of prompts) {
      const first = await tokensAlone(model, prompt, { maxTokens: made });
      crowd.#alone.push([first, await tokensAlone(model, secondPrompt(prompt, first), { maxTokens: made })]);
    }
    return crowd;
  }

  /** What the first turn of a conversation says alone. */
  alone(which: number): readonly number[] {
    return this.#alone[which][0];
  }

  /** Tokens that need not be read where the store has all of the first turns: those of their full blocks, at both turns. */
  get whole(): number {
    return 2 * this.prompts.reduce((sum, { length }) => sum + 16 * Math.floor((length - 1) / 16), 0);
  }

  /** An engine on pages that know nothing. */
  async engine(
    address: string,
    deadlineMilliseconds = long,
    tell: (line: string) => void = () => {},
    fingerprint = "the embedded model",
  ): Promise<Engine> {
    this.model.pages!.pool.forgetPrefixes();
    const store = await openRedisPages(address, secondsToLive);
    const prefixes = { store, fingerprint, deadlineMilliseconds, tell };
    return createEngine(this.model, { prefixes, mostWaiting: this.prompts.length });
  }

  /** All conversations at once, in an engine of their own; `fault` comes when the first one has begun to answer. */
  async talk(address: string, fault?: () => unknown, deadline = long): Promise<Talk> {
    const told: string[] = [];
    const engine = await this.engine(address, deadline, (line) => void told.push(line));
    let faults: unknown;
    let reused = 0;
    const say = async (prompt: readonly number[]): Promise<number[]> => {
      const onToken = (): undefined => void (faults ??= fault?.() ?? true);
      const heard = submit(engine, { prompt, maxTokens: this.made, onToken });
      await heard.over;
      if (heard.error !== undefined) throw heard.error;
      reused += heard.cachedTokens ?? 0;
      return heard.tokens;
    };
    const texts = await Promise.all(
      this.prompts.map(async (prompt) => {
        const first = await say(prompt);
        return [first, await say(secondPrompt(prompt, first))] as const;
      }),
    );
    await faults;
    await engine.close();
    expect(texts).toEqual(this.#alone);
    const { store, ...figures } = engine.figures();
    expect(figures).toMatchObject({ waiting: 0, running: 0, blocksUsed: 0 });
    return { reused, store: store!, told };
  }
}

/** What a conversation goes on with: all that was said, and a question. */
const secondPrompt = (prompt: readonly number[], said: readonly number[]): number[] => [
  ...prompt,
  ...said,
  ...Array.from({ length: 9 }, (_, at) => 400 + ((at * 13 + prompt[0]) % 500)),
];
