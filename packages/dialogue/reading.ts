/**
 * A reply that comes in pieces, read as if it were whole: families write what they read as generators, which stop where more must come first. What
 * they decide never depends on where the pieces were cut. Text of a call that turns out to be none is kept, and told as text.
 */
import type { JsonSchema } from "#insitu/choice/constraint.js";
import { typesOf, withoutControls } from "./argument-types.js";
import { CallScanner } from "./call-scanner.js";
import { Telling } from "./events.js";

/** Work that stops while more text must come. */
export type Steps<T> = Generator<void, T, void>;

/** A mark that ends a text. */
export interface TextEnd {
  readonly mark: string;
  /** What must come behind it, but for blanks, unless the reply ends there: elsewhere it is part of the text. Anything where left out. */
  readonly before?: readonly string[];
  /** True if the mark is not taken: it begins something else. It ends no text right at its beginning. */
  readonly stays?: boolean;
}

/** The longest name of a function, or of a parameter. */
const mostName = 256;

/** One reply on its way through a family's reader. */
export class Reading {
  readonly telling: Telling = new Telling();
  /** The schemas of arguments, by function. */
  readonly schemas: ReadonlyMap<string, JsonSchema>;
  #held = "";
  #ended = false;
  /** What was read of a call that has no name yet. */
  #record: string | undefined;

  constructor(schemas: ReadonlyMap<string, JsonSchema>) {
    this.schemas = schemas;
  }

  /** The types that a function's schema gives to an argument; none where it does not say. */
  typesOf(name: string, argument: string): ReadonlySet<string> {
    return typesOf(this.schemas.get(name) ?? true, argument);
  }

  feed(text: string): void {
    this.#held += text;
  }

  finish(): void {
    this.#ended = true;
  }

  /** What comes next, without taking it. */
  get next(): string {
    return this.#held;
  }

  /** Takes characters that are there. */
  take(count: number): string {
    const taken = this.#held.slice(0, count);
    this.#held = this.#held.slice(count);
    if (this.#record !== undefined) this.#record += taken;
    return taken;
  }

  /** Waits until so many characters are there; false where the reply ends before. */
  *need(count: number): Steps<boolean> {
    while (this.#held.length < count && !this.#ended) yield;
    return this.#held.length >= count;
  }

  /** Takes one of these marks if it comes next. */
  *literal(marks: readonly string[]): Steps<string | undefined> {
    for (;;) {
      const found = marks.find((mark) => this.#held.startsWith(mark));
      if (found !== undefined) return this.take(found.length);
      if (!marks.some((mark) => mark.startsWith(this.#held))) return undefined;
      if (this.#ended) {
        // Behind a call, a mark that was cut is no text.
        if (this.telling.calls > 0) this.#held = "";
        return undefined;
      }
      yield;
    }
  }

  /** Tells text up to the first of these marks, and takes that; undefined at the end of the reply. */
  *until(marks: readonly string[], tell: (text: string) => void): Steps<string | undefined> {
    for (;;) {
      const found = firstOf(this.#held, marks);
      if (found !== undefined) {
        tell(this.take(found.at));
        return this.take(found.mark.length);
      }
      if (this.#ended) {
        tell(this.take(this.#held.length));
        return undefined;
      }
      this.#tellCertain(marks, tell);
      yield;
    }
  }

  /** Tells text up to the first of these ends; false where the reply ends before. */
  *textTo(ends: readonly TextEnd[], tell: (text: string) => void): Steps<boolean> {
    const marks = ends.map(({ mark }) => mark);
    let isBegun = false;
    const say = (text: string): void => {
      isBegun ||= text !== "";
      tell(text);
    };
    for (;;) {
      const found = firstOf(this.#held, marks);
      if (found === undefined) {
        if (this.#ended) {
          say(this.take(this.#held.length));
          return false;
        }
        this.#tellCertain(marks, say);
        yield;
        continue;
      }
      say(this.take(found.at));
      const { before, stays } = ends[marks.indexOf(found.mark)];
      const after = this.#held.slice(found.mark.length).trimStart();
      const mayEnd = stays !== true || isBegun;
      if (
        mayEnd &&
        (before === undefined || before.some((each) => after.startsWith(each)) || (this.#ended && after === ""))
      ) {
        if (stays !== true) this.take(found.mark.length);
        return true;
      }
      if (mayEnd && !this.#ended && before?.some((each) => each.startsWith(after)) === true) yield;
      else say(this.take(1));
    }
  }

  /** Tells what is no beginning of one of these marks. Half of a surrogate pair waits for the other. */
  #tellCertain(marks: readonly string[], tell: (text: string) => void): void {
    const certain = this.#held.length - Math.max(0, ...marks.map((mark) => overlap(this.#held, mark)));
    tell(this.take(/[\uD800-\uDBFF]/.test(this.#held[certain - 1] ?? "") ? certain - 1 : certain));
  }

  /** The text up to one of these marks, which is taken too; undefined where the reply ends before. */
  *textUntil(...marks: readonly string[]): Steps<string | undefined> {
    let text = "";
    const mark = yield* this.until(marks, (piece) => (text += piece));
    return mark === undefined ? undefined : text;
  }

  /** Takes characters as long as they are of a kind. */
  *run(kind: RegExp, most: number = Infinity): Steps<string> {
    let text = "";
    while (yield* this.need(1)) {
      let count = 0;
      while (count < this.#held.length && kind.test(this.#held[count]) && text.length + count < most) count++;
      text += this.take(count);
      if (this.#held !== "") break;
    }
    return text;
  }

  *blanks(): Steps<void> {
    yield* this.run(/\s/);
  }

  /** The name of a function; empty where none comes. */
  name(): Steps<string> {
    return this.run(/[\w.:/-]/, mostName);
  }

  /** One JSON value as it is written; false where it is none, or is cut. */
  *json(tell: (text: string) => void): Steps<boolean> {
    yield* this.blanks();
    if (!(yield* this.need(1))) return false;
    if (!'{["'.includes(this.#held[0])) {
      const word = yield* this.run(/[-+.\w]/, mostName);
      tell(word);
      return isJson(word);
    }
    let [depth, inString, escaped] = [0, false, false];
    for (;;) {
      let text = "";
      for (let at = 0; at < this.#held.length; at++) {
        const character = this.#held[at];
        text += inString ? withoutControls(character) : character;
        if (inString) {
          if (character === '"' && !escaped) inString = false;
          escaped = character === "\\" && !escaped;
        } else if (character === '"') [inString, escaped] = [true, false];
        else if ("{[".includes(character)) depth++;
        else if ("}]".includes(character)) depth--;
        if (depth > 0 || inString) continue;
        this.take(at + 1);
        tell(text);
        return true;
      }
      this.take(this.#held.length);
      tell(text);
      if (this.#ended) return false;
      yield;
    }
  }

  /** A call may begin here, behind a mark that was taken. */
  open(mark: string): void {
    this.#record = mark;
  }

  /** The call has a name: it is one. */
  begin(name: string): void {
    this.#record = undefined;
    this.telling.call(name);
  }

  /** The call's arguments are whole. */
  done(): void {
    this.telling.callDone();
  }

  /** This is no call, or broke: what has no name yet is text. */
  fail(): void {
    const text = this.#record;
    this.#record = undefined;
    if (text !== undefined) this.telling.text(text);
  }

  /** What was read stands for itself, and is not told. */
  drop(): void {
    this.#record = undefined;
  }

  /** `{"name": …, "arguments": {…}}`; false where it is none, or broke, or names no tool where it must name one. */
  *namedJson(mustBeKnown: boolean): Steps<boolean> {
    let isNone = false;
    const scanner = new CallScanner({
      name: (name) => {
        if (mustBeKnown && !this.schemas.has(name)) isNone = true;
        else this.begin(name);
      },
      arguments: (text) => {
        if (!isNone) this.telling.arguments(text);
      },
    });
    for (;;) {
      this.take(scanner.push(this.#held));
      if (isNone) return false;
      if (scanner.done) this.done();
      if (scanner.done || scanner.bad || this.#ended) return scanner.done;
      yield;
    }
  }

  /** Such objects, one after the other or in a list, which may have begun, up to an end mark where there is one. An empty list is no text. */
  *namedJsons(ends: readonly string[], mustBeKnown: boolean = false, isBegun: boolean = false): Steps<void> {
    yield* this.blanks();
    const isList = isBegun || (yield* this.literal(["["])) !== undefined;
    for (let count = 0; ; count++) {
      if (count > 0) this.open("");
      yield* this.run(count > 0 ? /[\s,;]/ : /\s/);
      const isClosed = isList && (yield* this.literal(["]"])) !== undefined;
      if (isClosed) yield* this.blanks();
      if ((count > 0 || isClosed) && ((yield* this.literal(ends)) !== undefined || isClosed)) return this.drop();
      if (!(yield* this.need(1)) || this.#held[0] !== "{") return this.fail();
      if (!(yield* this.namedJson(mustBeKnown))) return this.fail();
    }
  }

  /** The arguments of a call of this name, as JSON. */
  *jsonArguments(name: string): Steps<boolean> {
    yield* this.blanks();
    if (name === "" || !(yield* this.need(1)) || this.#held[0] !== "{") {
      this.fail();
      return false;
    }
    this.begin(name);
    const isWhole = yield* this.json((text) => this.telling.arguments(text));
    if (isWhole) this.done();
    return isWhole;
  }
}

/** Where the first of some marks stands; of two at one place the longer. */
function firstOf(text: string, marks: readonly string[]): { readonly at: number; readonly mark: string } | undefined {
  let first: { readonly at: number; readonly mark: string } | undefined;
  for (const mark of marks) {
    const at = text.indexOf(mark);
    if (at < 0 || (first !== undefined && (at > first.at || (at === first.at && mark.length < first.mark.length))))
      continue;
    first = { at, mark };
  }
  return first;
}

/** The length of the longest end of `text` that `mark` begins with, without being it. */
function overlap(text: string, mark: string): number {
  for (let length = Math.min(text.length, mark.length - 1); length > 0; length--)
    if (text.endsWith(mark.slice(0, length))) return length;
  return 0;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
