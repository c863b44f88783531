/** How many tokens a check must run to see a model's masks from both sides: windows that were found, and distances in masks that stay. */
import { type Dim, isKnown } from "#insitu/graph/dim.js";
import type { Analysis } from "#insitu/rewrite/analysis.js";
import type { Element } from "#insitu/rewrite/element.js";

/** A mask that depends on how far the text has come. */
export interface Reach {
  /** `window 100`, or what else is known of it. */
  readonly what: string;
  /** Queries from this position on see something else than all that came before. */
  readonly rows: number;
}

/** What is no distance between rows. */
const largest = 2 ** 20;

/** The reaches of a model's masks, the shortest first; `window` is the widest that the rewritten model has itself. */
export function reachesOf({ attentions }: Analysis, window: number | undefined): Reach[] {
  const found = new Map<string, Reach>();
  const add = (what: string, rows: number): void => {
    if (rows >= 1 && rows <= largest) found.set(what, { what, rows });
  };
  for (const { mask } of attentions) {
    if (mask.window !== undefined) add(`window ${mask.window}`, mask.window);
    const distances = [...mask.others, ...(mask.bias === undefined ? [] : [mask.bias])].flatMap(numbersIn);
    const most = Math.max(0, ...distances.filter((number) => number <= largest));
    if (most > 1) add(`a mask with distances up to ${most}`, most);
  }
  if (window !== undefined) add(`window ${window}`, window);
  return [...found.values()].toSorted((a, b) => a.rows - b.rows);
}

/** Whole numbers in an expression, without their signs: distances, sizes of chunks, rows of tables. */
function numbersIn(element: Element): number[] {
  switch (element.kind) {
    case "integer":
    case "at-least-zero":
    case "zero":
      return numbersOf(element.value);
    case "not":
      return numbersIn(element.of);
    case "and":
    case "or":
    case "call":
      return element.of.flatMap(numbersIn);
    case "choose":
      return [element.when, element.yes, element.no].flatMap(numbersIn);
    case "read": {
      const sizes = element.from.initializer === undefined ? [] : (element.from.fact?.shape ?? []);
      return [...sizes.filter(isKnown), ...element.index.flatMap(numbersOf)];
    }
    case "lookup":
      return [...(element.from.fact?.shape ?? []).filter(isKnown), ...numbersIn(element.at)];
    case "number":
      return Number.isInteger(element.value) ? [Math.abs(element.value)] : [];
    case "truth":
      return [];
    default:
      return element satisfies never;
  }
}

function numbersOf(dim: Dim): number[] {
  if (isKnown(dim)) return [Math.abs(dim)];
  return dim.terms.flatMap(({ coefficient, atoms }) => [
    Math.abs(coefficient),
    ...atoms.flatMap(({ operation }) =>
      operation === undefined ? [] : [...numbersOf(operation.left), ...numbersOf(operation.right)],
    ),
  ]);
}
