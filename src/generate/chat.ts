/** A conversation of several turns on one context: each turn reads only what is new. Turns can be taken back. */
import { ChatTurns } from "./chat-turns.js";
import { InsituError } from "../base/error.js";
import { optionsWithoutNull } from "../base/arguments.js";
import { warnOnce } from "../base/warn-once.js";
import type { Context } from "../engine/context.js";
import { type ChatOptions, chatOptionNames, checkChatOptions } from "./chat-options.js";
import { ChatReply } from "./chat-reply.js";
import type { Round } from "./chat-round.js";
import type { GenerationSummary } from "./generation.js";
import type { ContextPool, ContextSource, TakenContext } from "./context-pool.js";
import { type AnyChatMessage, type ChatMessage, checkMessages } from "./messages.js";

/** Makes a reply to a conversation. */
export type MakeRound = (
  messages: readonly AnyChatMessage[],
  options: ChatOptions,
  source: ContextSource,
) => Round<GenerationSummary>;

/** Rounds of calls where nobody says. */
export const defaultRounds = 8;

/** A conversation of several turns. Each turn reads only what is new. `lm.chat` makes one. */
export class Chat {
  readonly #round: MakeRound;
  readonly #source: OwnContext;
  readonly #options: ChatOptions;
  readonly #turns: ChatTurns<ChatReply>;

  constructor(source: OwnContext, round: MakeRound, turns: ChatTurns<ChatReply>, options: ChatOptions) {
    this.#source = source;
    this.#round = round;
    this.#turns = turns;
    this.#options = options;
  }

  /** For language models: a conversation on a context of its own. */
  static open(pool: ContextPool, round: MakeRound, opening: readonly AnyChatMessage[], options: ChatOptions): Chat {
    return new Chat(new OwnContext(pool), round, new ChatTurns(opening), options);
  }

  /** All messages so far, with the answer that is being generated. */
  get messages(): readonly ChatMessage[] {
    return this.#turns.messages;
  }

  /** How many turns there are: how often `send` was called. */
  get turns(): number {
    return this.#turns.count;
  }

  /**
   * Sends a message. The answer is generated while you iterate over it. The answer before must be finished or abandoned. Results of tool
   * calls that you run yourself are messages of the role "tool", all of them in one call.
   * @throws InsituError `invalid-state` while another answer is being generated, `invalid-argument` for invalid messages or options.
   */
  send(content: string | AnyChatMessage | readonly AnyChatMessage[], options?: ChatOptions): ChatReply {
    const said = messagesOf(content);
    const given = { ...this.#options, ...optionsWithoutNull("the options of chat.send", options, chatOptionNames) };
    checkMessages([...this.messages, ...said]);
    checkChatOptions(given);
    const reply = replyTo([...this.messages, ...said], given, (messages, of) =>
      this.#round(messages, of, this.#source),
    );
    this.#turns.add(said, reply);
    return reply;
  }

  /** Takes back the last `count` turns, one by default. */
  undo(count = 1): void {
    this.#turns.undo(count);
  }

  /** Keeps the first `turns` turns and takes back those after them. */
  rewindTo(turns: number): void {
    this.#turns.rewind(turns);
  }

  /**
   * Keeps the first `turns` turns.
   * @deprecated The former name of `rewindTo`. The next version removes it.
   */
  rewind(turns: number): void {
    warnOnce("chat.rewind", "chat.rewind is called chat.rewindTo; chat.undo takes back the last turns");
    this.rewindTo(turns);
  }

  /**
   * Makes a second conversation with the same turns. What they have in common is not read again. The answer before must be finished or
   * abandoned.
   */
  fork(): Chat {
    return new Chat(this.#source.fork(), this.#round, this.#turns.fork(), this.#options);
  }

  /** Frees the cache of the conversation. */
  release(): void {
    this.#source.release();
  }
}

/** The answer to messages, round by round. What is wrong with a message is told at once, not when its answer is iterated. */
export function replyTo<Summary>(
  messages: readonly AnyChatMessage[],
  options: ChatOptions,
  round: (messages: readonly AnyChatMessage[], options: ChatOptions) => Round<Summary>,
): ChatReply<Summary> {
  const { toolChoice, ...later } = options;
  return new ChatReply({
    first: round(messages, options),
    ask: (more) => round([...messages, ...more], toolChoice === "none" ? options : later),
    tools: options.tools ?? {},
    maxRounds: options.maxRounds ?? defaultRounds,
    signal: options.signal,
  });
}

/** What a chat opens with, and its options: either may be left out. */
export function chatArguments(
  opening: readonly AnyChatMessage[] | ChatOptions | undefined,
  options: ChatOptions | undefined,
): readonly [readonly AnyChatMessage[], ChatOptions | undefined] {
  const isOptions = options === undefined && typeof opening === "object" && opening !== null && !Array.isArray(opening);
  if (isOptions) return [[], opening as ChatOptions];
  return [(opening ?? []) as readonly AnyChatMessage[], options];
}

/** What is said, as messages. */
export function messagesOf(content: string | AnyChatMessage | readonly AnyChatMessage[]): readonly AnyChatMessage[] {
  if (typeof content === "string") return [{ role: "user", content }];
  return Array.isArray(content) ? (content as readonly AnyChatMessage[]) : [content as AnyChatMessage];
}

/** One context of its own, lent to one generation at a time. */
class OwnContext implements ContextSource {
  readonly #pool: ContextPool;
  #context: Context | undefined;
  #lent = false;

  constructor(pool: ContextPool, context?: Context) {
    this.#pool = pool;
    this.#context = context;
  }

  /** Another one with the same contents. What has slid is read anew. */
  fork(): OwnContext {
    this.#requireFree();
    return new OwnContext(this.#pool, this.#context?.slid === false ? this.#context.fork() : undefined);
  }

  take(prompt: readonly number[]): TakenContext {
    this.#requireFree();
    const before = this.#context;
    // Where it fails, what there was is let go of.
    this.#context = undefined;
    const taken = this.#pool.prepare(before, prompt);
    this.#context = taken.context;
    this.#lent = true;
    return taken;
  }

  give(): void {
    this.#lent = false;
  }

  #requireFree(): void {
    if (this.#lent)
      throw new InsituError(
        "invalid-state",
        "the previous answer is still being generated: finish it or leave its loop first",
      );
  }

  release(): void {
    if (this.#lent)
      throw new InsituError("invalid-state", "the answer is still being generated: finish it or leave its loop first");
    this.#context?.release();
    this.#context = undefined;
  }
}
