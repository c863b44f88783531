/** Reads one reply as it comes: thoughts at its beginning, calls and text behind them. */
import type { DialogueEvent } from "./events.js";
import type { Family, ThinkingMarks, ToolSpec } from "./family.js";
import { Reading, type Steps } from "./reading.js";

/** What is looked for in a reply. */
export interface ReaderParts {
  readonly family: Family | undefined;
  readonly thinking: ThinkingMarks | undefined;
  /** True if the prompt ends inside of thoughts. */
  readonly isThinking: boolean;
  /** The tools that may be called; undefined where calls are not looked for. */
  readonly tools: readonly ToolSpec[] | undefined;
}

/** One reply: pieces in, events out. However the pieces are cut, the events say the same. */
export class ReplyReader {
  readonly #reading: Reading;
  readonly #steps: Steps<void>;

  constructor(parts: ReaderParts) {
    this.#reading = new Reading(new Map((parts.tools ?? []).map(({ name, parameters }) => [name, parameters])));
    if (parts.isThinking) this.#reading.telling.reasoning("");
    this.#steps = readReply(this.#reading, parts);
  }

  /** How many calls have begun. */
  get calls(): number {
    return this.#reading.telling.calls;
  }

  /** What the reply is in right now. */
  get state(): "text" | "reasoning" | "call" {
    return this.#reading.telling.state;
  }

  /** What a piece of the reply tells. */
  push(text: string): DialogueEvent[] {
    this.#reading.feed(text);
    this.#steps.next();
    return this.#reading.telling.taken();
  }

  /** What is left at the reply's end. */
  end(): DialogueEvent[] {
    this.#reading.finish();
    this.#steps.next();
    // A call that was cut before it had a name is text.
    this.#reading.fail();
    this.#reading.telling.end();
    return this.#reading.telling.taken();
  }
}

function* readReply(reading: Reading, { family, thinking, isThinking, tools }: ReaderParts): Steps<void> {
  const { telling } = reading;
  const text = (piece: string): void => telling.text(piece);
  if (family?.reply !== undefined) return yield* family.reply(reading, tools !== undefined);
  const think = function* (): Steps<void> {
    if (thinking === undefined) return;
    telling.reasoning("");
    if ((yield* reading.until([thinking.end], (piece) => telling.reasoning(piece))) !== undefined) telling.text("");
  };
  /** Thoughts, where they come next. */
  const mayThink = function* (): Steps<void> {
    if (thinking === undefined) return;
    reading.open("");
    yield* reading.blanks();
    if ((yield* reading.literal([thinking.begin])) === undefined) return reading.fail();
    reading.drop();
    yield* think();
  };
  if (isThinking) yield* think();
  else yield* mayThink();
  const calling = tools === undefined ? undefined : family;
  if (calling?.bareCall !== undefined) {
    reading.open("");
    if (!(yield* calling.bareCall(reading))) reading.fail();
  }
  const dropped = thinking === undefined ? [] : (family?.dropped ?? []);
  const marks = [...(calling?.begins ?? []), ...dropped];
  for (;;) {
    const mark = yield* reading.until(marks, text);
    if (mark === undefined) return;
    if (dropped.includes(mark)) continue;
    reading.open(mark);
    yield* calling!.call(mark, reading);
    if (telling.state === "text" && telling.calls > 0) yield* mayThink();
  }
}
