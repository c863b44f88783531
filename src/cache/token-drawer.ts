/**
 * A decoder that draws its own tokens: each run leaves the next token on the device, where the run after it reads it, so that runs are begun
 * before the tokens of those before them are known. Knows no text; how many are begun ahead is the caller's matter.
 */
import { InsituError } from "../base/error.js";
import { samplingInputs, samplingOutputs, seenWords } from "../rewrite/sampling-names.js";
import type { Feeds } from "../session/feeds.js";
import type { Session } from "../session/session.js";
import type { State } from "../session/state.js";
import { Tensor } from "../tensor/tensor.js";
import type { Decoder, DecoderStep } from "./decoder.js";
import { int64 } from "./decoder-inputs.js";

/** How tokens are drawn, as far as chance has no say in it. */
export interface DrawingOptions {
  readonly temperature: number;
  /** 0 for all. */
  readonly topK: number;
  /** Below 1, `topK` lies between 1 and `mostNucleus`. */
  readonly topP: number;
  readonly minP: number;
  /** 1 for none. */
  readonly repetitionPenalty: number;
}

/** How the tokens of several texts are drawn. */
export interface Drawing extends DrawingOptions {
  /** One for each text. */
  readonly seeds: readonly number[];
  /** The tokens of each text's prompt; only a repetition penalty looks at them. */
  readonly seen: readonly (readonly number[])[];
}

/** How one token is drawn: the number `counter` of a text with this seed. */
export interface OneDrawing extends DrawingOptions {
  readonly seed: number;
  readonly counter: number;
  /** The tokens of the text so far, its prompt included; only a repetition penalty looks at them. */
  readonly seen: readonly number[];
}

/** A run that was begun. */
export interface BegunRun {
  /**
   * The token that it drew for each text, once they have come to the host: `checkToken` tells which are none. Rejects where the run failed,
   * and the state is lost then.
   */
  readonly tokens: Promise<readonly number[]>;
}

/** Runs that were begun at once, each of which reads what the one before it drew. */
export interface BegunSeries {
  /** The tokens of each run as `BegunRun` has them, once all of them have come to the host. */
  readonly runs: Promise<readonly (readonly number[])[]>;
}

/** The largest number of float32. */
const mostFloat = 3.4028234663852886e38;

/** Where what a run draws lies for the next one: the tokens, and which tokens there have been, where a penalty asks for it. */
interface DrawerSlots {
  readonly tokens: Tensor;
  readonly seen: Tensor | undefined;
}

/** Draws the tokens of some texts: the options are fed again and again, and the tokens that were drawn last lie in their slot. */
export class TokenDrawer {
  readonly #session: Session;
  readonly #decoder: Decoder;
  /** For decoders. */
  readonly slots: DrawerSlots;
  readonly #feeds: Feeds;
  /** What the first run is told of the prompts. */
  readonly #seen: Feeds;
  /** What is asked of each run that draws. */
  readonly #wanted: Readonly<Record<string, Tensor | null>>;

  /** For decoders. */
  constructor(session: Session, decoder: Decoder, slots: DrawerSlots, drawing: Drawing) {
    this.#session = session;
    this.#decoder = decoder;
    this.slots = slots;
    const { seeds, seen } = drawing;
    this.#feeds = { ...optionFeeds([drawing]), [samplingInputs.seed]: int64(seeds, [seeds.length]) };
    this.#seen = slots.seen === undefined ? {} : { [samplingInputs.seen]: seenTensor(seen, slots.seen.dims[1]) };
    this.#wanted = {
      [samplingOutputs.token]: null,
      [samplingOutputs.input]: slots.tokens,
      ...(slots.seen === undefined ? {} : { [samplingOutputs.seen]: slots.seen }),
    };
  }

  /** Begins a run that reads tokens whose logits nobody needs. What it returns resolves when the run is over. */
  read(
    state: State,
    tokens: readonly (readonly number[])[],
    positions: readonly number[],
  ): Promise<{ readonly over: Promise<void> }> {
    return this.readStep(state, { tokens, positions });
  }

  /**
   * Begins a run that reads tokens, as many for each text, or those that were drawn last where left out, and draws the one after them: number
   * `counter` of its text.
   */
  draw(
    state: State,
    tokens: readonly (readonly number[])[] | undefined,
    positions: readonly number[],
    counter: number,
  ): Promise<BegunRun> {
    return this.drawStep(
      state,
      { tokens: tokens ?? positions.map(() => [0]), positions },
      tokens === undefined,
      counter,
    );
  }

  /** `read`, with all that a step may say. */
  async readStep(state: State, step: DecoderStep): Promise<{ readonly over: Promise<void> }> {
    const feeds = this.#decoder.feedsOf(state, { ...step, keep: 1 });
    const { results } = await this.#session.start(feeds, {}, { state });
    return { over: quiet(results.then(() => undefined)) };
  }

  /** `draw`, with all that a step may say; `goesOn` where the tokens drawn last are read in place of the step's. */
  async drawStep(state: State, step: DecoderStep, goesOn: boolean, counter: number): Promise<BegunRun> {
    const { results } = await this.#session.start(this.#feedsOf(state, step, goesOn, counter), this.#wanted, { state });
    return { tokens: quiet(results.then(tokensOf)) };
  }

  /**
   * Begins `count` runs, the first of which reads the tokens that were drawn last, each other one those of the run before it: they draw the numbers from
   * `counter` on.
   */
  async drawSeries(state: State, positions: readonly number[], counter: number, count: number): Promise<BegunSeries> {
    const step = (by: number): DecoderStep => ({
      tokens: positions.map(() => [0]),
      positions: positions.map((position) => position + by),
    });
    const changes = Array.from({ length: count - 1 }, (_, at) => ({
      ...this.#decoder.laterFeedsOf(state, step(at + 1), at + 1),
      [samplingInputs.counter]: int64([counter + at + 1], [1]),
    }));
    const feeds = this.#feedsOf(state, step(0), true, counter);
    const { results } = await this.#session.startSeries(feeds, changes, this.#wanted, { state });
    return { runs: quiet(results.then((all) => all.map(tokensOf))) };
  }

  /** What a run that draws is fed. */
  #feedsOf(state: State, step: DecoderStep, goesOn: boolean, counter: number): Feeds {
    const { tokens, seen } = this.slots;
    return {
      ...this.#decoder.feedsOf(state, { ...step, keep: 1 }),
      ...(goesOn ? { input_ids: tokens } : {}),
      ...this.#feeds,
      [samplingInputs.counter]: int64([counter], [1]),
      ...(seen === undefined ? {} : goesOn ? { [samplingInputs.seen]: seen } : this.#seen),
    };
  }
}

function optionFeeds(options: readonly DrawingOptions[]): Feeds {
  const count = options.length;
  const numbers = options.flatMap(({ temperature, topP, minP, repetitionPenalty }) => [
    Math.min(temperature, mostFloat),
    topP,
    minP,
    repetitionPenalty,
  ]);
  return {
    [samplingInputs.options]: new Tensor("float32", numbers, [count, 4]),
    [samplingInputs.topK]: int64(
      options.map(({ topK }) => topK),
      [count],
    ),
  };
}

/** Which tokens there have been in each text: a bit each. Those behind the vocabulary have no logits, and no bit. */
function seenTensor(texts: readonly (readonly number[])[], words: number): Tensor {
  const bits = new Int32Array(texts.length * words);
  texts.forEach((tokens, text) => {
    for (const token of tokens) if (token < 32 * words) bits[text * words + (token >> 5)] |= 1 << (token & 31);
  });
  return new Tensor("int32", bits, [texts.length, words]);
}

/** What a run is fed that draws a token behind each row of its logits. */
export function drawingFeeds(drawings: readonly OneDrawing[], vocabulary: number): Feeds {
  const dims = [drawings.length];
  const seen = drawings.map((drawing) => (drawing.repetitionPenalty === 1 ? [] : drawing.seen));
  return {
    ...optionFeeds(drawings),
    ...(seen.some(({ length }) => length > 0)
      ? { [samplingInputs.seen]: seenTensor(seen, seenWords(vocabulary)) }
      : {}),
    [samplingInputs.seed]: int64(
      drawings.map(({ seed }) => seed),
      dims,
    ),
    [samplingInputs.counter]: int64(
      drawings.map(({ counter }) => counter),
      dims,
    ),
  };
}

/** The tokens that a run drew: `checkToken` tells which are none. */
export const tokensOf = (results: Readonly<Record<string, Tensor>>): readonly number[] =>
  Array.from(results[samplingOutputs.token].data as BigInt64Array, Number);

/** Throws for what is no token: the logits had no largest number. */
export function checkToken(token: number): number {
  if (token >= 0) return token;
  throw new InsituError("invalid-model", "the model's logits are no numbers to choose by: none of them is the largest");
}

/** A promise that nobody has to wait for. */
function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}
