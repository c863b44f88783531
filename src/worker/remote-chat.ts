/** A conversation with a model that a thread runs, as the page sees it: `Chat`'s names. */
import { ChatTurns } from "../generate/chat-turns.js";
import { type AnyChatMessage, type ChatMessage, checkMessages } from "../generate/messages.js";
import { type GenerateOptions, generateOptionNames } from "../generate/options.js";
import { splitOptions } from "./crossing.js";
import type { Link } from "./link.js";
import { RemoteGeneration } from "./remote-generation.js";

/** A conversation. */
export class RemoteChat {
  readonly #link: Link;
  readonly #chat: number;
  readonly #turns: ChatTurns<RemoteGeneration>;

  private constructor(link: Link, chat: number, turns: ChatTurns<RemoteGeneration>) {
    this.#link = link;
    this.#chat = chat;
    this.#turns = turns;
  }

  /** For models: begins a conversation. */
  static open(link: Link, opening: readonly AnyChatMessage[], options: GenerateOptions | undefined): RemoteChat {
    const { plain } = splitOptions("the options of chat", options, generateOptionNames).options;
    const chat = link.next();
    link.send({ kind: "chat", chat, opening, options: plain });
    return new RemoteChat(link, chat, new ChatTurns(opening));
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
    const reply = RemoteGeneration.begin(this.#link, "the options of chat.send", options, (stream, plain) =>
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

  /** The former name of `rewindTo`. */
  rewind(turns: number): void {
    this.rewindTo(turns);
  }

  /**
   * A second conversation with the same turns: the two go on apart, and what they have in common is not read again. Where an answer is still being
   * made, the second one says so when it is used.
   */
  fork(): RemoteChat {
    const fork = this.#link.next();
    this.#link.send({ kind: "fork", chat: this.#chat, fork });
    return new RemoteChat(this.#link, fork, this.#turns.fork());
  }

  /** Gives the caches back. */
  release(): Promise<void> {
    return this.#link.ask("releaseChat", { chat: this.#chat });
  }
}
