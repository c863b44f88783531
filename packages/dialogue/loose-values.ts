/** Values that are nearly JSON, as Python and some families write them: other quotes, bare names, True and None. What is told is JSON. */
import { insideString } from "./argument-types.js";
import { jsonOf } from "./value-json.js";
import { Reading, type Steps } from "./reading.js";

/** How deep values may lie in one another. */
const mostDepth = 64;

const words: Readonly<Record<string, string>> = { True: "true", False: "false", None: "null" };

/** Letters behind a backslash, as in Python; the slash as in JSON. Others stay as they are, with the backslash. */
const escapes: ReadonlyMap<string, string> = new Map(
  Object.entries({
    n: "\n",
    t: "\t",
    r: "\r",
    b: "\b",
    f: "\f",
    a: "\x07",
    v: "\v",
    "\n": "",
    "\\": "\\",
    "/": "/",
    "'": "'",
    '"': '"',
  }),
);

/** How many digits an escape has. */
const escapeDigits: ReadonlyMap<string, number> = new Map([
  ["x", 2],
  ["u", 4],
  ["U", 8],
]);

const anyTypes: ReadonlySet<string> = new Set();
/** What a bare word may be. */
const wordTypes: ReadonlySet<string> = new Set(["boolean", "null", "number", "string"]);

/** What may come behind a text in quotes. A quote before anything else is part of the text: models forget to escape it. */
const behindValue = ",)]}";
const behindKey = ":,}";

/** How values are written. */
interface LooseStyle {
  /** Marks that stand on either side of a text in which nothing is escaped. */
  readonly marks?: readonly string[];
  /** The types of arguments, by name; none where they are not known. */
  readonly types?: (name: string) => ReadonlySet<string>;
}

/** Reads values of one style. */
export class LooseValues {
  readonly #reading: Reading;
  readonly #marks: readonly string[];
  readonly #types: (name: string) => ReadonlySet<string>;
  #tell: (text: string) => void;

  constructor(reading: Reading, tell: (text: string) => void, { marks = [], types }: LooseStyle = {}) {
    this.#reading = reading;
    this.#tell = tell;
    this.#marks = marks;
    this.#types = types ?? (() => anyTypes);
  }

  /** One value; false where there is none, or it is cut. One that is not of its types is made so, where it can be. */
  *value(depth: number = 0, types: ReadonlySet<string> = anyTypes): Steps<boolean> {
    const reading = this.#reading;
    yield* reading.blanks();
    const mark = yield* reading.literal(this.#marks);
    if (mark !== undefined) return yield* this.#typed(types, () => this.#marked(mark));
    if (!(yield* reading.need(1)) || depth > mostDepth) return false;
    const first = reading.next[0];
    if ("rRbBuUfF".includes(first)) yield* reading.need(3);
    const [opened, prefix] = /^([rbuf]{0,2})["']/i.exec(reading.next) ?? [];
    if (opened !== undefined) {
      reading.take(prefix.length);
      return yield* this.#typed(types, () => this.#quoted(behindValue, /r/i.test(prefix)));
    }
    if (first === "[" || first === "(") {
      reading.take(1);
      this.#tell("[");
      return yield* this.#elements(first === "[" ? "]" : ")", depth);
    }
    if (first === "{") return yield* this.#object(depth);
    const word = yield* reading.run(/[^\s,\]})<]/);
    this.#tell(words[word] ?? jsonOf(word, types.size > 0 ? types : wordTypes));
    return word !== "";
  }

  /** A text, told as it comes where it may be one, and otherwise once it is whole. */
  *#typed(types: ReadonlySet<string>, read: () => Steps<boolean>): Steps<boolean> {
    if (types.size === 0 || types.has("string")) return yield* read();
    const [isWhole, written] = yield* this.#apart(read);
    this.#tell(isWhole ? jsonOf(textIn(written), types, looseJson) : written);
    return isWhole;
  }

  /** What is told meanwhile, without telling it. */
  *#apart(read: () => Steps<boolean>): Steps<readonly [isWhole: boolean, written: string]> {
    const tell = this.#tell;
    let written = "";
    this.#tell = (text) => void (written += text);
    const isWhole = yield* read();
    this.#tell = tell;
    return [isWhole, written];
  }

  *#marked(mark: string): Steps<boolean> {
    this.#tell('"');
    const end = yield* this.#reading.until([mark], (text) => this.#tell(insideString(text)));
    if (end !== undefined) this.#tell('"');
    return end !== undefined;
  }

  *#quoted(behind: string, isRaw: boolean): Steps<boolean> {
    const reading = this.#reading;
    yield* reading.need(3);
    const quote = reading.take(/^("""|''')/.test(reading.next) ? 3 : 1);
    this.#tell('"');
    for (;;) {
      const marks = isRaw ? [quote] : [quote, "\\"];
      const end = yield* reading.until(marks, (text) => this.#tell(insideString(text)));
      if (end === undefined) return false;
      if (end === "\\") yield* this.#escape();
      else if (quote.length === 3 || (yield* this.#comes(behind))) break;
      else this.#tell(insideString(quote));
    }
    this.#tell('"');
    return true;
  }

  /** True if one of these comes next, but for blanks, or the end. */
  *#comes(characters: string): Steps<boolean> {
    for (;;) {
      const [next] = this.#reading.next.trimStart();
      if (next !== undefined) return characters.includes(next);
      if (!(yield* this.#reading.need(this.#reading.next.length + 1))) return true;
    }
  }

  *#escape(): Steps<void> {
    const reading = this.#reading;
    if (!(yield* reading.need(1))) return;
    const letter = reading.take(1);
    const count = escapeDigits.get(letter) ?? (/[0-7]/.test(letter) ? 2 : 0);
    yield* reading.need(count);
    const given = reading.next.slice(0, count);
    const octal = /^[0-7]/.test(letter) ? letter + /^[0-7]*/.exec(given)![0] : undefined;
    const code = octal === undefined ? parseInt(given, 16) : parseInt(octal, 8);
    if (octal !== undefined) reading.take(octal.length - 1);
    else if (count === 0) return this.#tell(insideString(escapes.get(letter) ?? `\\${letter}`));
    else if (given.length < count || !/^[\da-f]+$/i.test(given) || code > 0x10ffff)
      return this.#tell(insideString(`\\${letter}`));
    else reading.take(count);
    // Halves of pairs are written as they came: together they are one character again.
    const units = [...Array(String.fromCodePoint(code).length).keys()].map((at) =>
      String.fromCodePoint(code).charCodeAt(at).toString(16).padStart(4, "0"),
    );
    this.#tell(units.map((unit) => `\\u${unit}`).join(""));
  }

  /** What is in a list behind its first `count` elements, and what closes it. */
  *#elements(close: string, depth: number, first = 0): Steps<boolean> {
    for (let count = first; ; count++) {
      yield* this.#reading.run(/[\s,]/);
      if ((yield* this.#reading.literal([close])) !== undefined) break;
      if (count > 0) this.#tell(", ");
      if (!(yield* this.value(depth + 1))) return false;
    }
    this.#tell("]");
    return true;
  }

  /** An object, or a set, which is a list. */
  *#object(depth: number): Steps<boolean> {
    const reading = this.#reading;
    reading.take(1);
    yield* reading.blanks();
    if ((yield* reading.literal(["}"])) !== undefined) {
      this.#tell("{}");
      return true;
    }
    const [isKey, key] = yield* this.#apart(() => this.#key());
    if (!isKey) return false;
    yield* reading.blanks();
    const isObject = (yield* reading.literal([":"])) !== undefined;
    this.#tell(isObject ? `{${key}: ` : `[${key}`);
    if (!isObject) return yield* this.#elements("}", depth, 1);
    if (!(yield* this.value(depth + 1)) || !(yield* this.members("}", ":", depth + 1, 1))) return false;
    this.#tell("}");
    return true;
  }

  /** Names and their values, behind the first of them, up to what closes them, which is taken. */
  *members(close: string, separator: string, depth = 0, first = 0): Steps<boolean> {
    const reading = this.#reading;
    for (let count = first; ; count++) {
      yield* reading.run(/[\s,]/);
      if ((yield* reading.literal([close])) !== undefined) return true;
      const [isKey, key] = yield* this.#apart(() => this.#key());
      if (!isKey) return false;
      yield* reading.blanks();
      if ((yield* reading.literal([separator])) === undefined) return false;
      this.#tell(`${count > 0 ? ", " : ""}${key}: `);
      if (!(yield* this.value(depth + 1, depth === 0 ? this.#types(textIn(key)) : anyTypes))) return false;
    }
  }

  *#key(): Steps<boolean> {
    const reading = this.#reading;
    const mark = yield* reading.literal(this.#marks);
    if (mark !== undefined) return yield* this.#marked(mark);
    if (!(yield* reading.need(1))) return false;
    if (`"'`.includes(reading.next[0])) return yield* this.#quoted(behindKey, false);
    const name = yield* reading.run(/[\w.$-]/, 256);
    this.#tell(JSON.stringify(name));
    return name !== "";
  }
}

const textIn = (written: string): string => JSON.parse(written) as string;

/** A whole value as JSON; undefined where it is none. */
export function looseJson(text: string): string | undefined {
  const reading = new Reading(new Map());
  reading.feed(text);
  reading.finish();
  let written = "";
  const { value: isWhole } = new LooseValues(reading, (piece) => (written += piece)).value().next();
  return isWhole === true && reading.next.trim() === "" ? written : undefined;
}

/** `name(key=value, …)`, behind the name and its parenthesis. */
export function* pythonArguments(reading: Reading, name: string): Steps<boolean> {
  reading.begin(name);
  const tell = (text: string): void => reading.telling.arguments(text);
  tell("{");
  const values = new LooseValues(reading, tell, { types: (key) => reading.typesOf(name, key) });
  if (!(yield* values.members(")", "="))) return false;
  tell("}");
  reading.done();
  return true;
}
