/** A text whose tokens are made: how the next one is chosen or drawn, what is guessed, and when it ends. The one place where that is decided. */
import { InsituError } from "../base/error.js";
import { checkToken, type DrawingOptions, type OneDrawing } from "../decoder/token-drawer.js";
import type { Context } from "./context.js";
import { Ending } from "./ending.js";
import { Acceptance, GuessLength, type LookupsKnown } from "#insitu/choice/guess-length.js";
import { NgramLookup } from "#insitu/choice/lookup.js";
import { describeChoice } from "#insitu/choice/log-probability.js";
import { drawingOf, Sampler } from "#insitu/choice/sampling.js";
import type { Layout, PartResult, Want } from "./step.js";
import { EngineText, type TextOwner } from "./text.js";
import type { TextAsk, TextEnd } from "./text-ask.js";

/** A token with its log-probability. */
export interface TokenLogprob {
  readonly token: number;
  readonly logprob: number;
}

/** A token of a text, as it was made. */
export interface MadeToken {
  readonly token: number;
  /** The text that became certain with it. */
  readonly text: string;
  readonly logprob?: number;
  readonly top?: readonly TokenLogprob[];
  /** The stop string that ends the text with it. */
  readonly stop?: string;
}

/** A token, and the hidden state that it was chosen by. */
export interface ChosenRow {
  readonly token: number;
  readonly hidden: Float32Array;
}

/** Rows that wait for whoever reads them at most: what guesses without the older ones guesses nearly as well. */
const mostRows = 256;

/** Who hears of a text. Calls come in order; nothing comes after ended, failed, or once it left. One that throws fails its text alone. */
export interface TextListener {
  /** The prompt's first run begins: so many of its tokens were reused. */
  started?(told: { readonly cachedTokens: number }): void;
  /** True if it wants the text to go on now; it does where left out. */
  readonly isAsking?: boolean;
  /** A token; "stop" ends the text with it. */
  token(made: MadeToken): "stop" | undefined;
  /** `last`: a token that only ended the text, with text that was held back before it. */
  ended(end: TextEnd, last?: MadeToken): void;
  /** The text cannot go on; the InsituError says why. Others are not touched. */
  failed(error: Error): void;
}

/** A text in the making. */
export class MadeText extends EngineText {
  readonly ask: TextAsk;
  readonly #listener: TextListener;
  readonly #sampler: Sampler;
  readonly #ending: Ending;
  readonly #drawing: DrawingOptions | undefined;
  readonly #lookup: NgramLookup | undefined;
  /** A token that was looked up and not tried. */
  #untried: number | undefined;
  /** How many of the tokens that were looked up are tried: all where left out. */
  #worth: { readonly length: GuessLength; readonly known: LookupsKnown } | undefined;
  /** Tokens that are tried out behind the last one. */
  #guesses: readonly number[] = [];
  /** A draft has guessed them. */
  #isDrafted = false;
  /** What was chosen since a head read it last. */
  readonly #chosen: ChosenRow[] = [];
  /** Hears how many of a draft's guesses were checked, and how many were right. */
  onChecked: ((guessed: number, right: number) => void) | undefined;
  #made = 0;
  #mostUnderWay = 0;
  /** Tokens that may be drawn before a draft is asked again. */
  #free = 0;
  #isStarted = false;
  #guessed = 0;
  #right = 0;
  /** Runs that checked guesses. */
  #checked = 0;

  /** `draws`: tokens can be drawn where the model runs, `checks`: guesses can be checked there. */
  constructor(
    ask: TextAsk,
    owner: TextOwner,
    context: Context,
    listener: TextListener,
    { draws, checks }: Pick<Layout, "draws" | "checks">,
  ) {
    super(owner, context, ask.prompt);
    const { sampling, prompt, constraint, logitBias: bias, speculate, logprobs, whenFull, maxTokens = Infinity } = ask;
    this.ask = ask;
    this.#listener = listener;
    this.#sampler = new Sampler(sampling, prompt, { bias, constraint });
    this.#ending = new Ending(ask);
    const { ngram, tokens: most = 0 } = speculate ?? {};
    this.#lookup = ngram === undefined ? undefined : new NgramLookup({ ngram, draft: most }, prompt);
    const isGuessed = speculate !== undefined;
    // What a head reads comes with logits; and a device that checks guesses knows none of the tokens before them.
    const isTold = isGuessed && (!checks || this.reads !== undefined || sampling.repetitionPenalty !== 1);
    const needsLogits = isTold || [bias, constraint, logprobs].some((option) => option !== undefined);
    const slides = whenFull === "slide" && prompt.length + maxTokens - 1 > context.capacity;
    const isOneKind = context.isOneKind(prompt.length, this.mostRows);
    const isChosen = needsLogits || slides || context.slid || !isOneKind || !draws;
    this.#drawing = isChosen ? undefined : drawingOf(sampling);
  }

  get mostRows(): number {
    const { prompt, maxTokens = Infinity } = this.ask;
    return Math.min(this.context.capacity, prompt.length + maxTokens - 1);
  }

  get isAsked(): boolean {
    return this.#listener.isAsking !== false;
  }

  override get reads(): string | undefined {
    return this.ask.speculate?.draft?.reads;
  }

  /** Tokens that were made. */
  get made(): number {
    return this.#made;
  }

  /** Tokens that were under way at a time at most; guesses that were checked, those of them that were right, and in how many runs. */
  get figures(): Readonly<Record<"mostAhead" | "guessed" | "right" | "checked", number>> {
    return { mostAhead: this.#mostUnderWay, guessed: this.#guessed, right: this.#right, checked: this.#checked };
  }

  /** Tokens that may still be asked for. */
  get remaining(): number {
    return this.#ending.remaining - this.drawnAhead;
  }

  override get atOnce(): number | undefined {
    // One before the first token has come, since that would wait for the others to be begun.
    return this.#made === 0 ? 1 : this.ask.tokensAtOnce;
  }

  override get mostAhead(): number {
    const most = Math.min(this.remaining, this.context.room);
    return this.ask.speculate === undefined || this.guessRoom === 0 ? most : Math.min(most, this.#free);
  }

  override isReady(lane: Parameters<EngineText["isReady"]>[0]): boolean {
    return this.remaining > 0 && (this.drawnAhead === 0 || this.mostAhead > 0) && super.isReady(lane);
  }

  /** True if its next tokens can be drawn before the last ones have come. */
  get mayGoOn(): boolean {
    return this.wants === "token";
  }

  /** Has it go on without guesses for so many tokens. */
  goOn(tokens: number): void {
    this.#free = tokens;
  }

  protected get wants(): Want {
    // A device draws from all tokens.
    return this.#drawing === undefined || this.#ending.barred !== undefined ? "logits" : "token";
  }

  protected override get keep(): number {
    return 1 + this.#guesses.length;
  }

  override get drawing(): OneDrawing | undefined {
    return (
      this.#drawing && {
        options: this.#drawing,
        seed: this.ask.sampling.seed,
        counter: this.#made + this.drawnAhead,
        seen: this.tokens,
      }
    );
  }

  /** How a draft draws where it runs, as this text does; undefined where it is to hand out logits. */
  get guessDrawing(): OneDrawing | undefined {
    return this.wants === "token" ? this.drawing : undefined;
  }

  /** True for a token that ends it. */
  endsWith(token: number): boolean {
    return this.#ending.endsWith(token);
  }

  override start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#listener.started?.({ cachedTokens: this.context.length });
  }

  override begun(...[part, count]: Parameters<EngineText["begun"]>): void {
    super.begun(part, count);
    this.#free -= part.tokens === "drawn" ? count : count - 1;
    this.#mostUnderWay = Math.max(this.#mostUnderWay, this.drawnAhead);
  }

  protected landed(result: PartResult): void {
    if (result.kind === "token" || result.kind === "logits") this.#choose(result);
  }

  /** Chooses by what came after the last token, and after each guess as long as guesses are right. */
  #choose(result: PartResult & { readonly kind: "logits" | "token" }): void {
    const guesses = this.#guesses;
    const [before, isDrafted] = [this.#right, this.#isDrafted];
    this.#guessed += guesses.length;
    this.#chooseBehind(guesses, result);
    if (guesses.length === 0) return;
    this.#checked++;
    const right = this.#right - before;
    if (isDrafted) return this.onChecked?.(guesses.length, right);
    this.#noteLookup(guesses.length, right);
  }

  #chooseBehind(guesses: readonly number[], result: PartResult & { readonly kind: "logits" | "token" }): void {
    const { at, hidden } = result.kind === "logits" ? result : { at: undefined, hidden: undefined };
    const drawn = (open: number): number => {
      this.#sampler.skip();
      return checkToken(result.kind === "token" ? (result.before?.(open) ?? result.token) : -1);
    };
    for (let open = guesses.length; !this.isOver;) {
      const row = at?.(open);
      const token = row === undefined ? drawn(open) : this.#sampler.choose(row, this.#ending.barred);
      if (hidden !== undefined && this.#chosen.push({ token, hidden: hidden(open).slice() }) > mostRows)
        this.#chosen.shift();
      const isRight = open > 0 && guesses[guesses.length - open] === token && !this.#ending.endsWith(token);
      if (!isRight) this.#takeBack(open);
      this.#accept(token, row, isRight ? open : 0);
      if (!isRight) return;
      open--;
    }
  }

  /** A token comes next; `open` guesses, this one among them, were read already. */
  #accept(token: number, logits: Float32Array | undefined, open: number): void {
    const ending = this.#ending;
    const ends = ending.endsWith(token);
    // Before it is asked whether the text has ended: where there is a constraint, that says so.
    if (!ends) this.#sampler.accept(token);
    // All that is known was read, or is under way: another one has no room.
    const isFull = open === 0 && this.context.room + this.context.ahead === 0;
    const { text, end, stop } = ending.push(token, isFull, ends);
    const made: MadeToken = {
      token,
      text,
      ...(stop === undefined ? {} : { stop }),
      ...(logits === undefined ? {} : describeChoice(logits, token, this.ask.logprobs)),
    };
    if (ends) return this.#end("end-token", made);
    this.#made++;
    if (this.#untried !== undefined) this.#noteLookup(1, token === this.#untried ? 1 : 0);
    this.#untried = undefined;
    this.#lookup?.push(token);
    if (open > 0) this.#right++;
    const isStopped = this.#listener.token(made) === "stop";
    if (this.isOver) return;
    if (end !== undefined || isStopped) {
      if (open > 1) this.#takeBack(open - 1);
      return this.#end(end ?? "stopped");
    }
    if (open > 0) return this.confirm(token);
    this.#isDrafted = false;
    this.#guesses = this.#lookUp();
    this.append(token, this.#guesses);
  }

  /** True if it looks its guesses up. */
  get looksUp(): boolean {
    return this.#lookup !== undefined;
  }

  /** It is one of those of which this is known. */
  joins(known: LookupsKnown): void {
    const { adaptive = false, tokens = 0 } = this.ask.speculate ?? {};
    if (adaptive && this.looksUp)
      this.#worth = { length: new GuessLength(tokens, new Acceptance(known.acceptance)), known };
  }

  #lookUp(): readonly number[] {
    const found = this.#lookup?.guess().slice(0, this.guessRoom) ?? [];
    if (found.length === 0 || this.#worth === undefined) return found;
    const { length, known } = this.#worth;
    const tried = found.slice(0, length.choose(known.texts, known.steps, 0));
    // What is not tried is found right or wrong by the token that comes.
    this.#untried = tried.length === 0 ? found[0] : undefined;
    return tried;
  }

  #noteLookup(guessed: number, right: number): void {
    this.#worth?.length.note(guessed, right);
    this.#worth?.known.acceptance.note(guessed, right);
  }

  /** Tokens that may be guessed: more would have no room, or come after the text's end. */
  get guessRoom(): number {
    return Math.max(0, Math.min(this.#ending.remaining, this.context.guessRoom) - 1);
  }

  /** True if a draft is asked what comes next: the last token is all that is to be read, and nothing is guessed. */
  get wantsDraft(): boolean {
    const isNext = this.#made > 0 && this.pending === 1 && this.#guesses.length === 0;
    return isNext && this.ask.speculate?.draft !== undefined && this.guessRoom > 0;
  }

  /** What was chosen since this was asked last. */
  takeChosen(): readonly ChosenRow[] {
    return this.#chosen.splice(0);
  }

  /** What a draft's logits say of the token behind those guessed so far; undefined where the text would end. */
  guessOf(logits: Float32Array, guessed: readonly number[]): number | undefined {
    const token = this.#sampler.guess(logits, guessed, this.#ending.barred);
    return this.#ending.endsWith(token) ? undefined : token;
  }

  /** Tries out what a draft guessed. */
  tryOut(guesses: readonly number[]): void {
    if (!this.wantsDraft) return;
    this.#guesses = guesses.slice(0, this.guessRoom);
    this.#isDrafted = true;
    this.addPending(this.#guesses);
  }

  /** Guesses that a step has no room for are left out: those it reads are checked in it. */
  override part(count: number): ReturnType<EngineText["part"]> {
    const dropped = Math.min(this.#guesses.length, Math.max(0, this.pending - count));
    if (dropped > 0) {
      this.#guesses = this.#guesses.slice(0, this.#guesses.length - dropped);
      this.dropPending(dropped);
    }
    return super.part(count);
  }

  /** Takes back guesses that were read in vain. */
  #takeBack(count: number): void {
    const { context } = this;
    // Rows that were lost are gone anyway.
    if (count === 0 || context.length === 0 || context.rewind(context.length - count)) return;
    throw new InsituError(
      "invalid-argument",
      "the model has a recurrent state, which cannot go back: leave option speculate out",
    );
  }

  override loseRows(): void {
    super.loseRows();
    this.#guesses = [];
  }

  #end(end: TextEnd, last?: MadeToken): void {
    this.isOver = true;
    this.isWhole = true;
    this.#listener.ended(end, last);
  }

  fail(error: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#listener.failed(error);
  }
}
