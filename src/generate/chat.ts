/** A conversation of several turns on one context: each turn reads only what is new. Turns can be taken back. */
import { ChatTurns } from "./chat-turns.js";
import { InsituError } from "../base/error.js";
import { optionsWithoutNull } from "../base/arguments.js";
import type { Context } from "../engine/context.js";
import type { ContextPool, ContextSource, TakenContext } from "./context-pool.js";
import type { Generation } from "./generation.js";
import { type AnyChatMessage, type ChatMessage, checkMessages } from "./messages.js";
import { type GenerateOptions, generateOptionNames } from "./options.js";

/** Makes a generation for a conversation. */
type Answer = (messages: readonly AnyChatMessage[], options: GenerateOptions, source: ContextSource) => Generation;

/** A conversation. */
export class Chat {
  readonly #answer: Answer;
  readonly #source: OwnContext;
  readonly #options: GenerateOptions;
  readonly #turns: ChatTurns<Generation>;

  constructor(source: OwnContext, answer: Answer, turns: ChatTurns<Generation>, options: GenerateOptions) {
    this.#source = source;
    this.#answer = answer;
    this.#turns = turns;
    this.#options = options;
  }

  /** For language models: a conversation on a context of its own. */
  static open(pool: ContextPool, answer: Answer, opening: readonly AnyChatMessage[], options: GenerateOptions): Chat {
    return new Chat(new OwnContext(pool), answer, new ChatTurns(opening), options);
  }

  /** Everything said so far, answers in the making included. A message that was given in parts is there in parts. */
  get messages(): readonly ChatMessage[] {
    return this.#turns.messages;
  }

  /** How many times the user has spoken. */
  get turns(): number {
    return this.#turns.count;
  }

  /** Says something; the answer is made while it is iterated. The answer before must be finished or given up. */
  send(content: string | AnyChatMessage, options?: GenerateOptions): Generation {
    const message = typeof content === "string" ? { role: "user", content } : content;
    const messages = [...this.messages, message];
    checkMessages(messages);
    const given = { ...this.#options, ...optionsWithoutNull("the options of chat.send", options, generateOptionNames) };
    const reply = this.#answer(messages, given, this.#source);
    this.#turns.add(message, reply);
    return reply;
  }

  /** Takes back the last `count` turns: one where left out. */
  undo(count = 1): void {
    this.#turns.undo(count);
  }

  /** Goes back to the first `turns` turns: those after them are taken back. */
  rewindTo(turns: number): void {
    this.#turns.rewind(turns);
  }

  /** The former name of `rewindTo`. */
  rewind(turns: number): void {
    this.rewindTo(turns);
  }

  /**
   * A second conversation with the same turns: the two go on apart, and what they have in common is not read again. The answer before must be
   * finished or given up.
   */
  fork(): Chat {
    return new Chat(this.#source.fork(), this.#answer, this.#turns.fork(), this.#options);
  }

  /** Gives the caches back. */
  release(): void {
    this.#source.release();
  }
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
        "the answer before is still being made: finish it or leave its loop first",
      );
  }

  release(): void {
    if (this.#lent)
      throw new InsituError("invalid-state", "the answer is still being made: finish it or leave its loop first");
    this.#context?.release();
    this.#context = undefined;
  }
}
