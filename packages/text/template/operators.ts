/** What `+`, `in`, `==` and the others make of two values, and `is` of one. As @huggingface/jinja has them, which leans on JavaScript where Python would refuse. */
import { MarkedText } from "../tokens/marked-text.js";
import type { TemplateBudget } from "./budget.js";
import { Callable, comparable, Dict, kindOfValue, List, NumberValue, TemplateError, type Value } from "./values.js";
import { added } from "./written.js";

/** Two values and the operator between them; `and` and `or` are not among these. */
export function binary(operator: string, left: Value, right: Value, budget: TemplateBudget): Value {
  if (operator === "==") return looselyEqual(left, right, budget);
  if (operator === "!=") return !looselyEqual(left, right, budget);
  const member = operator === "in" || operator === "not in";
  if (right === undefined && member) return operator === "not in";
  if (left === undefined || right === undefined) throw new TemplateError(`"${operator}" has a side that is undefined`);
  if (left === null || right === null) throw new TemplateError(`"${operator}" has a side that is none`);
  if (operator === "~") return concatenated(left, right, budget);
  if (operator === "**" && isNumeric(left) && isNumeric(right)) return power(left, right);
  if (left instanceof NumberValue && right instanceof NumberValue) {
    const result = arithmetic(operator, left, right);
    if (result !== undefined) return result;
  }
  if (operator === "+" && left instanceof List && right instanceof List) {
    budget.steps(left.items.length + right.items.length);
    return new List([...left.items, ...right.items]);
  }
  if (operator === "+" && (left instanceof MarkedText || right instanceof MarkedText))
    return concatenated(left, right, budget);
  const found = member ? isIn(left, right, budget) : undefined;
  if (found === undefined)
    throw new TemplateError(`"${operator}" cannot be between ${kindOfValue(left)} and ${kindOfValue(right)}`);
  return found === (operator === "in");
}

function concatenated(left: Value, right: Value, budget: TemplateBudget): MarkedText {
  const [first, second] = [added(left, budget), added(right, budget)];
  budget.characters(first.length + second.length);
  return first.plus(second);
}

/** As JavaScript's == has it: none is undefined, text that spells a number is that number, a list beside text is the text of its items. */
function looselyEqual(left: Value, right: Value, budget: TemplateBudget): boolean {
  const beside = (value: Value, other: Value): unknown =>
    value instanceof List && isPlain(comparable(other)) ? added(value, budget).text : (comparable(value) ?? null);
  const [a, b] = [beside(left, right), beside(right, left)];
  if (typeof a === "string" && typeof b === "string") budget.characters(Math.min(a.length, b.length));
  return a === b || (isPlain(a) && isPlain(b) && typeof a !== typeof b && Number(a) === Number(b));
}

const isPlain = (value: unknown): boolean => ["string", "number", "boolean"].includes(typeof value);

/** Whether one value is in another; undefined where that cannot be asked. */
function isIn(left: Value, right: Value, budget: TemplateBudget): boolean | undefined {
  if (right instanceof List && !(left instanceof List)) {
    budget.steps(right.items.length);
    const wanted = comparable(left);
    if (typeof wanted === "string") budget.characters(wanted.length * right.items.length);
    return right.items.some((item) => comparable(item) === wanted);
  }
  if (!(left instanceof MarkedText)) return undefined;
  if (right instanceof MarkedText) {
    budget.search(right.length, left.length);
    return right.text.includes(left.text);
  }
  return right instanceof Dict ? right.entries.has(left.text) : undefined;
}

const isNumeric = (value: Value): value is NumberValue | boolean =>
  value instanceof NumberValue || typeof value === "boolean";
const numberOf = (value: NumberValue | boolean): number => (typeof value === "boolean" ? Number(value) : value.value);

function power(left: NumberValue | boolean, right: NumberValue | boolean): NumberValue {
  const [base, exponent] = [numberOf(left), numberOf(right)];
  const result = base ** exponent;
  if (!Number.isFinite(result)) throw new TemplateError(`${base} ** ${exponent} is no finite number`);
  const float = [left, right].some((side) => side instanceof NumberValue && side.float);
  return new NumberValue(result, float || exponent < 0);
}

function arithmetic(operator: string, left: NumberValue, right: NumberValue): Value {
  const [a, b] = [left.value, right.value];
  const float = left.float || right.float;
  switch (operator) {
    case "+":
      return new NumberValue(a + b, float);
    case "-":
      return new NumberValue(a - b, float);
    case "*":
      return new NumberValue(a * b, float);
    case "/":
      return new NumberValue(a / b, true);
    case "//":
      return new NumberValue(Math.floor(a / b), float);
    case "%":
      return new NumberValue(a % b, float);
    case "<":
      return a < b;
    case ">":
      return a > b;
    case "<=":
      return a <= b;
    case ">=":
      return a >= b;
    default:
      return undefined;
  }
}

/** `not`, `+` and `-` before a value. */
export function unary(operator: string, value: Value): Value {
  // Lists and objects count as true here, empty or not.
  if (operator === "not") return !comparable(value);
  if (!isNumeric(value)) throw new TemplateError(`"${operator}" cannot be before ${kindOfValue(value)}`);
  const result = numberOf(value) * (operator === "-" ? -1 : 1);
  return new NumberValue(result, value instanceof NumberValue && value.float);
}

type Test = (value: Value, other: Value, budget: TemplateBudget) => boolean;

const wholeNumber = (value: Value, name: string): number => {
  if (!(value instanceof NumberValue) || value.float)
    throw new TemplateError(`"is ${name}" asks for a whole number, got ${kindOfValue(value)}`);
  return value.value;
};
const sameCase =
  (change: (text: string) => string): Test =>
  (value, _, budget) => {
    if (!(value instanceof MarkedText)) return false;
    budget.characters(value.length);
    return value.text === change(value.text);
  };
const equal: Test = (value, other) => comparable(value) === comparable(other);

/** What `is` knows. */
const tests: ReadonlyMap<string, Test> = new Map<string, Test>([
  ["boolean", (value) => typeof value === "boolean"],
  ["callable", (value) => value instanceof Callable],
  ["odd", (value) => wholeNumber(value, "odd") % 2 !== 0],
  ["even", (value) => wholeNumber(value, "even") % 2 === 0],
  ["false", (value) => value === false],
  ["true", (value) => value === true],
  ["none", (value) => value === null],
  ["string", (value) => value instanceof MarkedText],
  ["number", (value) => value instanceof NumberValue],
  ["integer", (value) => value instanceof NumberValue && !value.float],
  ["iterable", (value) => (value instanceof List && !value.tuple) || value instanceof MarkedText],
  ["mapping", (value) => value instanceof Dict],
  ["sequence", (value) => value instanceof List || value instanceof Dict || value instanceof MarkedText],
  ["lower", sameCase((text) => text.toLowerCase())],
  ["upper", sameCase((text) => text.toUpperCase())],
  ["defined", (value) => value !== undefined],
  ["undefined", (value) => value === undefined],
  ["equalto", equal],
  ["eq", equal],
]);

/** Whether a test holds; `other` is what `eq` compares with. */
export function test(name: string, value: Value, other: Value, budget: TemplateBudget): boolean {
  const found = tests.get(name);
  if (found === undefined) throw new TemplateError(`there is no test "${name}"`);
  return found(value, other, budget);
}
