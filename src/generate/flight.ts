/**
 * The decode loops that do not wait, for one text and for several: tokens are drawn where the model runs, and each run is begun before the token that it reads is known
 * here. What was begun beyond a text's end is taken back. How texts end is decided elsewhere.
 */
import { InsituError } from "../base/error.js";
import { type BegunRun, checkToken, type Drawing } from "../cache/token-drawer.js";
import type { Context, DrawnTokens } from "./context.js";
import type { DecoderState, StatefulDecoder, StatefulDrawer } from "./decoder.js";
import type { Generating } from "./options.js";
import { nextRows, type PromptReading, tokensFrom } from "./prompt-parts.js";
import { readApart } from "./read-apart.js";
import { drawingOf } from "./sampling.js";

/** Runs that are under way at a time: one that computes, one that waits for it, and one whose token comes to the host. */
const depth = 3;

/**
 * Where tokens come fast, beginning each run by itself is what limits them: series of runs are begun then, two of which are under way. `milliseconds`: what
 * one of them takes at most, and `most`: how many tokens it has. What is under way when a text ends is computed for nobody.
 */
const series = { depth: 2, milliseconds: 16, most: 16 } as const;

/** What a device is told of how to draw; undefined for options that ask for logits on the host. */
function drawingFor(
  options: Generating,
  seeds: readonly number[],
  seen: readonly (readonly number[])[],
): Drawing | undefined {
  const { sampling, logprobs, speculate, logitBias, constraint } = options;
  if (logitBias !== undefined || constraint !== undefined || logprobs !== undefined || speculate !== undefined)
    return undefined;
  const drawing = drawingOf(sampling);
  return drawing && { ...drawing, seeds, seen };
}

/**
 * What makes a text on the device, of which some tokens were made already; undefined where the options, the context or the model ask for logits on the
 * host.
 */
export function flightFor(
  context: Context,
  prompt: readonly number[],
  options: Generating,
  made: readonly number[] = [],
): Flight | undefined {
  const { sampling, whenFull, maxTokens = Infinity } = options;
  const drawing = drawingFor(options, [sampling.seed], [[...prompt, ...made]]);
  const slides = whenFull === "slide" && prompt.length + maxTokens - 1 > context.capacity;
  const drawer = drawing === undefined || slides || context.slid ? undefined : context.takeDrawer(drawing);
  return drawer && new Flight(context, drawer, { made: made.length, tokens: maxTokens, atOnce: options.tokensAtOnce });
}

/** What makes the texts of a batch on the device; undefined as above. */
export function batchFlightFor(
  place: BatchPlace,
  prompts: readonly (readonly number[])[],
  options: Generating,
): BatchFlight | undefined {
  const { seed } = options.sampling;
  // A device draws end tokens too, and only the host draws again for one text of several.
  if (options.minTokens > 0) return undefined;
  const drawing = drawingFor(
    options,
    prompts.map((_, text) => seed + text),
    prompts,
  );
  const drawer = drawing && place.decoder.drawer?.(drawing);
  // The last token of a text that is full is not read any more.
  const room = Math.max(...prompts.map(({ length }) => place.capacity - length));
  const runs = Math.min(room + 1, options.maxTokens ?? Infinity);
  return drawer && new BatchFlight(place, drawer, prompts, runs);
}

/** What a batch runs on. */
interface BatchPlace {
  readonly decoder: StatefulDecoder;
  readonly state: DecoderState;
  readonly capacity: number;
}

/** The tokens of several texts under way, one of each in every run. What is drawn for texts that are finished is not read. */
class BatchFlight {
  readonly #place: BatchPlace;
  readonly #drawer: StatefulDrawer;
  readonly #prompts: readonly (readonly number[])[];
  readonly #runs: number;
  readonly #underWay: BegunRun[] = [];
  #begun = 0;
  /** Rows that hold each text's own tokens. */
  readonly #rows: number[];
  /** The tokens that came last. */
  #last: readonly number[] | undefined;

  /** `runs`: how many there may be. */
  constructor(place: BatchPlace, drawer: StatefulDrawer, prompts: readonly (readonly number[])[], runs: number) {
    this.#place = place;
    this.#drawer = drawer;
    this.#prompts = prompts;
    this.#runs = runs;
    this.#rows = prompts.map(({ length }) => length);
  }

  /** Reads all prompts but for the last token of each, some `chunk` tokens in a run; `check` is asked before each. */
  async begin(reading: PromptReading, check: () => Promise<void>): Promise<void> {
    const { state, decoder } = this.#place;
    const prompts = this.#prompts;
    const ends = prompts.map(({ length }) => length - 1);
    let before: Promise<void> | undefined;
    const read = async (tokens: readonly (readonly number[])[]): Promise<void> => {
      await check();
      const { over } = await this.#drawer.read(state, tokens, state.lengths);
      await before;
      before = over;
    };
    if (decoder.uneven) return readApart({ state, prompts, ends, chunk: reading.chunk, read });
    const longest = Math.max(...ends);
    const rows = { ...reading, chunk: Math.max(1, Math.floor(reading.chunk / prompts.length)) };
    for (let at = 0, count = 0; at < longest; at += count) {
      count = nextRows(longest - at, this.#place.capacity - at, rows);
      await read(prompts.map((prompt) => tokensFrom(prompt, at, count)));
      // What was read behind a prompt's end is forgotten.
      state.rewind(ends.map((end) => Math.min(at + count, end)));
    }
  }

  /** The next token of each text, where those that came last finished some. Runs that come after are begun first. */
  async next(finished: readonly boolean[] = []): Promise<readonly number[]> {
    const { state, capacity } = this.#place;
    const last = this.#last?.map((token, text) => (finished[text] ? undefined : token));
    last?.forEach((token, text) => (this.#rows[text] += token === undefined ? 0 : 1));
    // Tokens have rows once a run that reads them was begun.
    let isLearnt = last === undefined;
    const learn = (): void => {
      if (!isLearnt && this.#underWay.length > 0) state.learn?.(last!);
      isLearnt ||= this.#underWay.length > 0;
    };
    learn();
    while (this.#underWay.length < depth && this.#begun < this.#runs) {
      // A text that is full has ended, and needs a row to write to all the same.
      state.rewind(
        state.lengths.map((length, text) =>
          Math.min(length, finished[text] ? this.#rows[text] : Infinity, capacity - 1),
        ),
      );
      const tokens = this.#begun === 0 ? this.#prompts.map((prompt) => prompt.slice(-1)) : undefined;
      const begin = (): Promise<BegunRun> => this.#drawer.draw(state, tokens, state.lengths, this.#begun, finished);
      const run = await begunAhead(begin, this.#underWay.length);
      if (run === undefined) break;
      this.#begun++;
      this.#underWay.push(run);
      learn();
    }
    this.#last = await this.#underWay.shift()!.tokens;
    return this.#last;
  }

  /** Lets others draw. */
  end(): void {
    this.#place.decoder.giveBack?.(this.#drawer);
  }
}

/** Begins a run; undefined where there is no room for it yet and others are under way: what comes of them may be the end. */
async function begunAhead<T>(begin: () => Promise<T>, underWay: number): Promise<T | undefined> {
  try {
    return await begin();
  } catch (error) {
    if (underWay > 0 && error instanceof InsituError && error.code === "out-of-memory") return undefined;
    throw error;
  }
}

/** How fast tokens come. */
class Pace {
  /** When some came last. */
  #at: number | undefined;
  /** Tokens, and the milliseconds that they took: of those long ago less and less. */
  #tokens = 0;
  #took = 0;

  /** Tokens have come. */
  note(count: number): void {
    const now = performance.now();
    // One landing says little: while a long series is begun, a short one lands.
    if (this.#at !== undefined) {
      this.#tokens = 0.75 * this.#tokens + count;
      this.#took = 0.75 * this.#took + (now - this.#at);
    }
    this.#at = now;
  }

  /** Of one token; endless before there are two. */
  get milliseconds(): number {
    return this.#tokens === 0 ? Infinity : this.#took / this.#tokens;
  }
}

/** The tokens of one text under way. */
export class Flight {
  readonly #context: Context;
  readonly #drawer: StatefulDrawer;
  readonly #tokens: number;
  readonly #atOnce: number | undefined;
  /** Oldest first. */
  readonly #underWay: DrawnTokens[] = [];
  /** Tokens that came together with one that was taken. */
  #came: readonly number[] = [];
  #begun = 0;
  #arrived = 0;
  readonly #pace = new Pace();
  /** A token of the text that no run was begun to read. */
  #unread: number | undefined;
  #most = 0;
  #isOver = false;

  /** `made`: how many tokens the text has, and `tokens`: how many it may have. `atOnce`: how many are begun at once; as their pace says where left out. */
  constructor(
    context: Context,
    drawer: StatefulDrawer,
    { made, tokens, atOnce }: { readonly made: number; readonly tokens: number; readonly atOnce: number | undefined },
  ) {
    this.#context = context;
    this.#drawer = drawer;
    this.#tokens = tokens;
    this.#atOnce = atOnce;
    this.#begun = made;
    this.#arrived = made;
  }

  /** Tokens that were under way at a time at most. */
  get most(): number {
    return this.#most;
  }

  /** Tokens that were drawn and that nobody took. */
  get discarded(): number {
    return this.#isOver ? this.#begun - this.#arrived : 0;
  }

  /** Reads what was not read of prompt and text; `check` is asked before each run. */
  async begin(tokens: readonly number[], check: () => Promise<void>): Promise<void> {
    this.#add(await this.#context.drawFirst(this.#drawer, tokens, this.#begun, check), 1);
  }

  /** The next token. Before one is waited for, runs that come after it are begun. */
  async next(): Promise<number> {
    if (this.#came.length === 0) await this.#land();
    const [token, ...others] = this.#came;
    this.#came = others;
    this.#arrived++;
    return checkToken(token);
  }

  async #land(): Promise<void> {
    for (let wanted = this.#series; this.#mayBegin(wanted); wanted = this.#series) {
      const count = Math.min(wanted, this.#tokens - this.#begun, this.#context.room);
      const begin = (): Promise<DrawnTokens> => this.#context.drawNext(this.#drawer, this.#begun, count);
      const run = await begunAhead(begin, this.#underWay.length);
      if (run === undefined) break;
      this.#add(run, count);
      if (this.#unread !== undefined) this.#context.learn(this.#unread);
      this.#unread = undefined;
    }
    this.#came = await this.#underWay.shift()!.tokens;
    this.#pace.note(this.#came.length);
  }

  #mayBegin(count: number): boolean {
    const most = count > 1 ? series.depth : depth;
    return this.#underWay.length < most && this.#begun < this.#tokens && this.#context.room > 0;
  }

  /** Tokens that are begun at once: one before the first has come, since that would wait for the others to be begun. */
  get #series(): number {
    if (this.#drawer.drawSeries === undefined || this.#arrived === 0) return 1;
    // Not more than the text has, all series together: it may end soon.
    const fitting = Math.min(series.milliseconds / this.#pace.milliseconds, this.#arrived / series.depth, series.most);
    return this.#atOnce ?? Math.max(1, Math.floor(fitting));
  }

  /** The token that came last is part of the text, which goes on. */
  accept(token: number): void {
    if (this.#begun > this.#arrived) this.#context.learn(token);
    else this.#unread = token;
  }

  /** Takes back what was begun and is not part of the text. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#context.forgetAhead();
    this.#context.giveDrawer(this.#drawer);
  }

  #add(run: DrawnTokens, count: number): void {
    this.#underWay.push(run);
    this.#begun += count;
    this.#most = Math.max(this.#most, this.#begun - this.#arrived);
  }
}
