/** The filters that templates know: `value | name` and `value | name(…)`. As @huggingface/jinja has them. */
import { MarkedText } from "../tokens/marked-text.js";
import type { TemplateBudget } from "./budget.js";
import { methodOfDict } from "./members.js";
import { test } from "./operators.js";
import { sorted } from "./sorting.js";
import { charactersOf, indented, memberOfText, replace, trim, wholeOf } from "./text-methods.js";
import {
  type CallArguments,
  Callable,
  comparable,
  Dict,
  isTrue,
  kindOfValue,
  List,
  Namespace,
  NumberValue,
  TemplateError,
  type Value,
} from "./values.js";
import { added, joined, json, shown } from "./written.js";

type Filter = (value: Value, given: CallArguments) => Value;

/** An argument by place or by name. */
const argument = ({ positional, named }: CallArguments, at: number, name: string): Value =>
  at < positional.length ? positional[at] : named.get(name);

/** Applies a filter; `bare` where it has no parentheses. */
export function applyFilter(name: string, value: Value, given: CallArguments, bare: boolean): Value {
  const known = anyFilters.get(name);
  if (known !== undefined) return known(value, given);
  const filter = filtersOf(value)?.get(name);
  if (filter !== undefined) return filter(value, given);
  if (name === "int" || name === "float") return convertedNumber(name, value, given, bare);
  if (value instanceof Dict) {
    const method = methodOfDict(value, name);
    if (method !== undefined) return method(given);
  }
  throw new TemplateError(`there is no filter "${name}" for ${kindOfValue(value)}`);
}

const anyFilters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["safe", (value) => value],
  ["tojson", (value, given) => json(value, given.budget, jsonStyle(given))],
  [
    "default",
    (value, given) => {
      const { positional } = given;
      if (value !== undefined && !(isTrue(argument(given, 1, "boolean")) && !isTrue(value))) return value;
      return positional.length > 0 ? positional[0] : MarkedText.of("");
    },
  ],
  ["join", (value, given) => join(value, given)],
]);

function jsonStyle(given: CallArguments): Parameters<typeof json>[2] {
  const { named } = given;
  const indent = named.get("indent") ?? null;
  const pair = named.get("separators") ?? null;
  const items = pair instanceof List ? pair.items : [];
  const [first, second] = items;
  const separators =
    first instanceof MarkedText && second instanceof MarkedText ? ([first, second] as const) : undefined;
  if (pair !== null && (separators === undefined || items.length !== 2))
    throw new TemplateError("separators must be two texts");
  return {
    ...(indent === null ? {} : { indent: wholeOf("indent", indent) }),
    ensureAscii: isTrue(named.get("ensure_ascii")),
    sortKeys: isTrue(named.get("sort_keys")),
    separators,
  };
}

function join(value: Value, given: CallArguments): MarkedText {
  const { budget } = given;
  const separator = argument(given, 0, "separator") ?? MarkedText.of("");
  if (!(separator instanceof MarkedText)) throw new TemplateError("join asks for a separator that is text");
  if (value instanceof MarkedText) return joined(charactersOf(value, budget), separator, budget);
  if (!(value instanceof List)) throw new TemplateError(`there is no filter "join" for ${kindOfValue(value)}`);
  const pieces = value.items.map((item) =>
    item === null || item === undefined ? MarkedText.of("") : added(item, budget),
  );
  return joined(pieces, separator, budget);
}

/** A number made of a value. With parentheses, a number stays as it is. */
function convertedNumber(name: "int" | "float", value: Value, given: CallArguments, bare: boolean): Value {
  const float = name === "float";
  if (value instanceof MarkedText) {
    given.budget.characters(value.length);
    const parsed = float ? parseFloat(value.text) : parseInt(value.text, 10);
    if (!Number.isNaN(parsed)) return new NumberValue(parsed, float);
    return argument(given, 0, "default") ?? new NumberValue(0, float);
  }
  if (value instanceof NumberValue && !bare) return value;
  if (value instanceof NumberValue) return new NumberValue(float ? value.value : Math.floor(value.value), float);
  if (typeof value === "boolean") return new NumberValue(Number(value), float);
  throw new TemplateError(`there is no filter "${name}" for ${kindOfValue(value)}`);
}

const asText: Filter = (value, { budget }) => shown(value, budget);
const ofText =
  (name: string): Filter =>
  (value, given) => {
    const member = value instanceof MarkedText ? memberOfText(value, name) : undefined;
    return member instanceof Callable ? member.call(given) : member;
  };

function filtersOf(value: Value): ReadonlyMap<string, Filter> | undefined {
  if (value instanceof List) return listFilters;
  if (value instanceof MarkedText) return textFilters;
  if (value instanceof NumberValue) return numberFilters;
  if (value instanceof Dict) return dictFilters;
  return typeof value === "boolean" ? booleanFilters : undefined;
}

const textFilters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ...["length", "upper", "lower", "title", "capitalize"].map((name): [string, Filter] => [name, ofText(name)]),
  ["string", (value) => value],
  ["trim", (value, { budget }) => trim(value as MarkedText, budget)],
  [
    "indent",
    (value, given) => {
      const width = argument(given, 0, "width") ?? new NumberValue(4);
      const first = isTrue(argument(given, 1, "first"));
      const blank = isTrue(argument(given, 2, "blank"));
      return indented(value as MarkedText, wholeOf("indent", width), { first, blank }, given.budget);
    },
  ],
  [
    "replace",
    (value, { positional: [old, by, count], named, budget }) =>
      replace(value as MarkedText, old, by, count ?? named.get("count"), budget),
  ],
]);

const numberFilters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["abs", (value) => new NumberValue(Math.abs((value as NumberValue).value), (value as NumberValue).float)],
  ["string", asText],
]);

const booleanFilters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["bool", (value) => value],
  ["string", asText],
]);

const dictFilters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["length", (value) => new NumberValue((value as Dict).entries.size)],
]);

type ListFilter = (items: readonly Value[], given: CallArguments, list: List) => Value;

const ofList =
  (filter: ListFilter): Filter =>
  (value, given) => {
    const list = value as List;
    if (!shortFilters.has(filter)) given.budget.steps(list.items.length);
    return filter(list.items, given, list);
  };

const first: ListFilter = (items) => items[0];
const last: ListFilter = (items) => items.at(-1);
const length: ListFilter = (items) => new NumberValue(items.length);
const itself: ListFilter = (_, __, list) => list;

/** What takes the same time for any list. */
const shortFilters: ReadonlySet<ListFilter> = new Set([first, last, length, itself]);

const listFilters: ReadonlyMap<string, Filter> = new Map<string, Filter>(
  (
    [
      ["list", itself],
      ["first", first],
      ["last", last],
      ["length", length],
      ["reverse", (items) => new List(items.toReversed())],
      ["string", (_, { budget }, list) => shown(list, budget)],
      ["unique", unique],
      ["sort", sort],
      ["selectattr", (items, given) => selected(items, given, true)],
      ["rejectattr", (items, given) => selected(items, given, false)],
      ["map", mapped],
    ] as readonly (readonly [string, ListFilter])[]
  ).map(([name, filter]) => [name, ofList(filter)]),
);

function unique(items: readonly Value[], { budget }: CallArguments): List {
  const seen = new Set<unknown>();
  return new List(
    items.filter((item) => {
      const value = comparable(item);
      if (typeof value === "string") budget.characters(value.length);
      return !seen.has(value) && seen.add(value);
    }),
  );
}

function sort(items: readonly Value[], given: CallArguments): List {
  const attribute = argument(given, 2, "attribute") ?? null;
  const path = attribute === null ? undefined : String(comparable(attribute));
  const order = {
    reverse: isTrue(argument(given, 0, "reverse")),
    caseSensitive: isTrue(argument(given, 1, "case_sensitive")),
  };
  return new List(
    sorted(items, (item) => (path === undefined ? item : valueAt(item, path, given.budget)), order, given.budget),
  );
}

function selected(items: readonly Value[], { positional, budget }: CallArguments, wanted: boolean): List {
  const [attribute, testName, other] = positional;
  if (!(attribute instanceof MarkedText) || !(testName === undefined || testName instanceof MarkedText))
    throw new TemplateError("selectattr and rejectattr ask for the names of a field and of a test");
  return new List(
    items.filter((item) => {
      const fields = item instanceof Dict || item instanceof Namespace ? item : undefined;
      if (fields === undefined)
        throw new TemplateError(`selectattr and rejectattr look at objects, not at ${kindOfValue(item)}`);
      const value = fields instanceof Dict ? fields.get(attribute.text) : fields.entries.get(attribute.text);
      const has = fields.entries.has(attribute.text);
      const holds = has && (testName === undefined ? isTrue(value) : test(testName.text, value, other, budget));
      return holds === wanted;
    }),
  );
}

function mapped(items: readonly Value[], { named, budget }: CallArguments): List {
  const attribute = named.get("attribute");
  if (!(attribute instanceof MarkedText)) throw new TemplateError('map is known with attribute="name" only');
  return new List(
    items.map((item) => {
      if (!(item instanceof Dict) && !(item instanceof Namespace))
        throw new TemplateError(`map looks at objects, not at ${kindOfValue(item)}`);
      const value = valueAt(item, attribute.text, budget);
      return value === undefined ? named.get("default") : value;
    }),
  );
}

/** What stands at a path such as "function.name" or "items.0". */
function valueAt(item: Value, path: string, budget: TemplateBudget): Value {
  let value = item;
  for (const part of path.split(".")) {
    budget.steps(1);
    if (value instanceof Dict) value = value.get(part);
    else if (value instanceof Namespace) value = value.entries.get(part);
    else if (value instanceof List && /^\d/.test(part)) value = value.items[parseInt(part, 10)];
    else return undefined;
  }
  return value;
}
