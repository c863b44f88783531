/** Values as text: as `{{ }}` shows them, as `~` and `join` add them to text, and as JSON. Marks stay with the characters they belong to. */
import { MarkedText } from "../tokens/marked-text.js";
import { stepsPerJsonValue, type TemplateBudget } from "./budget.js";
import { Callable, Dict, List, Namespace, NumberValue, TemplateError, type Value } from "./values.js";

/** How JSON is written. */
interface JsonStyle {
  readonly indent?: number;
  readonly ensureAscii?: boolean;
  readonly separators?: readonly [items: MarkedText, keys: MarkedText] | undefined;
  readonly sortKeys?: boolean;
  /** What undefined becomes: null in JSON, its own name where a value is only shown. */
  readonly undefinedAs?: string;
}

/** A value as `{{ }}` shows it; none and undefined are shown as nothing. */
export function shown(value: Value, budget: TemplateBudget): MarkedText {
  if (value === null || value === undefined) return MarkedText.of("");
  if (value instanceof NumberValue) return MarkedText.of(numberText(value));
  if (value instanceof List || value instanceof Dict || value instanceof Namespace)
    return json(value, budget, { undefinedAs: "undefined" });
  return added(value, budget);
}

/** A value as it is added to a text. */
export function added(value: Value, budget: TemplateBudget): MarkedText {
  budget.steps(1);
  if (value instanceof MarkedText) return value;
  if (value instanceof NumberValue) return MarkedText.of(String(value.value));
  if (value instanceof Callable) throw new TemplateError("a function is no text: call it");
  if (value instanceof List)
    return joined(
      value.items.map((item) => nested(item, budget)),
      MarkedText.of(","),
      budget,
    );
  if (value instanceof Dict || value instanceof Namespace) return json(value, budget, { undefinedAs: "undefined" });
  return MarkedText.of(String(value));
}

/** An item of a list that is added to a text. */
const nested = (value: Value, budget: TemplateBudget): MarkedText =>
  value === null || value === undefined ? MarkedText.of("undefined") : shown(value, budget);

/** Texts with a separator between them. */
export function joined(pieces: readonly MarkedText[], separator: MarkedText, budget: TemplateBudget): MarkedText {
  budget.characters(pieces.reduce((sum, { length }) => sum + length, separator.length * pieces.length));
  return MarkedText.join(pieces, separator);
}

function numberText({ value, float }: NumberValue): string {
  if (!float) return String(value);
  if (Object.is(value, -0)) return "-0.0";
  return value % 1 === 0 ? value.toFixed(1) : String(value);
}

/** A value as JSON, with spaces where Python has them. */
export function json(value: Value, budget: TemplateBudget, style: JsonStyle = {}): MarkedText {
  const pieces: MarkedText[] = [];
  new JsonWriter(pieces, budget, style).write(value, 0);
  return MarkedText.join(pieces);
}

class JsonWriter {
  readonly #pieces: MarkedText[];
  readonly #budget: TemplateBudget;
  readonly #style: JsonStyle;
  readonly #between: MarkedText;
  readonly #afterKey: MarkedText;

  constructor(pieces: MarkedText[], budget: TemplateBudget, style: JsonStyle) {
    this.#pieces = pieces;
    this.#budget = budget;
    this.#style = style;
    this.#between = style.separators?.[0] ?? MarkedText.of(style.indent ? "," : ", ");
    this.#afterKey = style.separators?.[1] ?? MarkedText.of(": ");
  }

  write(value: Value, depth: number): void {
    this.#budget.steps(stepsPerJsonValue);
    if (depth > mostJsonDepth) throw new TemplateError(`JSON nests more than ${mostJsonDepth} levels`);
    if (value instanceof MarkedText) this.#text(value);
    else if (value instanceof NumberValue) this.#add(MarkedText.of(JSON.stringify(value.value)));
    else if (value === undefined) this.#add(MarkedText.of(this.#style.undefinedAs ?? "null"));
    else if (value === null || typeof value === "boolean") this.#add(MarkedText.of(String(value)));
    else if (value instanceof List) this.#items(value, depth);
    else if (value instanceof Dict || value instanceof Namespace) this.#fields(value, depth);
    else throw new TemplateError("a function cannot be written as JSON");
  }

  #items({ items }: List, depth: number): void {
    this.#add(MarkedText.of("["));
    items.forEach((item, index) => {
      if (index > 0) this.#add(this.#between);
      this.#line(depth + 1);
      this.write(item, depth + 1);
    });
    // An empty list with indentation has an empty line, as the library writes it.
    if (items.length === 0) this.#line(depth + 1);
    this.#line(depth);
    this.#add(MarkedText.of("]"));
  }

  #fields(value: Dict | Namespace, depth: number): void {
    const entries: (readonly [MarkedText, Value])[] =
      value instanceof Dict
        ? [...value.entries.values()]
        : [...value.entries].map(([key, item]) => [MarkedText.of(key), item]);
    if (this.#style.sortKeys === true) entries.sort(([a], [b]) => a.text.localeCompare(b.text));
    this.#add(MarkedText.of("{"));
    entries.forEach(([key, item], index) => {
      if (index > 0) this.#add(this.#between);
      this.#line(depth + 1);
      this.#text(key);
      this.#add(this.#afterKey);
      this.write(item, depth + 1);
    });
    this.#line(depth);
    this.#add(MarkedText.of("}"));
  }

  #line(depth: number): void {
    const { indent } = this.#style;
    if (!indent) return;
    if (indent < 0) throw new TemplateError(`indent must be at least 0, got ${indent}`);
    this.#budget.characters(indent * depth);
    this.#add(MarkedText.of(`\n${" ".repeat(indent * depth)}`));
  }

  #text(value: MarkedText): void {
    this.#add(MarkedText.of('"'));
    for (const run of value.runs()) {
      this.#budget.characters(run.length);
      const plain = JSON.stringify(run.text).slice(1, -1);
      const safe = this.#style.ensureAscii === true ? plain.replace(/[\x7f-\uffff]/g, escaped) : plain;
      this.#add(MarkedText.of(safe, run.marks[0]));
    }
    this.#add(MarkedText.of('"'));
  }

  #add(piece: MarkedText): void {
    this.#budget.characters(piece.length);
    this.#pieces.push(piece);
  }
}

const mostJsonDepth = 500;

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
