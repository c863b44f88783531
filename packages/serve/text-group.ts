/**
 * The texts of one request on the engine: tokens become text, stop strings end it, reasoning and calls of tools are told
 * apart, and what happens is told as events. Knows no HTTP and no endpoint. Whatever way it ends, constraints are released and nothing is left running.
 */
import type { DialogueEvent } from "#insitu/dialogue/events.js";
import type { ReplyReader } from "#insitu/dialogue/reader.js";
import type { HeldConstraint } from "#insitu/choice/constraint.js";
import type { TextAsk } from "#insitu/engine/text-ask.js";
import type { TokenDecoder } from "#insitu/engine/text-stream.js";
import { newId } from "./wire/identity.js";
import type { Engine, MadeToken, RunningText, TextEnd, TextListener } from "./engine.js";
import type { Finish, TextEvent, ToldToken, Usage } from "./wire/text-event.js";

/** One text that a request asks for. */
export interface RequestedText extends Omit<TextAsk, "decoder" | "markers"> {
  readonly maxTokens: number;
  readonly constraint?: HeldConstraint | undefined;
  /** Makes what tells text, reasoning and calls apart; undefined where all of it is text. */
  readonly reader?: (() => ReplyReader) | undefined;
  /** Makes the id of a call. */
  readonly callId?: () => string;
  /** True ends the text behind its first call. */
  readonly isSingleCall?: boolean;
}

/** Whose texts these are. */
interface Asker {
  readonly id: string;
  readonly tenant: string;
  readonly salt?: string | undefined;
  /** Higher ones first. */
  readonly priority: number;
}

/** Who hears of the texts. Nothing comes after done, failed, or the group's cancel. */
export interface GroupListener {
  event(index: number, event: TextEvent): void;
  done(usage: Usage): void;
  failed(error: Error): void;
}

/** When tokens came: what measures are made of. */
export interface TokenWatch {
  first(): void;
  next(): void;
  ended(finish: Finish): void;
}

/** What texts are made with. */
interface GroupTools {
  readonly engine: Engine;
  readonly decoder: TokenDecoder;
  readonly watch: () => TokenWatch;
  /** Control tokens that stand in a text as they are spelled, such as those before calls of tools. */
  readonly markers: ReadonlyMap<number, string>;
}

/** The texts of a request, under way. */
export class TextGroup {
  readonly #texts: OneText[];
  readonly #listener: GroupListener;
  #open: number;
  #over = false;

  /** Begins all texts, or throws with none begun. */
  constructor(asks: readonly RequestedText[], asker: Asker, tools: GroupTools, listener: GroupListener) {
    this.#listener = listener;
    this.#open = asks.length;
    this.#texts = asks.map((ask, index) => new OneText(ask, tools, this.#heard(index)));
    try {
      this.#texts.forEach((text, index) =>
        text.begin(asks.length === 1 ? asker : { ...asker, id: `${asker.id}-${index}` }, asks.length - 1 - index),
      );
    } catch (error) {
      this.cancel();
      throw error;
    }
  }

  /** Ends all texts without a further word. */
  cancel(): void {
    this.#over = true;
    for (const text of this.#texts) text.cancel();
  }

  /** What the texts took so far. A prompt that several share is counted once. */
  get usage(): Usage {
    // The first text of a prompt says what was there before the request.
    const prompts = this.#texts.filter(
      ({ ask }, at) => this.#texts.findIndex((text) => text.ask.prompt === ask.prompt) === at,
    );
    const sum = (counts: readonly number[]): number => counts.reduce((all, each) => all + each, 0);
    return {
      promptTokens: sum(prompts.map(({ ask }) => ask.prompt.length)),
      cachedTokens: sum(prompts.map(({ cachedTokens }) => cachedTokens)),
      completionTokens: sum(this.#texts.map(({ tokens }) => tokens)),
      reasoningTokens: sum(this.#texts.map(({ reasoningTokens }) => reasoningTokens)),
    };
  }

  #heard(index: number): OneTextListener {
    return {
      event: (event) => {
        if (!this.#over) this.#listener.event(index, event);
      },
      ended: () => {
        if (this.#over || --this.#open > 0) return;
        this.#over = true;
        this.#listener.done(this.usage);
      },
      failed: (error) => {
        if (this.#over) return;
        this.cancel();
        this.#listener.failed(error);
      },
    };
  }
}

interface OneTextListener {
  event(event: TextEvent): void;
  ended(): void;
  failed(error: Error): void;
}

/** One text: tokens in, events out. */
class OneText implements TextListener {
  readonly ask: RequestedText;
  readonly #tools: GroupTools;
  readonly #listener: OneTextListener;
  readonly #reader: ReplyReader | undefined;
  readonly #watch: TokenWatch;
  #running: RunningText | undefined;
  /** Tokens whose text is not certain yet. */
  #pending: ToldToken[] = [];
  #over = false;
  #hasCalled = false;
  #stop: string | undefined;
  tokens = 0;
  reasoningTokens = 0;
  cachedTokens = 0;

  constructor(ask: RequestedText, tools: GroupTools, listener: OneTextListener) {
    this.ask = ask;
    this.#tools = tools;
    this.#listener = listener;
    this.#reader = ask.reader?.();
    this.#watch = tools.watch();
  }

  begin({ id, tenant, salt, priority }: Asker, coming: number): void {
    const { decoder, markers, engine } = this.#tools;
    const spelled = this.#reader === undefined ? {} : { markers };
    const owner = { id, tenant, priority, coming, ...(salt === undefined ? {} : { salt }) };
    this.#running = engine.submit({ ...this.ask, ...owner, ...spelled, decoder }, this);
  }

  cancel(): void {
    if (this.#over) return;
    this.#running?.cancel();
    this.#close();
  }

  started({ cachedTokens }: { readonly cachedTokens: number }): void {
    this.cachedTokens = cachedTokens;
  }

  token({ token, text, logprob, top = [], stop }: MadeToken): "stop" | undefined {
    if (this.#over) return "stop";
    this.#stop = stop;
    if (this.tokens++ === 0) this.#watch.first();
    else this.#watch.next();
    if (this.ask.logprobs !== undefined) this.#pending.push({ token, logprob: logprob ?? 0, top });
    if (stop !== undefined) this.#dropBehind(text);
    const wasThinking = this.#isThinking;
    this.#tell(text);
    // The mark that ends thoughts is one of their tokens.
    if (wasThinking || this.#isThinking) this.reasoningTokens++;
    return this.#hasCalled && this.ask.isSingleCall === true ? "stop" : undefined;
  }

  /** Tokens that are the stop string are no part of the text, and so are not told: those stay with which all that is left of it is there. */
  #dropBehind(text: string): void {
    const tokens = this.#pending.map(({ token }) => token);
    const count = tokens.findIndex((_, at) => this.#tools.decoder.decode(tokens.slice(0, at)).length >= text.length);
    if (count >= 0) this.#pending.length = count;
  }

  ended(end: TextEnd, last?: MadeToken): void {
    if (this.#over) return;
    this.#tell(last?.text ?? "", true);
    this.#tellAll(this.#reader?.end() ?? []);
    const cut = end === "max-tokens" || end === "context-full";
    const reason = cut ? "length" : this.#reader !== undefined && this.#reader.calls > 0 ? "tool_calls" : "stop";
    this.#close();
    this.#watch.ended(reason);
    const stop = this.#stop === undefined ? {} : { stop: this.#stop };
    this.#listener.event({ kind: "finish", reason, ...stop });
    this.#listener.ended();
  }

  failed(error: Error): void {
    if (this.#over) return;
    this.#close();
    this.#listener.failed(error);
  }

  get #isThinking(): boolean {
    return this.#reader?.state === "reasoning";
  }

  #tell(text: string, last = false): void {
    if (text === "" && !(last && this.#pending.length > 0)) return;
    if (this.#reader === undefined) this.#content(text);
    else this.#tellAll(this.#reader.push(text));
  }

  #content(text: string): void {
    const tokens = this.#pending;
    this.#pending = [];
    this.#listener.event({ kind: "content", text, tokens });
  }

  /** Tokens are told with text alone, once it is known that they are some. */
  #tellAll(events: readonly DialogueEvent[]): void {
    for (const event of events) {
      if (event.kind === "text") this.#content(event.text);
      else if (event.kind === "call") this.#listener.event({ ...event, id: this.ask.callId?.() ?? newId("call_") });
      else if (event.kind !== "call-done") this.#listener.event(event);
      else {
        this.#hasCalled = true;
        if (this.ask.isSingleCall === true) break;
      }
    }
    if (this.#reader?.state !== "text") this.#pending = [];
  }

  /** Nothing is heard from here on, and what was held is free. */
  #close(): void {
    this.#over = true;
    this.ask.constraint?.release();
  }
}
