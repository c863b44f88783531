/** Texts that go on while somebody waits for them: one whose tokens are taken one by one, and tokens that are read for what comes after them. */
import { InsituError } from "../base/error.js";
import type { Context } from "./context.js";
import { MadeText, type MadeToken, type TextListener } from "./made-text.js";
import { pause } from "./pause.js";
import type { PartResult, Want } from "./step.js";
import { EngineText, type TextOwner } from "./text.js";
import type { TextAsk, TextEnd } from "./text-ask.js";
import type { TokenEngine } from "./token-engine.js";

/** A token that was taken. */
export interface PulledToken {
  readonly made: MadeToken;
  /** False for one that only ended the text, and is no part of it. */
  readonly isToken: boolean;
  /** Why the text ended with it, where it did. */
  readonly end: TextEnd | undefined;
}

/** Turns in which nothing could be done, after which nothing will be. */
const mostIdle = 3;

let named = 0;

/** A text of nobody in particular. */
const ownerOf = (): TextOwner => ({ id: `text ${++named}`, tenant: "", priority: 0, salt: "" });

/** Throws if a caller no longer wants what it asked for. */
type StillWanted = () => void;

/** Takes turns until something is there. Events are served between them; waiting for a device serves them too. */
async function until(engine: TokenEngine, isThere: () => boolean, stillWanted: StillWanted): Promise<void> {
  for (let idle = 0; !isThere();) {
    // Who took a token in the last turn asks for the next one meanwhile, and has a part in the same step.
    if (!engine.layout.goesAhead || engine.texts.size > 1 || idle > 0) await pause();
    stillWanted();
    idle = (await engine.advance()) ? 0 : idle + 1;
    // Texts that nobody takes the tokens of have what this one waits for.
    if (idle === mostIdle && !isThere())
      throw new InsituError(
        "out-of-memory",
        "there is no room for this completion: others hold the blocks and wait to be read; finish those first, or load the model with more blocks",
      );
  }
}

/** How many wait for a token of a text, or of any of those that are made together: while somebody does, all of these go on. */
export class Pulls {
  count = 0;
}

/** What was told of a text and not taken yet. */
class Told implements TextListener {
  readonly pulls: Pulls;
  readonly tokens: PulledToken[] = [];
  error: Error | undefined;

  constructor(pulls: Pulls) {
    this.pulls = pulls;
  }

  get isAsking(): boolean {
    return this.pulls.count > 0;
  }

  token(made: MadeToken): undefined {
    this.tokens.push({ made, isToken: true, end: undefined });
  }

  ended(end: TextEnd, last?: MadeToken): void {
    if (last !== undefined) this.tokens.push({ made: last, isToken: false, end });
    else this.tokens.push({ ...this.tokens.pop()!, end });
  }

  failed(error: Error): void {
    this.error = error;
  }
}

/** Ends texts that were dropped without `leave`: the engine holds them, and not what takes their tokens. */
const dropped = new FinalizationRegistry<() => void>((leave) => leave());

/** A text whose tokens are taken one by one: it is made while somebody waits. */
export class PulledText {
  readonly #engine: TokenEngine;
  readonly #stillWanted: StillWanted;
  readonly #told: Told;
  readonly text: MadeText;

  /** `pulls`: of all texts that are made together with it. */
  constructor(
    engine: TokenEngine,
    ask: TextAsk,
    context: Context,
    stillWanted: StillWanted,
    pulls: Pulls = new Pulls(),
  ) {
    this.#engine = engine;
    this.#stillWanted = stillWanted;
    this.#told = new Told(pulls);
    const text = new MadeText(ask, ownerOf(), context, this.#told, engine.layout);
    this.text = text;
    engine.add(text);
    dropped.register(this, () => engine.leave(text), this);
  }

  /** True once its last token was taken. */
  get isOver(): boolean {
    return this.text.isOver && this.#told.tokens.length === 0 && this.#told.error === undefined;
  }

  /** Tokens that were drawn and that nobody took. */
  get discarded(): number {
    return this.text.drawnAhead + this.#told.tokens.length;
  }

  /** The next token; undefined behind the last. Throws what the text failed with. */
  async next(): Promise<PulledToken | undefined> {
    const told = this.#told;
    told.pulls.count++;
    try {
      await until(this.#engine, () => told.tokens.length > 0 || this.text.isOver, this.#stillWanted);
    } finally {
      told.pulls.count--;
    }
    const next = told.tokens.shift();
    if (next === undefined && told.error !== undefined) throw told.error;
    return next;
  }

  /** Ends the text, and waits until its context is free. */
  async leave(): Promise<void> {
    dropped.unregister(this);
    await this.#engine.quit(this.text);
  }
}

/** Tokens that are read behind a context's own. */
class ReadText extends EngineText {
  readonly #wants: Want;
  logits: Float32Array | undefined;
  error: Error | undefined;

  constructor(context: Context, tokens: readonly number[], wantsLogits: boolean) {
    super(ownerOf(), context, [...context.tokens, ...tokens]);
    this.#wants = wantsLogits ? "logits" : "nothing";
  }

  get mostRows(): number {
    return this.tokens.length;
  }

  get isAsked(): boolean {
    return true;
  }

  protected get wants(): Want {
    return this.#wants;
  }

  protected landed(result: PartResult): void {
    if (result.kind === "logits") this.logits = result.at(0).slice();
    this.isOver = this.pending === 0 && (this.#wants === "nothing" || this.logits !== undefined);
  }

  fail(error: Error): void {
    this.error = error;
    this.isOver = true;
  }
}

/** Reads tokens of one context or several; the logits after the last of each where they are wanted. */
export async function readTokens(
  engine: TokenEngine,
  parts: readonly { readonly context: Context; readonly tokens: readonly number[] }[],
  wantsLogits: boolean,
  stillWanted: StillWanted,
): Promise<readonly (Float32Array | undefined)[]> {
  const texts = parts.map(({ context, tokens }) => new ReadText(context, tokens, wantsLogits));
  for (const text of texts) engine.add(text);
  try {
    await until(engine, () => texts.every(({ isOver }) => isOver), stillWanted);
  } finally {
    for (const text of texts) await engine.quit(text);
  }
  const failed = texts.find(({ error }) => error !== undefined);
  if (failed?.error !== undefined) throw failed.error;
  return texts.map(({ logits }) => logits);
}
