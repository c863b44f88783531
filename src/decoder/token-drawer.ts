/**
 * Runs of a decoder that draw tokens where the model runs: each leaves what it drew on the device, where the run after it reads it, so that runs are
 * begun before the tokens of those before them are known to the host. One drawer serves runs that follow each other. Knows no text; how many are begun
 * ahead is the caller's matter.
 */
import { InsituError } from "../base/error.js";
import { hostLogits, hostRows, samplingInputs, samplingOutputs, seenWords } from "#insitu/rewrite/sampling-names.js";
import type { Feeds } from "../session/feeds.js";
import type { Session } from "../session/session.js";
import type { State } from "../session/state.js";
import { Tensor } from "../tensor/tensor.js";
import type { Decoder, DecoderStep } from "./decoder.js";
import { int64 } from "./decoder-inputs.js";
import { floatsOf, Logits } from "./logits.js";
import type { SlotPool } from "./slot-pool.js";

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

/** How one token is drawn: the number `counter` of a text with this seed. */
export interface OneDrawing {
  readonly options: DrawingOptions;
  readonly seed: number;
  readonly counter: number;
  /** The tokens of the text so far, its prompt included; only a repetition penalty looks at them, unless the run before has noted them. */
  readonly seen: readonly number[];
}

/** What a run that draws is told. */
interface DrawAsk {
  /** For each row of logits. */
  readonly drawings: readonly OneDrawing[];
  /** For each token of the step the row of the run before that drew it; undefined for a token that the step names. All are named where left out. */
  readonly from?: readonly (number | undefined)[];
  /** Rows of logits that come to the host as well. */
  readonly hostRows?: readonly number[];
}

/** What a run that draws told. */
export interface DrawnRun {
  /** The token behind each row of logits: `checkToken` tells which are none. */
  readonly tokens: readonly number[];
  /** Of the rows that were asked for, each a sample. */
  readonly logits: Logits | undefined;
}

/** Runs that were begun at once, each of which reads what the one before it drew. */
interface BegunRuns {
  /** What each told, once all of it has come to the host. Rejects where a run failed, and the state is lost then. */
  readonly results: Promise<readonly DrawnRun[]>;
}

/** The largest number of float32. */
const mostFloat = 3.4028234663852886e38;

/** What a run left on the device. */
interface Left {
  readonly tokens: Tensor;
  /** Which tokens there have been, where a penalty asks for it. */
  readonly seen: Tensor | undefined;
}

/** Options that many runs have in common, as they are fed. */
interface Common {
  readonly options: readonly DrawingOptions[];
  readonly seeds: readonly number[];
  readonly feeds: Feeds;
}

/** Draws tokens, run after run. */
export class TokenDrawer {
  readonly #session: Session;
  readonly #decoder: Decoder;
  readonly #slots: SlotPool;
  readonly #vocabulary: number;
  #left: Left | undefined;
  #common: Common | undefined;

  /** For decoders. */
  constructor(session: Session, decoder: Decoder, slots: SlotPool, vocabulary: number) {
    this.#session = session;
    this.#decoder = decoder;
    this.#slots = slots;
    this.#vocabulary = vocabulary;
  }

  /**
   * True if runs of one token for each text may be begun at once, each of which reads what the one before it drew: penalties go on from tokens that the
   * host does not know only where the first run reads all its tokens as the last one left them, and finds those that were there noted.
   */
  goesOn(from: readonly (number | undefined)[], drawings: readonly OneDrawing[]): boolean {
    return !isPenalized(drawings) || (this.#isAsLeft(from) && this.#left?.seen !== undefined);
  }

  #isAsLeft(from: readonly (number | undefined)[]): boolean {
    return this.#left?.tokens.dims[0] === from.length && from.every((row, at) => row === at);
  }

  /** Begins a run, or where it `goesOn` several of one token for each text of which each reads what the one before it drew: `later` are the steps of those. */
  async begin(state: State, step: DecoderStep, ask: DrawAsk, later: readonly DecoderStep[] = []): Promise<BegunRuns> {
    const { drawings, from, hostRows: rows = [] } = ask;
    const left = this.#slotsFor(drawings);
    const isAsLeft = from !== undefined && this.#isAsLeft(from);
    const counters = (by: number): Tensor =>
      int64(
        drawings.map(({ counter }) => counter + by),
        [drawings.length],
      );
    const feeds = {
      ...this.#decoder.feedsOf(state, step),
      ...(isAsLeft
        ? { input_ids: this.#left!.tokens }
        : isEachAlone(step)
          ? { input_ids: this.#compose(step, from) }
          : {}),
      ...this.#commonOf(drawings),
      ...(left.seen === undefined ? {} : { [samplingInputs.seen]: this.#seenBefore(isAsLeft, drawings) }),
      ...(rows.length === 0 ? {} : { [hostRows]: rowsTensor(rows) }),
      [samplingInputs.counter]: counters(0),
    };
    const wanted = {
      [samplingOutputs.token]: null,
      [samplingOutputs.input]: left.tokens,
      ...(left.seen === undefined ? {} : { [samplingOutputs.seen]: left.seen }),
      ...(rows.length === 0 ? {} : { [hostLogits]: null }),
    };
    const told = (results: Readonly<Record<string, Tensor>>): DrawnRun => ({
      tokens: Array.from(results[samplingOutputs.token].data as BigInt64Array, Number),
      logits: rows.length === 0 ? undefined : logitsIn(results[hostLogits], rows, drawings.length),
    });
    this.#left = left;
    if (later.length === 0) {
      const { results } = await this.#session.start(feeds, wanted, { state });
      return { results: quiet(results.then((one) => [told(one)])) };
    }
    const changes = later.map((own, at) => ({
      ...this.#decoder.laterFeedsOf(state, own, at + 1),
      [samplingInputs.counter]: counters(at + 1),
    }));
    const { results } = await this.#session.startSeries(feeds, changes, wanted, { state });
    return { results: quiet(results.then((all) => all.map(told))) };
  }

  /** Lets others have what lies on the device: nothing is read from it any more. */
  release(): void {
    this.#slots.giveAll(this);
    this.#left = undefined;
  }

  #slotsFor(drawings: readonly OneDrawing[]): Left {
    const rows = drawings.length;
    const tokens = this.#slots.take(this, "input_ids", [rows, 1], [0, this.#vocabulary - 1]);
    if (!isPenalized(drawings)) return { tokens, seen: undefined };
    return { tokens, seen: this.#slots.take(this, samplingInputs.seen, [rows, seenWords(this.#vocabulary)]) };
  }

  /** The tokens of a run, some of which the last one drew, put together where a run of as many leaves its own: programs find them in one place. */
  #compose({ tokens }: DecoderStep, from?: readonly (number | undefined)[]): Tensor {
    const drawn = this.#left;
    const named = tokens.map(([token]) => token);
    const wrong = named.find((token, at) => from?.[at] === undefined && !(token >= 0 && token < this.#vocabulary));
    if (wrong !== undefined)
      throw new InsituError("invalid-argument", `a token must be from 0 to ${this.#vocabulary - 1}, got ${wrong}`);
    const count = named.length;
    const target = this.#slots.take(this, "input_ids", [count, 1], [0, this.#vocabulary - 1]);
    const host = int64(named, [count, 1]);
    const pieces = [];
    for (let at = 0; at < count;) {
      const [start, row] = [at, from?.[at]];
      // What lies side by side on both ends is one copy.
      do at++;
      while (at < count && from?.[at] === (row === undefined ? undefined : row + at - start));
      pieces.push({
        from: row === undefined ? host : drawn!.tokens,
        start: row ?? start,
        at: start,
        count: at - start,
      });
    }
    this.#session.fillSlot(target, pieces);
    return target;
  }

  /** Options and seeds, which stay the same from run to run as long as the texts do. */
  #commonOf(drawings: readonly OneDrawing[]): Feeds {
    const before = this.#common;
    const isSame =
      before?.options.length === drawings.length &&
      drawings.every(({ options, seed }, at) => options === before.options[at] && seed === before.seeds[at]);
    if (isSame) return before.feeds;
    const [options, seeds] = [drawings.map((each) => each.options), drawings.map(({ seed }) => seed)];
    this.#common = { options, seeds, feeds: optionFeeds(options, seeds) };
    return this.#common.feeds;
  }

  #seenBefore(isAsLeft: boolean, drawings: readonly OneDrawing[]): Tensor {
    const known = isAsLeft ? this.#left?.seen : undefined;
    if (known !== undefined) return known;
    const seen = drawings.map((drawing) => (drawing.options.repetitionPenalty === 1 ? [] : drawing.seen));
    return seenTensor(seen, seenWords(this.#vocabulary));
  }
}

/** Rows filled up to a number that recurs: runs of the same shapes are prepared once. */
function rowsTensor(rows: readonly number[]): Tensor {
  const count = 2 ** Math.ceil(Math.log2(rows.length));
  return int64([...rows, ...Array<number>(count - rows.length).fill(rows[0])], [count]);
}

/** Logits of some rows, by their numbers among all. */
function logitsIn(tensor: Tensor, rows: readonly number[], all: number): Logits {
  const [, count, vocabulary] = tensor.dims;
  const places = Array.from({ length: all }, (_, row) => rows.indexOf(row));
  return new Logits(floatsOf(tensor), count, vocabulary, places);
}

/** True if every token is a sample of its own. */
const isEachAlone = ({ tokens }: DecoderStep): boolean => tokens.every(({ length }) => length === 1);

const isPenalized = (drawings: readonly OneDrawing[]): boolean =>
  drawings.some(({ options }) => options.repetitionPenalty !== 1);

function optionFeeds(options: readonly DrawingOptions[], seeds: readonly number[]): Feeds {
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
    [samplingInputs.seed]: int64(seeds, [count]),
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

/** Throws for what is no token: the logits had no largest number. */
export function checkToken(token: number): number {
  if (token >= 0) return token;
  throw new InsituError("invalid-model", "the model's logits cannot be sampled: none of them is the largest");
}

/** A promise that nobody has to wait for. */
function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}
