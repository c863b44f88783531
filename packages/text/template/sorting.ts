/** How templates sort: numbers by size, texts by their letters, nothing else. */
import { MarkedText } from "../tokens/marked-text.js";
import type { TemplateBudget } from "./budget.js";
import { kindOfValue, NumberValue, TemplateError, type Value } from "./values.js";

/** How a list is sorted. */
interface SortOrder {
  readonly caseSensitive: boolean;
  readonly reverse: boolean;
}

/** The items in order of their keys. */
export function sorted<T>(
  items: readonly T[],
  keyOf: (item: T) => Value,
  { caseSensitive, reverse }: SortOrder,
  budget: TemplateBudget,
): T[] {
  const comparisons = Math.ceil(items.length * Math.log2(items.length + 1));
  budget.steps(comparisons);
  const keyed = items.map((item) => {
    const key = keyOf(item);
    if (!(key instanceof MarkedText)) return { item, key };
    budget.characters(key.length * Math.log2(items.length + 1));
    return { item, key: caseSensitive ? key : key.changedTo(key.text.toLowerCase()) };
  });
  return keyed.sort((a, b) => compare(a.key, b.key) * (reverse ? -1 : 1)).map(({ item }) => item);
}

function compare(a: Value, b: Value): number {
  if ((a === null && b === null) || (a === undefined && b === undefined)) return 0;
  const [first, second] =
    a instanceof MarkedText && b instanceof MarkedText ? [a.text, b.text] : [numberOf(a), numberOf(b)];
  if (first === undefined || second === undefined)
    throw new TemplateError(`${kindOfValue(a)} and ${kindOfValue(b)} have no order`);
  return first < second ? -1 : first > second ? 1 : 0;
}

const numberOf = (value: Value): number | undefined =>
  value instanceof NumberValue ? value.value : typeof value === "boolean" ? Number(value) : undefined;
