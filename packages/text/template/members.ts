/** What stands behind a point or in brackets: fields, items, slices, methods of objects. */
import { MarkedText } from "../tokens/marked-text.js";
import type { TemplateBudget } from "./budget.js";
import { sorted } from "./sorting.js";
import { charactersOf, memberOfText } from "./text-methods.js";
import {
  type CallArguments,
  Callable,
  Dict,
  isTrue,
  kindOfValue,
  List,
  Namespace,
  NumberValue,
  TemplateError,
  type Value,
} from "./values.js";
import { joined } from "./written.js";

/** The member of a value by name or by number; undefined where there is none. */
export function memberOf(object: Value, property: Value): Value {
  const isContainer = object instanceof Dict || object instanceof Namespace;
  if (property instanceof NumberValue && !property.float && !isContainer) {
    if (object instanceof List) return object.items.at(property.value);
    if (object instanceof MarkedText) {
      const at = property.value < 0 ? object.length + property.value : property.value;
      return at >= 0 && at < object.length ? object.slice(at, at + 1) : undefined;
    }
  }
  if (!(property instanceof MarkedText))
    throw new TemplateError(`${kindOfValue(object)} has no member that is ${kindOfValue(property)}`);
  const name = property.text;
  if (object instanceof MarkedText) return memberOfText(object, name);
  if (object instanceof List) return name === "length" ? new NumberValue(object.items.length) : undefined;
  if (object instanceof Namespace) return object.entries.get(name);
  if (!(object instanceof Dict)) return undefined;
  if (object.entries.has(name)) return object.get(name);
  const method = methodOfDict(object, name);
  return method && new Callable(method);
}

/** What objects can do beside holding fields. */
export function methodOfDict(object: Dict, name: string): ((given: CallArguments) => Value) | undefined {
  const entries = (budget: TemplateBudget): (readonly [MarkedText, Value])[] => {
    budget.steps(object.entries.size);
    return [...object.entries.values()];
  };
  switch (name) {
    case "get":
      return ({ positional }) => {
        const [key, otherwise] = positional;
        if (!(key instanceof MarkedText)) throw new TemplateError(`get() asks for text, got ${kindOfValue(key)}`);
        if (object.entries.has(key.text)) return object.get(key.text);
        return positional.length > 1 ? otherwise : null;
      };
    case "items":
      return ({ budget }) => new List(entries(budget).map(([key, value]) => new List([key, value])));
    case "keys":
      return ({ budget }) => new List(entries(budget).map(([key]) => key));
    case "values":
      return ({ budget }) => new List(entries(budget).map(([, value]) => value));
    case "dictsort":
      return (given) => dictsort(entries(given.budget), given);
    default:
      return undefined;
  }
}

function dictsort(entries: readonly (readonly [MarkedText, Value])[], given: CallArguments): List {
  const { positional, named, budget } = given;
  const caseSensitive = positional[0] ?? named.get("case_sensitive") ?? false;
  const by = positional[1] ?? named.get("by") ?? MarkedText.of("key");
  const reverse = positional[2] ?? named.get("reverse") ?? false;
  if (!(by instanceof MarkedText) || !["key", "value"].includes(by.text))
    throw new TemplateError('dictsort sorts by "key" or by "value"');
  const at = by.text === "key" ? 0 : 1;
  const order = { caseSensitive: isTrue(caseSensitive), reverse: isTrue(reverse) };
  return new List(sorted(entries, (entry) => entry[at], order, budget).map((entry) => new List(entry)));
}

/** A part of a list or a text, as Python slices. */
export function sliceOf(object: Value, bounds: readonly [Value, Value, Value], budget: TemplateBudget): Value {
  if (!(object instanceof List) && !(object instanceof MarkedText))
    throw new TemplateError(`only lists and texts have slices, not ${kindOfValue(object)}`);
  const [start, stop, step = 1] = bounds.map((bound) => {
    if (bound === undefined) return undefined;
    if (!(bound instanceof NumberValue) || bound.float)
      throw new TemplateError(`a slice has whole numbers, not ${kindOfValue(bound)}`);
    return bound.value;
  });
  if (object instanceof List) return new List(picked(object.items, start, stop, step, budget));
  return joined(picked(charactersOf(object, budget), start, stop, step, budget), MarkedText.of(""), budget);
}

function picked<T>(
  items: readonly T[],
  start: number | undefined,
  stop: number | undefined,
  step: number,
  budget: TemplateBudget,
): T[] {
  const { length } = items;
  const [least, most] = step < 0 ? [-1, length - 1] : [0, length];
  const place = (given: number | undefined, otherwise: number): number =>
    given === undefined ? otherwise : given < 0 ? Math.max(length + given, least) : Math.min(given, most);
  const from = place(start, step < 0 ? length - 1 : 0);
  const to = step < 0 && stop === -1 ? -1 : place(stop, step < 0 ? -1 : length);
  const found: T[] = [];
  if (step !== 0) for (let at = from; step > 0 ? at < to : at > to; at += step) found.push(items[at]);
  budget.steps(found.length);
  return found;
}
