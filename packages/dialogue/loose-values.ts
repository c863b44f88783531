/** Values that are nearly JSON, as Python and some families write them: other quotes, bare names, True and None. What is told is JSON. */
import { insideString } from "./arguments.js";
import type { Reading, Steps } from "./reading.js";

/** How deep values may lie in one another. */
const mostDepth = 64;

const words: Readonly<Record<string, string>> = { True: "true", False: "false", None: "null" };

const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", "0": "\0", "\n": "" };

/** Reads values of one style. */
export class LooseValues {
  readonly #reading: Reading;
  readonly #tell: (text: string) => void;
  /** Marks that stand on either side of a text in which nothing is escaped. */
  readonly #marks: readonly string[];

  constructor(reading: Reading, tell: (text: string) => void, marks: readonly string[] = []) {
    this.#reading = reading;
    this.#tell = tell;
    this.#marks = marks;
  }

  /** One value; false where there is none, or it is cut. */
  *value(depth = 0): Steps<boolean> {
    const reading = this.#reading;
    yield* reading.blanks();
    const mark = yield* reading.literal(this.#marks);
    if (mark !== undefined) return yield* this.#marked(mark);
    if (!(yield* reading.need(1)) || depth > mostDepth) return false;
    const first = reading.next[0];
    if (first === '"' || first === "'") return yield* this.#quoted(reading.take(1));
    if (first === "[" || first === "(") return yield* this.#list(reading.take(1) === "[" ? "]" : ")", depth);
    if (first === "{") return yield* this.#object(depth);
    const word = yield* reading.run(/[^\s,\]})<]/);
    const spelled = words[word] ?? word;
    this.#tell(
      /^(true|false|null|-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?)$/.test(spelled) ? spelled : JSON.stringify(word),
    );
    return word !== "";
  }

  *#marked(mark: string): Steps<boolean> {
    this.#tell('"');
    const end = yield* this.#reading.until([mark], (text) => this.#tell(insideString(text)));
    if (end !== undefined) this.#tell('"');
    return end !== undefined;
  }

  *#quoted(quote: string): Steps<boolean> {
    const reading = this.#reading;
    this.#tell('"');
    for (;;) {
      const end = yield* reading.until([quote, "\\"], (text) => this.#tell(insideString(text)));
      if (end === undefined) return false;
      if (end === quote) break;
      if (!(yield* reading.need(1))) return false;
      const letter = reading.take(1);
      const digits = letter === "x" ? 2 : letter === "u" ? 4 : 0;
      if (digits > 0 && !(yield* reading.need(digits))) return false;
      // Halves of pairs are written as they came: together they are one character again.
      if (digits > 0) this.#tell(`\\u${reading.take(digits).padStart(4, "0")}`);
      else this.#tell(insideString(escapes[letter] ?? letter));
    }
    this.#tell('"');
    return true;
  }

  *#list(close: string, depth: number): Steps<boolean> {
    this.#tell("[");
    for (let count = 0; ; count++) {
      yield* this.#reading.run(/[\s,]/);
      if ((yield* this.#reading.literal([close])) !== undefined) break;
      if (count > 0) this.#tell(", ");
      if (!(yield* this.value(depth + 1))) return false;
    }
    this.#tell("]");
    return true;
  }

  *#object(depth: number): Steps<boolean> {
    this.#reading.take(1);
    this.#tell("{");
    const isWhole = yield* this.members("}", ":", depth);
    if (isWhole) this.#tell("}");
    return isWhole;
  }

  /** Names and their values up to what closes them, which is taken. */
  *members(close: string, separator: string, depth = 0): Steps<boolean> {
    const reading = this.#reading;
    for (let count = 0; ; count++) {
      yield* reading.run(/[\s,]/);
      if ((yield* reading.literal([close])) !== undefined) return true;
      if (count > 0) this.#tell(", ");
      if (!(yield* this.#key())) return false;
      yield* reading.blanks();
      if ((yield* reading.literal([separator])) === undefined) return false;
      this.#tell(": ");
      if (!(yield* this.value(depth + 1))) return false;
    }
  }

  *#key(): Steps<boolean> {
    const reading = this.#reading;
    const mark = yield* reading.literal(this.#marks);
    if (mark !== undefined) return yield* this.#marked(mark);
    if (!(yield* reading.need(1))) return false;
    if (`"'`.includes(reading.next[0])) return yield* this.#quoted(reading.take(1));
    const name = yield* reading.run(/[\w.$-]/, 256);
    this.#tell(JSON.stringify(name));
    return name !== "";
  }
}

/** `name(key=value, …)`, behind the name and its parenthesis. */
export function* pythonArguments(reading: Reading, name: string): Steps<boolean> {
  reading.begin(name);
  const tell = (text: string): void => reading.telling.arguments(text);
  tell("{");
  if (!(yield* new LooseValues(reading, tell).members(")", "="))) return false;
  tell("}");
  reading.done();
  return true;
}
