/** Arguments that a model writes one by one, between marks, as one JSON object: texts as they come, other values once they are whole. */
import type { JsonSchema } from "#insitu/choice/constraint.js";
import type { Reading, Steps } from "./reading.js";

/** Writes one call's arguments. */
export class ArgumentsWriter {
  readonly #reading: Reading;
  readonly #schema: JsonSchema;
  #first = true;

  /** Begins the call. */
  constructor(reading: Reading, name: string) {
    this.#reading = reading;
    this.#schema = reading.schemas.get(name) ?? true;
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
   * A value that is text up to a mark, of the kind that the schema says. One line end at either side is no part of it where
   * `lines` is true; `told` are its types where the call says them.
   */
  *valueUntil(name: string, marks: readonly string[], lines: boolean, told?: readonly string[]): Steps<boolean> {
    const types = told === undefined ? typesOf(this.#schema, name) : new Set(told);
    this.key(name);
    if (!types.has("string") || types.size > 1) {
      const text = yield* this.#reading.textUntil(...marks);
      if (text !== undefined) this.tell(JSON.stringify(valueOf(lines ? withoutLines(text) : text, types)));
      return text !== undefined;
    }
    this.tell('"');
    let isFirst = true;
    let held = "";
    const end = yield* this.#reading.until(marks, (piece) => {
      if (piece === "") return;
      let text = held + (lines && isFirst ? piece.replace(/^\n/, "") : piece);
      isFirst = false;
      held = "";
      if (lines && text.endsWith("\n")) [text, held] = [text.slice(0, -1), "\n"];
      this.tell(insideString(text));
    });
    if (end !== undefined) this.tell('"');
    return end !== undefined;
  }

  /** The call is whole. */
  end(): void {
    this.tell("}");
    this.#reading.done();
  }
}

/** A text as it stands between the quotes of a JSON string. */
export const insideString = (text: string): string => JSON.stringify(text).slice(1, -1);

const withoutLines = (text: string): string => text.replace(/^\n/, "").replace(/\n$/, "");

/** The types that a schema gives to a property; none where it does not say. */
function typesOf(schema: JsonSchema, name: string): ReadonlySet<string> {
  const properties = typeof schema === "object" ? schema["properties"] : undefined;
  const found: unknown =
    typeof properties === "object" && properties !== null && Object.hasOwn(properties, name)
      ? (properties as Readonly<Record<string, unknown>>)[name]
      : undefined;
  const types = new Set<string>();
  addTypes(found, types);
  return types;
}

function addTypes(schema: unknown, types: Set<string>): void {
  if (typeof schema !== "object" || schema === null) return;
  const { type, enum: values, const: only, anyOf, oneOf } = schema as Readonly<Record<string, unknown>>;
  for (const each of [type].flat()) if (typeof each === "string") types.add(each);
  const listed = [
    ...(Array.isArray(values) ? (values as readonly unknown[]) : []),
    ...(only === undefined ? [] : [only]),
  ];
  if (type === undefined) for (const value of listed) types.add(value === null ? "null" : typeof value);
  for (const options of [anyOf, oneOf]) if (Array.isArray(options)) for (const each of options) addTypes(each, types);
}

/** Words that templates write for values that JSON spells otherwise. */
const words: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["True", true],
  ["False", false],
  ["None", null],
]);

/** A value of a kind that is not text alone: JSON where it is some, text where not. */
function valueOf(text: string, types: ReadonlySet<string>): unknown {
  const trimmed = text.trim();
  const value = words.has(trimmed) ? words.get(trimmed) : parsed(trimmed);
  if (value === undefined) return text;
  // Where text may stand too, only what is none by its type is something else.
  if (!types.has("string")) return typeof value === "string" && types.size === 0 ? text : value;
  const type = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  return types.has(type) || (type === "number" && types.has("integer")) ? value : text;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
