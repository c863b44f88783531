/** What templates do with texts: methods such as split and replace, the filters of the same names, slices. Marks go with the characters. */
import { MarkedText } from "../tokens/marked-text.js";
import type { TemplateBudget } from "./budget.js";
import { type CallArguments, Callable, kindOfValue, List, NumberValue, TemplateError, type Value } from "./values.js";
import { joined } from "./written.js";

type Method = (text: MarkedText, given: CallArguments) => Value;

const changed =
  (change: (text: string) => string): Method =>
  (text, { budget }) => {
    budget.characters(text.length);
    return text.changedTo(change(text.text));
  };

/** The methods of a text by name. */
const methods: ReadonlyMap<string, Method> = new Map<string, Method>([
  ["upper", changed((text) => text.toUpperCase())],
  ["lower", changed((text) => text.toLowerCase())],
  ["title", changed((text) => text.replace(/\b\w/g, (letter) => letter.toUpperCase()))],
  ["capitalize", changed((text) => text.charAt(0).toUpperCase() + text.slice(1))],
  ["strip", (text, { budget }) => trim(text, budget)],
  ["lstrip", (text, { budget }) => trim(text, budget, true, false)],
  ["rstrip", (text, { budget }) => trim(text, budget, false, true)],
  ["startswith", (text, given) => edgeOf(text, given, (edge) => text.text.startsWith(edge))],
  ["endswith", (text, given) => edgeOf(text, given, (edge) => text.text.endsWith(edge))],
  ["split", split],
  [
    "replace",
    (text, { positional: [old, by, count], named, budget }) =>
      replace(text, old, by, count ?? named.get("count"), budget),
  ],
]);

/** A method of a text, or its length; undefined where there is no such thing. */
export function memberOfText(text: MarkedText, name: string): Value {
  if (name === "length") return new NumberValue(text.length);
  const method = methods.get(name);
  return method && new Callable((given) => method(text, given));
}

/** A text without white space at its ends. */
export function trim(text: MarkedText, budget: TemplateBudget, start = true, end = true): MarkedText {
  budget.characters(text.length);
  return text.trimmed(start, end);
}

function edgeOf(
  text: MarkedText,
  { positional: [edge], budget }: CallArguments,
  has: (edge: string) => boolean,
): boolean {
  const edges = edge instanceof List ? edge.items : [edge];
  return edges.some((each) => {
    if (!(each instanceof MarkedText))
      throw new TemplateError(`startswith() and endswith() ask for text, got ${kindOfValue(each)}`);
    budget.characters(Math.min(text.length, each.length));
    return has(each.text);
  });
}

/** As Python's split: at white space where there is no separator, at most as often as asked for. */
function split(text: MarkedText, { positional: [separator, most], budget }: CallArguments): List {
  const limit = most === undefined ? Infinity : wholeOf("split()", most);
  const pieces: MarkedText[] = [];
  const times = limit < 0 ? Infinity : limit;
  if (separator === undefined || separator === null) {
    budget.characters(text.length);
    for (const { 0: word, index } of text.text.matchAll(/\S+/g)) {
      const last = pieces.length >= times;
      pieces.push(text.slice(index, last ? undefined : index + word.length));
      if (last) break;
    }
  } else {
    if (!(separator instanceof MarkedText))
      throw new TemplateError(`split() asks for text, got ${kindOfValue(separator)}`);
    if (separator.length === 0) throw new TemplateError("split() asks for a separator that is not empty");
    let start = 0;
    for (const at of occurrences(text, separator, times, budget)) {
      pieces.push(text.slice(start, at));
      start = at + separator.length;
    }
    pieces.push(text.slice(start));
  }
  budget.steps(pieces.length);
  return new List(pieces);
}

/** As Python's replace; an empty text is found between all characters. */
export function replace(text: MarkedText, old: Value, by: Value, count: Value, budget: TemplateBudget): MarkedText {
  if (!(old instanceof MarkedText) || !(by instanceof MarkedText))
    throw new TemplateError(`replace() asks for two texts, got ${kindOfValue(old)} and ${kindOfValue(by)}`);
  const limit = count === undefined || count === null ? Infinity : wholeOf("replace()", count);
  const times = limit < 0 ? Infinity : limit;
  const places = old.length === 0 ? boundaries(text, times, budget) : occurrences(text, old, times, budget);
  const pieces: MarkedText[] = [];
  let start = 0;
  for (const at of places) {
    pieces.push(text.slice(start, at));
    start = at + old.length;
  }
  pieces.push(text.slice(start));
  return joined(pieces, by, budget);
}

/** Where one text stands in another, at most `times`. */
function occurrences(text: MarkedText, wanted: MarkedText, times: number, budget: TemplateBudget): number[] {
  budget.search(text.length, wanted.length);
  const places: number[] = [];
  for (let at = 0; places.length < times; at += wanted.length) {
    at = text.text.indexOf(wanted.text, at);
    if (at < 0) break;
    places.push(at);
  }
  budget.steps(places.length);
  return places;
}

/** The places between characters, both ends included. */
function boundaries({ text }: MarkedText, times: number, budget: TemplateBudget): number[] {
  budget.steps(text.length);
  const places: number[] = [];
  for (let at = 0; at <= text.length && places.length < times; at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1)
    places.push(at);
  return places;
}

/** Each line but the first with space before it; lines without text only where asked for. */
export function indented(
  text: MarkedText,
  width: number,
  { first, blank }: { readonly first: boolean; readonly blank: boolean },
  budget: TemplateBudget,
): MarkedText {
  if (!(width >= 0)) throw new TemplateError(`indent asks for a width from 0 on, got ${width}`);
  const newline = MarkedText.of("\n");
  const lines: MarkedText[] = [];
  let start = 0;
  const places = [...occurrences(text, newline, Infinity, budget), text.length];
  budget.characters(width * places.length);
  const space = MarkedText.of(" ".repeat(width));
  for (const [index, end] of places.entries()) {
    const line = text.slice(start, end);
    // The line break belongs to who wrote it.
    const broken = text.slice(end, end + 1);
    lines.push((!first && index === 0) || (!blank && line.length === 0) ? line : space.plus(line), broken);
    start = end + 1;
  }
  return joined(lines, MarkedText.of(""), budget);
}

/** The characters of a text, by what Python counts as one. */
export function charactersOf(text: MarkedText, budget: TemplateBudget): MarkedText[] {
  budget.steps(text.length);
  let at = 0;
  return Array.from(text.text, (character) => text.slice(at, (at += character.length)));
}

/** A whole number among arguments. */
export function wholeOf(what: string, value: Value): number {
  if (!(value instanceof NumberValue) || value.float)
    throw new TemplateError(`${what} asks for a whole number, got ${kindOfValue(value)}`);
  return value.value;
}
