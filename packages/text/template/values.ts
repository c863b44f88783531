/** The values that chat templates work with, and what is asked of any of them. Text carries marks; numbers know whether they are whole. */
import { MarkedText } from "../tokens/marked-text.js";
import type { TemplateBudget } from "./budget.js";

/** Any value. `undefined` is a name that nobody gave. */
export type Value = MarkedText | NumberValue | boolean | null | undefined | List | Dict | Namespace | Callable;

/** A number; one with a point stays one even where it is whole. */
export class NumberValue {
  readonly value: number;
  readonly float: boolean;

  constructor(value: number, float: boolean = !Number.isInteger(value)) {
    this.value = value;
    this.float = float;
  }
}

/** A list, or a tuple. */
export class List {
  readonly items: readonly Value[];
  readonly tuple: boolean;

  constructor(items: readonly Value[], tuple = false) {
    this.items = items;
    this.tuple = tuple;
  }
}

/** An object. Its keys are texts with marks, too. */
export class Dict {
  readonly entries: ReadonlyMap<string, readonly [key: MarkedText, value: Value]>;

  constructor(entries: Iterable<readonly [key: MarkedText, value: Value]>) {
    this.entries = new Map([...entries].map((entry) => [entry[0].text, entry]));
  }

  /** An object whose keys the template wrote. */
  static of(entries: Iterable<readonly [key: string, value: Value]>): Dict {
    return new Dict([...entries].map(([key, value]) => [MarkedText.of(key), value]));
  }

  get(key: string): Value {
    return this.entries.get(key)?.[1];
  }
}

/** What `namespace()` makes: an object that can be assigned to. */
export class Namespace {
  readonly entries: Map<string, Value>;

  constructor(entries: Iterable<readonly [key: string, value: Value]>) {
    this.entries = new Map(entries);
  }
}

/** Arguments of a call. */
export interface CallArguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
  /** Where the call stands. */
  readonly scope: Scope;
  readonly budget: TemplateBudget;
}

/** A function: a template's macro, one that templates know, or the caller's. */
export class Callable {
  readonly call: (given: CallArguments) => Value;

  constructor(call: (given: CallArguments) => Value) {
    this.call = call;
  }
}

/** Names and their values, inside another scope. */
export class Scope {
  readonly #values = new Map<string, Value>();
  readonly #around: Scope | undefined;

  constructor(around?: Scope) {
    this.#around = around;
  }

  get(name: string): Value {
    if (this.#values.has(name)) return this.#values.get(name);
    // Scopes are as deep as calls are: a loop, no recursion.
    let scope = this.#around;
    while (scope !== undefined && !scope.#values.has(name)) scope = scope.#around;
    return scope === undefined ? undefined : scope.#values.get(name);
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }
}

/** What goes wrong in a template: the message is for who gave the messages. */
export class TemplateError extends Error {}

/** What kind of value it is, in words. */
export function kindOfValue(value: Value): string {
  if (value instanceof MarkedText) return "text";
  if (value instanceof NumberValue) return "a number";
  if (value instanceof List) return value.tuple ? "a tuple" : "a list";
  if (value instanceof Dict || value instanceof Namespace) return "an object";
  if (value instanceof Callable) return "a function";
  return typeof value === "boolean" ? "a truth value" : value === null ? "none" : "undefined";
}

/** What `if` makes of a value. */
export function isTrue(value: Value): boolean {
  if (value instanceof MarkedText) return value.length > 0;
  if (value instanceof NumberValue) return value.value !== 0 && !Number.isNaN(value.value);
  if (value instanceof List) return value.items.length > 0;
  if (value instanceof Dict) return value.entries.size > 0;
  return Boolean(value);
}

/** The value that comparisons see: text and numbers by what they are, everything else by what it is. */
export function comparable(value: Value): unknown {
  return value instanceof MarkedText ? value.text : value instanceof NumberValue ? value.value : value;
}

/** A JavaScript value as templates see it; all of its texts get the mark. */
export function valueOf(given: unknown, mark: string, depth = 0): Value {
  if (depth > mostDepth) throw new TemplateError(`what is given nests more than ${mostDepth} levels, or holds itself`);
  switch (typeof given) {
    case "string":
      return MarkedText.of(given, mark);
    case "number":
      return new NumberValue(given);
    case "boolean":
    case "undefined":
      return given;
    case "function":
      return new Callable(({ positional, budget }) => {
        const call = given as (...values: unknown[]) => unknown;
        return valueOf(call(...positional.map((value) => plainOf(value, budget))) ?? null, mark, depth + 1);
      });
    case "object":
      if (given === null) return null;
      if (Array.isArray(given)) return new List((given as unknown[]).map((item) => valueOf(item, mark, depth + 1)));
      return new Dict(
        Object.entries(given).map(([key, item]) => [MarkedText.of(key, mark), valueOf(item, mark, depth + 1)]),
      );
    default:
      throw new TemplateError(`templates know no ${typeof given}: give it as text or as a number`);
  }
}

const mostDepth = 200;

/** A value as JavaScript sees it. */
function plainOf(value: Value, budget: TemplateBudget): unknown {
  budget.steps(1);
  if (value instanceof List) return value.items.map((item) => plainOf(item, budget));
  if (value instanceof Dict)
    return Object.fromEntries([...value.entries].map(([key, [, item]]) => [key, plainOf(item, budget)]));
  if (value instanceof Namespace)
    return Object.fromEntries([...value.entries].map(([key, item]) => [key, plainOf(item, budget)]));
  return value instanceof Callable ? undefined : comparable(value);
}
