/** Arguments that a model writes one by one, between marks, as one JSON object: texts as they come, other values once they are whole. */
import { insideString } from "./argument-types.js";
import { jsonOf } from "./value-json.js";
import { looseJson } from "./loose-values.js";
import type { Reading, Steps, TextEnd } from "./reading.js";

/** Writes one call's arguments. */
export class ArgumentsWriter {
  readonly #reading: Reading;
  readonly #name: string;
  #first = true;

  /** Begins the call. */
  constructor(reading: Reading, name: string) {
    this.#reading = reading;
    this.#name = name;
    reading.begin(name);
    this.tell("{");
  }

  tell(text: string): void {
    this.#reading.telling.arguments(text);
  }

  /** A value of this name comes next. */
  key(name: string): void {
    this.tell(`${this.#first ? "" : ", "}${JSON.stringify(name)}: `);
    this.#first = false;
  }

  /**
   * A value that is text up to its end, of the kind that the schema says. One line end at either side is no part of it where
   * `lines` is true; `isText` is whether the call itself says that it is text.
   */
  *valueUntil(name: string, ends: readonly TextEnd[], lines: boolean, isText?: boolean): Steps<boolean> {
    const types = typesTold(this.#reading.typesOf(this.#name, name), isText);
    this.key(name);
    if (!types.has("string") || types.size > 1) {
      let text = "";
      const isWhole = yield* this.#reading.textTo(ends, (piece) => (text += piece));
      if (isWhole) this.tell(jsonOf(lines ? withoutLines(text) : text, types, looseJson));
      return isWhole;
    }
    this.tell('"');
    let isFirst = true;
    let held = "";
    const isWhole = yield* this.#reading.textTo(ends, (piece) => {
      if (piece === "") return;
      let text = held + (lines && isFirst ? piece.replace(/^\n/, "") : piece);
      isFirst = false;
      held = "";
      if (lines && text.endsWith("\n")) [text, held] = [text.slice(0, -1), "\n"];
      this.tell(insideString(text));
    });
    if (isWhole) this.tell('"');
    return isWhole;
  }

  /** The call is whole. */
  end(): void {
    this.tell("}");
    this.#reading.done();
  }
}

const withoutLines = (text: string): string => text.replace(/^\n/, "").replace(/\n$/, "");

/** The schema decides; what the call says of a value chooses between text and the rest, where the schema leaves that open. */
function typesTold(types: ReadonlySet<string>, isText: boolean | undefined): ReadonlySet<string> {
  if (isText === undefined || (types.size > 0 && (!types.has("string") || types.size === 1))) return types;
  return isText ? new Set(["string"]) : new Set([...types].filter((type) => type !== "string"));
}
