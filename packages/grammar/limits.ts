/** What one rule for texts may cost, and the error of one that costs more or cannot be enforced. */
import { InsituError } from "#insitu/base/error.js";

/** Bounds on one schema, and on all of its patterns together. */
export const limits: Readonly<
  Record<
    | "depth"
    | "schemas"
    | "values"
    | "count"
    | "most"
    | "countedInside"
    | "pattern"
    | "bytes"
    | "nesting"
    | "steps"
    | "stepsOfProperty"
    | "stepsOfToken"
    | "repeatedEdges"
    | "alternatives"
    | "remainders",
    number
  >
> = {
  depth: 32,
  schemas: 500,
  values: 1000,
  /** What least counts may be: so many states are made. */
  count: 1024,
  /** What most counts may be: they are counted as a text comes. */
  most: 2 ** 31,
  /** Most characters of texts beside patterns that are counted by states: fewer end what patterns alone would follow for long. */
  countedInside: 24,
  pattern: 1024,
  bytes: 256 * 1024,
  /** Arrays and objects inside each other, in values too. */
  nesting: 100,
  /** Steps that making automata of its patterns, formats and bounds may take. */
  steps: 500_000,
  /** What a property of Unicode counts for that was not asked for before. */
  stepsOfProperty: 60_000,
  /** Bytes that automata may read to find the tokens that may come next: many alternatives that go on alike take that many. */
  stepsOfToken: 250_000,
  /** Times that a part with an anchor or a lookahead may be repeated. */
  repeatedEdges: 64,
  /** Ways in which schemas that hold at once may all hold. */
  alternatives: 64,
  /** Remainders that multiples are told by. */
  remainders: 10_000,
};

/** The error for a schema that cannot be enforced, at a place in it. */
export const refusal = (path: string, why: string): InsituError =>
  new InsituError("invalid-argument", refusalText(path, why));

const refusalText = (path: string, why: string): string =>
  `the schema cannot be enforced${path === "" ? "" : ` at ${path}`}: it ${why}`;

/** The error for a schema that no value obeys: where there are others to choose from, it is left out. */
export class NoValue extends InsituError {
  constructor(path: string, why: string) {
    super("invalid-argument", refusalText(path, why));
  }
}

/** What a part comes to; nothing where no value obeys it. */
export function unlessNone<T>(make: () => T): readonly T[] {
  try {
    return [make()];
  } catch (error) {
    if (error instanceof NoValue) return [];
    throw error;
  }
}
