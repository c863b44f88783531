/** A language model that a thread runs, and its conversations, as the page sees them: `CausalLM`'s names, without its blocking the page. */
import { warnOnce } from "../base/warn-once.js";
import { ChatTurns } from "../generate/chat-turns.js";
import type { LoadLanguageModelOptions } from "../generate/causal-lm.js";
import type { Prompt } from "../generate/prompt-items.js";
import { type AnyChatMessage, type ChatMessage, checkMessages } from "../generate/messages.js";
import { type GenerateOptions, generateOptionNames } from "../generate/options.js";
import type { EncodeOptions } from "../generate/tokenizer.js";
import { splitOptions } from "./crossing.js";
import { Link, type StartThread } from "./link.js";
import type { ModelFacts } from "./messages.js";
import { RemoteGeneration } from "./remote-generation.js";

/** A model in a thread of its own. */
export class RemoteModel {
  readonly #link: Link;
  readonly #facts: ModelFacts;

  protected constructor({ link, facts }: { readonly link: Link; readonly facts: ModelFacts }) {
    this.#link = link;
    this.#facts = facts;
  }

  /** Starts a thread and loads the model there; the thread ends where that fails. */
  protected static async prepare(
    start: StartThread,
    source: string | object | undefined,
    options: LoadLanguageModelOptions | undefined,
    base: string | undefined,
  ): Promise<{ readonly link: Link; readonly facts: ModelFacts }> {
    const split = splitOptions("the options of CausalLM.load", options);
    const link = new Link(start);
    try {
      if (base !== undefined) link.send({ kind: "base", url: base });
      const given = { source: source instanceof URL ? source.href : source, options: split.options };
      return { link, facts: await link.ask("loadModel", given, { listeners: split.listeners }) };
    } catch (error) {
      link.end();
      throw error;
    }
  }

  /** The backend that runs it: where it was loaded with backend "auto", the one that was found. */
  get backend(): string {
    return this.#facts.backend;
  }

  /** Tokens that prompt and text may take together. */
  get contextLength(): number {
    return this.#facts.contextLength;
  }

  /** How many tokens there are to choose from. */
  get vocabulary(): number {
    return this.#facts.vocabulary;
  }

  /** config.json. */
  get config(): Readonly<Record<string, unknown>> {
    return this.#facts.config;
  }

  /** True if messages are written by the model's own template. */
  get hasChatTemplate(): boolean {
    return this.#facts.hasChatTemplate;
  }

  /** Continues a prompt: iterate over the result for tokens with their text. What is wrong with a prompt is told there. */
  generate(prompt: Prompt, options?: GenerateOptions): RemoteGeneration {
    return new RemoteGeneration(this.#link, "the options of generate", options, (stream, plain) =>
      this.#link.send({ kind: "generate", stream, prompt, options: plain }),
    );
  }

  /** A conversation of several turns; `opening` is what was said before, a system message for one. */
  chat(opening?: readonly AnyChatMessage[], options?: GenerateOptions): RemoteChat {
    checkMessages(opening ?? []);
    return new RemoteChat(this.#link, opening ?? [], options);
  }

  /** The tokens of a text. */
  encode(text: string, options?: EncodeOptions): Promise<readonly number[]> {
    return this.#link.ask("encode", { text, options });
  }

  /** The text of tokens. */
  decode(tokens: readonly number[]): Promise<string> {
    return this.#link.ask("decode", { tokens: [...tokens] });
  }

  /** The plan that runs the model, as text. */
  explain(): Promise<string> {
    return this.#link.ask("explain", {});
  }

  /** Lets go of the model and ends its thread. */
  release(): Promise<void> {
    return this.#link.release();
  }
}

/** A conversation. */
export class RemoteChat {
  readonly #link: Link;
  readonly #chat: number;
  readonly #turns: ChatTurns<RemoteGeneration>;

  constructor(link: Link, opening: readonly AnyChatMessage[], options: GenerateOptions | undefined) {
    const { plain } = splitOptions("the options of chat", options, generateOptionNames).options;
    this.#link = link;
    this.#chat = link.next();
    this.#turns = new ChatTurns(opening);
    link.send({ kind: "chat", chat: this.#chat, opening, options: plain });
  }

  /** Everything said so far, answers in the making included. */
  get messages(): readonly ChatMessage[] {
    return this.#turns.messages;
  }

  /** How many times the user has spoken. */
  get turns(): number {
    return this.#turns.count;
  }

  /** Says something; the answer is made while it is iterated. The answer before must be finished or given up. */
  send(content: string | AnyChatMessage, options?: GenerateOptions): RemoteGeneration {
    const message = typeof content === "string" ? { role: "user", content } : content;
    checkMessages([message]);
    const chat = this.#chat;
    const reply = new RemoteGeneration(this.#link, "the options of chat.send", options, (stream, plain) =>
      this.#link.send({ kind: "send", stream, chat, message, options: plain }),
    );
    this.#turns.add(message, reply);
    return reply;
  }

  /** Takes back the last `count` turns: one where left out. */
  undo(count = 1): void {
    this.#link.send({ kind: "rewind", chat: this.#chat, turns: this.#turns.undo(count) });
  }

  /** Goes back to the first `turns` turns: those after them are taken back. */
  rewindTo(turns: number): void {
    this.#turns.rewind(turns);
    this.#link.send({ kind: "rewind", chat: this.#chat, turns });
  }

  /** @deprecated The former name of `rewindTo`, which goes with the next version. */
  rewind(turns: number): void {
    warnOnce("chat.rewind", "chat.rewind is called chat.rewindTo; chat.undo takes back the last turns");
    this.rewindTo(turns);
  }

  /** Gives the caches back. */
  release(): Promise<void> {
    return this.#link.ask("releaseChat", { chat: this.#chat });
  }
}
