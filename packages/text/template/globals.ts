/** The names that every chat template knows. */
import { MarkedText } from "../tokens/marked-text.js";
import {
  type CallArguments,
  Callable,
  Dict,
  kindOfValue,
  List,
  Namespace,
  NumberValue,
  type Scope,
  TemplateError,
  type Value,
} from "./values.js";
import { added } from "./written.js";

/** Adds them to a scope; `dateText` writes the time of day as Python's strftime does. */
export function addGlobals(scope: Scope, dateText: (format: string) => string): void {
  for (const [name, value] of [
    ["true", true],
    ["false", false],
    ["none", null],
  ] as const) {
    scope.set(name, value);
    scope.set(name[0].toUpperCase() + name.slice(1), value);
  }
  scope.set("range", new Callable(range));
  scope.set("namespace", new Callable(namespace));
  scope.set(
    "raise_exception",
    new Callable(({ positional: [message], budget }) => {
      throw new TemplateError(added(message, budget).text);
    }),
  );
  scope.set(
    "strftime_now",
    new Callable(({ positional: [format], budget }) => {
      if (!(format instanceof MarkedText))
        throw new TemplateError(`strftime_now() asks for text, got ${kindOfValue(format)}`);
      budget.characters(longestDatePart * format.length);
      return MarkedText.of(dateText(format.text), format.leastTrusted);
    }),
  );
}

/** A letter of a date format becomes at most so many. */
const longestDatePart = 20;

function range({ positional, budget }: CallArguments): List {
  const numbers = positional.map((value) => {
    if (!(value instanceof NumberValue)) throw new TemplateError(`range() asks for numbers, got ${kindOfValue(value)}`);
    return value.value;
  });
  if (numbers.length === 0 || numbers.length > 3)
    throw new TemplateError(`range() takes 1 to 3 numbers, got ${numbers.length}`);
  const [start, stop, step = 1] = numbers.length === 1 ? [0, numbers[0]] : numbers;
  if (step === 0) throw new TemplateError("range() has a step that is 0");
  // As often as the step must be taken: asked for before any item is made.
  budget.steps(Math.max(0, Math.ceil((stop - start) / step)) || 0);
  const items: Value[] = [];
  for (let at = start; step > 0 ? at < stop : at > stop; at += step) items.push(new NumberValue(at));
  return new List(items);
}

function namespace({ positional, named, budget }: CallArguments): Namespace {
  const [source] = positional;
  if (positional.length > 1) throw new TemplateError(`namespace() takes 1 object at most, got ${positional.length}`);
  const entries: [string, Value][] = [];
  if (source instanceof Dict) for (const [key, [, value]] of source.entries) entries.push([key, value]);
  else if (source instanceof List)
    for (const pair of source.items) {
      const [key, value] = pair instanceof List ? pair.items : [];
      if (!(key instanceof MarkedText)) throw new TemplateError("namespace() asks for pairs of names and values");
      entries.push([key.text, value]);
    }
  else if (positional.length === 1)
    throw new TemplateError(`namespace() asks for an object, got ${kindOfValue(source)}`);
  budget.steps(entries.length);
  return new Namespace([...entries, ...named]);
}
