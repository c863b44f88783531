/**
 * The decode loop that does not wait: tokens are drawn where the model runs, and each run is begun before the token that it reads is known
 * here. What was begun beyond the text's end is taken back. How a text ends is the generation's matter.
 */
import { leastTemperature } from "../base/token-noise.js";
import type { BegunRun } from "../cache/token-drawer.js";
import type { Context } from "./context.js";
import type { StatefulDrawer } from "./decoder.js";
import type { Generating } from "./options.js";

/** Runs that are under way at a time: one that computes, one that waits for it, and one whose token comes to the host. */
const depth = 3;

/** What makes a text on the device; undefined where the options, the context or the model ask for logits on the host. */
export function flightFor(context: Context, promptLength: number, options: Generating): Flight | undefined {
  const { sampling, logprobs, speculate, whenFull, maxTokens = Infinity } = options;
  const { temperature, topK, topP, minP, seed } = sampling;
  const isPlain = sampling.repetitionPenalty === 1 && sampling.presencePenalty === 0 && sampling.frequencyPenalty === 0;
  const isDrawn = temperature < leastTemperature || topP === 1;
  const slides = whenFull === "slide" && promptLength + maxTokens - 1 > context.capacity;
  if (!isPlain || !isDrawn || slides || context.slid || logprobs !== undefined || speculate !== undefined)
    return undefined;
  const drawer = context.takeDrawer({ temperature, topK, minP, seed });
  return drawer && new Flight(context, drawer, maxTokens);
}

/** The tokens of one text under way. */
export class Flight {
  readonly #context: Context;
  readonly #drawer: StatefulDrawer;
  readonly #tokens: number;
  /** Oldest first. */
  readonly #underWay: BegunRun[] = [];
  #begun = 0;
  #arrived = 0;
  #most = 0;
  #isOver = false;

  /** `tokens`: how many the text may have. */
  constructor(context: Context, drawer: StatefulDrawer, tokens: number) {
    this.#context = context;
    this.#drawer = drawer;
    this.#tokens = tokens;
  }

  /** Tokens that were under way at a time at most. */
  get most(): number {
    return this.#most;
  }

  /** Tokens that were drawn and that nobody took. */
  get discarded(): number {
    return this.#isOver ? this.#begun - this.#arrived : 0;
  }

  /** Reads what is left of the prompt; `check` is asked before each run. */
  async begin(tokens: readonly number[], check: () => Promise<void>): Promise<void> {
    this.#add(await this.#context.drawFirst(this.#drawer, tokens, check));
  }

  /** The next token. Runs that come after it are begun first. */
  async next(): Promise<number> {
    while (this.#underWay.length < depth && this.#begun < this.#tokens && this.#context.room > 0)
      this.#add(await this.#context.drawNext(this.#drawer, this.#begun));
    const token = await this.#underWay.shift()!.token;
    this.#arrived++;
    return token;
  }

  /** The token that came last is part of the text, which goes on. */
  accept(token: number): void {
    this.#context.learn(token);
  }

  /** Takes back what was begun and is not part of the text. */
  end(): void {
    this.#isOver = true;
    this.#context.forgetAhead();
    this.#context.giveDrawer(this.#drawer);
  }

  #add(run: BegunRun): void {
    this.#underWay.push(run);
    this.#begun++;
    this.#most = Math.max(this.#most, this.#underWay.length);
  }
}
