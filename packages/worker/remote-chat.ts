/** A conversation with a model that a thread runs, as the page sees it: `Chat`'s names. Tools run here, not in the thread. */
import { optionsWithoutNull } from "#insitu/base/arguments.js";
import { warnOnce } from "#insitu/base/warn-once.js";
import { defaultRounds, messagesOf } from "#insitu/generate/chat.js";
import { type ChatOptions, chatOptionNames } from "#insitu/generate/chat-options.js";
import { ChatReply } from "#insitu/generate/chat-reply.js";
import { type ChatTools, toolSpecs } from "#insitu/generate/chat-tools.js";
import { ChatTurns } from "#insitu/generate/chat-turns.js";
import type { GenerationSummary } from "#insitu/generate/generation.js";
import { type AnyChatMessage, type ChatMessage, checkMessages } from "#insitu/generate/messages.js";
import { splitOptions } from "./crossing.js";
import type { Link } from "./link.js";
import { RemoteGeneration } from "./remote-generation.js";

/** An answer that a thread makes. */
export type RemoteReply = ChatReply<GenerationSummary | undefined>;

/** A conversation. */
export class RemoteChat {
  readonly #link: Link;
  readonly #chat: number;
  readonly #options: ChatOptions;
  readonly #turns: ChatTurns<RemoteReply>;

  private constructor(link: Link, chat: number, turns: ChatTurns<RemoteReply>, options: ChatOptions) {
    this.#link = link;
    this.#chat = chat;
    this.#turns = turns;
    this.#options = options;
  }

  /** For models: begins a conversation. */
  static open(link: Link, opening: readonly AnyChatMessage[], options: ChatOptions | undefined): RemoteChat {
    const given = optionsWithoutNull("the options of chat", options, chatOptionNames);
    const { plain } = splitOptions("the options of chat", crossingChat(given), chatOptionNames).options;
    const chat = link.next();
    link.send({ kind: "chat", chat, opening, options: plain });
    return new RemoteChat(link, chat, new ChatTurns(opening), given);
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
  send(content: string | AnyChatMessage | readonly AnyChatMessage[], options?: ChatOptions): RemoteReply {
    const said = messagesOf(content);
    checkMessages(said);
    const own = optionsWithoutNull("the options of chat.send", options, chatOptionNames);
    const given = { ...this.#options, ...own };
    const round = (messages: readonly AnyChatMessage[], of: ChatOptions): RemoteGeneration =>
      RemoteGeneration.begin(
        this.#link,
        "the options of chat.send",
        crossingChat(of),
        (stream, plain) =>
          this.#link.send({ kind: "send", stream, chat: this.#chat, message: messages, options: plain }),
        chatOptionNames,
      );
    let sent = 0;
    const reply: RemoteReply = new ChatReply({
      first: round(said, own),
      // The thread has what the model said; it is sent the results of its calls.
      ask: (more) => {
        const fresh = more.slice(sent).filter(({ role }) => role === "tool");
        sent = more.length;
        return round(fresh, { ...own, toolChoice: given.toolChoice === "none" ? "none" : "auto" });
      },
      tools: given.tools ?? {},
      maxRounds: given.maxRounds ?? defaultRounds,
      signal: given.signal,
    });
    this.#turns.add(said, reply);
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

  /**
   * A second conversation with the same turns: the two go on apart, and what they have in common is not read again. Where an answer is still being
   * made, the second one says so when it is used.
   */
  fork(): RemoteChat {
    const fork = this.#link.next();
    this.#link.send({ kind: "fork", chat: this.#chat, fork });
    return new RemoteChat(this.#link, fork, this.#turns.fork(), this.#options);
  }

  /** Gives the caches back. */
  release(): Promise<void> {
    return this.#link.ask("releaseChat", { chat: this.#chat });
  }
}

/** For models: options without what stays on this side: functions run here, and schemas cross as JSON. */
export function crossingChat(given: ChatOptions): ChatOptions {
  const { tools, maxRounds: _, ...options } = given;
  if (tools === undefined) return options;
  const plain = toolSpecs(tools).map(({ name, description, parameters, strict }) => [
    name,
    { parameters, strict: strict === true, ...(description === undefined ? {} : { description }) },
  ]);
  return { ...options, tools: Object.fromEntries(plain) as ChatTools };
}
