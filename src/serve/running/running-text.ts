/** One text in the engine: its tokens, how the next one is chosen, and when it ends. Runs nothing and holds no blocks. */
import { checkToken, type DrawingOptions, type OneDrawing } from "../../cache/token-drawer.js";
import { describeChoice, drawingOf, Sampler } from "../../generate/sampling.js";
import type { MadeToken, TextEnd, TextListener, TextRequest } from "../engine.js";

/** A text on its way. */
export class Text {
  readonly request: TextRequest;
  readonly #listener: TextListener;
  readonly salt: string;
  /** The prompt's, and those that were made and are not read yet or were read. */
  readonly tokens: number[];
  readonly #sampler: Sampler;
  readonly #drawing: DrawingOptions | undefined;
  /** Rows that it may take. */
  readonly mostRows: number;
  #made = 0;
  #isStarted = false;
  /** Nobody hears of it any more. */
  isOver = false;
  /** It came to its end. */
  isWhole = false;

  /** `context`: tokens that a text may have read. */
  constructor(request: TextRequest, listener: TextListener, context: number) {
    const { prompt, sampling, logitBias: bias, constraint, maxTokens, salt = "" } = request;
    this.request = request;
    this.#listener = listener;
    this.salt = salt;
    this.tokens = [...prompt];
    this.#sampler = new Sampler(sampling, prompt, { bias, constraint });
    const needsLogits = bias !== undefined || constraint !== undefined || request.logprobs !== undefined;
    this.#drawing = needsLogits ? undefined : drawingOf(sampling);
    this.mostRows = Math.min(context, prompt.length + maxTokens - 1);
  }

  get id(): string {
    return this.request.id;
  }

  get tenant(): string {
    return this.request.tenant;
  }

  get priority(): number {
    return this.request.priority ?? 0;
  }

  /** Its prompt begins to be read; true the first time. */
  start(cachedTokens: number): boolean {
    const isFirst = !this.#isStarted;
    this.#isStarted = true;
    if (isFirst) this.#listener.started?.({ cachedTokens });
    return isFirst;
  }

  /** How its next token is drawn by whoever runs the model; undefined where its logits are needed here. */
  get drawing(): OneDrawing | undefined {
    // A device draws from all tokens.
    if (!this.#mayEnd) return undefined;
    const { seed } = this.request.sampling;
    return this.#drawing && { ...this.#drawing, seed, counter: this.#made, seen: this.tokens };
  }

  /**
   * Goes on with the token that the logits lead to, or that was drawn: tells it, and why the text ended with it, where it did. Throws where
   * there is none.
   */
  goOn(from: Float32Array | number, context: number): TextEnd | undefined {
    const { endTokens, maxTokens, logprobs, constraint } = this.request;
    const mayEnd = this.#mayEnd;
    const token =
      typeof from === "number" ? checkToken(from) : this.#sampler.choose(from, mayEnd ? undefined : endTokens);
    if (mayEnd && endTokens.has(token)) return "end-token";
    this.#sampler.accept(token);
    this.#made++;
    const made: MadeToken = { token, ...(typeof from === "number" ? {} : describeChoice(from, token, logprobs)) };
    if (this.#listener.token(made) === "stop") return "stopped";
    if (constraint?.terminated === true) return "end-token";
    if (this.#made >= maxTokens) return "max-tokens";
    // All that is known was read: another one has no room.
    if (this.tokens.length >= context) return "context-full";
    this.tokens.push(token);
    return undefined;
  }

  get made(): number {
    return this.#made;
  }

  get #mayEnd(): boolean {
    return this.#listener.mayEnd?.() ?? this.#made >= (this.request.minTokens ?? 0);
  }

  end(end: TextEnd): void {
    if (this.isOver) return;
    this.isOver = true;
    this.isWhole = true;
    this.#listener.ended(end);
  }

  fail(error: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#listener.failed(error);
  }
}
