/** What was said in a conversation, turn by turn, wherever its answers are made. */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { AnyChatMessage, ChatMessage } from "./messages.js";

/** Messages and the answers to them, behind how the conversation opened. */
export class ChatTurns<Reply extends { readonly messages: readonly AnyChatMessage[] }> {
  readonly #opening: readonly AnyChatMessage[];
  /** Results of calls, and the answers to them, belong to the turn of the call. */
  readonly #turns: { readonly said: readonly AnyChatMessage[]; readonly reply: Reply }[][] = [];

  constructor(opening: readonly AnyChatMessage[]) {
    this.#opening = opening;
  }

  /** Everything said so far, answers in the making included. */
  get messages(): readonly ChatMessage[] {
    const said = this.#turns.flat().flatMap(({ said: given, reply }) => [...given, ...reply.messages]);
    return [...this.#opening, ...said] as readonly ChatMessage[];
  }

  /** The same turns, to go on from in another way. */
  fork(): ChatTurns<Reply> {
    const fork = new ChatTurns<Reply>(this.#opening);
    fork.#turns.push(...this.#turns);
    return fork;
  }

  get count(): number {
    return this.#turns.length;
  }

  add(said: readonly AnyChatMessage[], reply: Reply): void {
    const last = this.#turns.at(-1);
    if (last !== undefined && said[0]?.role === "tool") last.push({ said, reply });
    else this.#turns.push([{ said, reply }]);
  }

  /** Forgets the last `count` turns; how many are left. */
  undo(count: number): number {
    if (!Number.isInteger(count) || count < 0 || count > this.#turns.length)
      throw new InsituError(
        "invalid-argument",
        `the conversation has ${this.#turns.length} turns and cannot take back ${valueText(count)}`,
      );
    this.rewind(this.#turns.length - count);
    return this.#turns.length;
  }

  /** Forgets every turn after the first `turns`. */
  rewind(turns: number): void {
    if (!Number.isInteger(turns) || turns < 0 || turns > this.#turns.length)
      throw new InsituError(
        "invalid-argument",
        `the conversation has ${this.#turns.length} turns and cannot go back to ${valueText(turns)}`,
      );
    this.#turns.length = turns;
  }
}
