/**
 * Patterns over graphs. A pattern looks at a value and at the nodes behind it, and hands out every way in which it fits:
 *
 *     const x = hole();
 *     const epsilon = hole();
 *     const root = op("Sqrt", [unordered("Add", mean(op("Mul", [x, x])), scalar(positive, epsilon))]);
 *     for (const match of root(value, Match.at(index))) match.value(x) …
 *
 * Operators are known by the name and domain they declare. A hole takes any value, and the same one wherever it stands. What patterns
 * cannot say (shapes, spans, types) their user asks of the match. Matching changes nothing: see rewrite.ts.
 */
import { unreachable } from "../base/error.js";
import type { Node, Value } from "../graph/graph.js";
import { numberOf, standsFor, typeOf } from "./facts.js";
import type { GraphIndex } from "./graph-index.js";

/** Hands out the ways in which a value fits, given what has been matched already. */
export interface Pattern {
  (value: Value, match: Match): Iterable<Match>;
  /** The operators that can make such a value; left out where anything can. */
  readonly from?: ReadonlySet<string> | undefined;
}

const made = (from: ReadonlySet<string> | undefined, ways: (value: Value, match: Match) => Iterable<Match>): Pattern =>
  Object.assign(ways, { from });

const nothing: readonly Match[] = [];

/** What holes stand for, and the nodes that were matched on the way. Never changed: every step makes a new one. */
export class Match {
  readonly index: GraphIndex;
  /** The nodes that the pattern spells out: what a rewrite takes the place of. */
  readonly nodes: readonly Node[];
  readonly #values: ReadonlyMap<Pattern, Value>;
  /** Values inside the pattern: named, but not among its operands. */
  readonly #inner: ReadonlySet<Value>;

  private constructor(
    index: GraphIndex,
    nodes: readonly Node[],
    values: ReadonlyMap<Pattern, Value>,
    inner: ReadonlySet<Value>,
  ) {
    this.index = index;
    this.nodes = nodes;
    this.#values = values;
    this.#inner = inner;
  }

  /** A match of nothing yet. */
  static at(index: GraphIndex): Match {
    return new Match(index, [], new Map(), new Set());
  }

  /** What a hole stands for. */
  value(hole: Pattern): Value {
    return this.#values.get(hole) ?? unreachable("a pattern did not fill a hole that its rewrite asks for");
  }

  /** What a hole stands for, where the way that fitted has it. */
  find(hole: Pattern): Value | undefined {
    return this.#values.get(hole);
  }

  /** The number that a hole stands for; `absent` where the way that fitted has none. */
  number(hole: Pattern, absent?: number): number {
    return numberOf(this.#values.get(hole)) ?? absent ?? unreachable("a hole holds no number");
  }

  /** The node that makes what a hole stands for. */
  node(hole: Pattern): Node {
    return this.index.producerOf(this.value(hole)) ?? unreachable("a hole holds no node's output");
  }

  /** The values that the pattern reads from outside. */
  operands(): Set<Value> {
    return new Set([...this.#values.values()].filter((value) => !this.#inner.has(value)));
  }

  /** The match with one more node. */
  with(node: Node): Match {
    return new Match(this.index, [...this.nodes, node], this.#values, this.#inner);
  }

  /** The match with the nodes of an earlier one. */
  withNodesOf(earlier: Match): Match {
    return new Match(this.index, earlier.nodes, this.#values, this.#inner);
  }

  /** The match with a hole filled; undefined where it holds another value already. */
  fill(hole: Pattern, value: Value, inside: boolean): Match | undefined {
    const held = this.#values.get(hole);
    if (held !== undefined && held !== value) return undefined;
    const inner = inside ? new Set(this.#inner).add(value) : this.#inner;
    return new Match(this.index, this.nodes, new Map(this.#values).set(hole, value), inner);
  }
}

/** A place for any value. */
export function hole(): Pattern {
  const own: Pattern = (value, match) => {
    const filled = match.fill(own, value, false);
    return filled === undefined ? nothing : [filled];
  };
  return own;
}

/** The pattern, with the value it fits named by a hole. The value counts as the pattern's own, not as an operand. */
export function bound(as: Pattern, pattern: Pattern): Pattern {
  return made(pattern.from, function* (value, match) {
    for (const found of pattern(value, match)) {
      const filled = found.fill(as, value, true);
      if (filled !== undefined) yield filled;
    }
  });
}

/** How a node is recognised beside its name. */
interface OpOptions {
  /** ONNX's own domain when left out. */
  readonly domain?: string;
  /** Further operands may follow those of the pattern. */
  readonly more?: boolean;
  /** What else must hold of the node. */
  readonly where?: (node: Node, match: Match) => boolean;
}

/** The first output of an operator, with patterns for its operands. */
export function op(name: string, operands: readonly Pattern[], options: OpOptions = {}): Pattern {
  const { domain = "", more = false, where } = options;
  return made(new Set([name]), function* (value, match) {
    const node = match.index.producerOf(value);
    if (node === undefined || node.op.name !== name || node.op.domain !== domain || node.outputs[0] !== value) return;
    if (node.inputs.length < operands.length || (!more && node.inputs.length > operands.length)) return;
    if (where !== undefined && !where(node, match)) return;
    yield* fitAll(operands, node.inputs, match.with(node));
  });
}

/** An operator of two operands that may stand in either order. */
export function unordered(name: string, first: Pattern, second: Pattern): Pattern {
  return made(new Set([name]), function* (value, match) {
    const node = match.index.producerOf(value);
    if (node === undefined || node.op.name !== name || node.op.domain !== "" || node.inputs.length !== 2) return;
    const [left, right] = node.inputs;
    yield* fitAll([first, second], [left, right], match.with(node));
    if (left !== right) yield* fitAll([first, second], [right, left], match.with(node));
  });
}

/** A product of several factors, in any order and grouping. */
export const product = (...factors: readonly Pattern[]): Pattern => grouped("Mul", factors);

/** A sum of several terms, in any order and grouping. */
export const sum = (...terms: readonly Pattern[]): Pattern => grouped("Add", terms);

function grouped(name: string, parts: readonly Pattern[]): Pattern {
  if (parts.length === 1) return parts[0];
  const ways: Pattern[] = [];
  // Every split in two; the first part stays on the left, since operands may stand in either order.
  for (let choice = 0; choice < 2 ** (parts.length - 1) - 1; choice++) {
    const onLeft = (at: number): boolean => at === 0 || ((choice >> (at - 1)) & 1) === 1;
    const left = grouped(
      name,
      parts.filter((_, at) => onLeft(at)),
    );
    const right = grouped(
      name,
      parts.filter((_, at) => !onLeft(at)),
    );
    ways.push(unordered(name, left, right));
  }
  return either(...ways);
}

/** A value that one of the patterns fits; they are tried in this order. */
export function either(...patterns: readonly Pattern[]): Pattern {
  const from = patterns.every((pattern) => pattern.from !== undefined)
    ? new Set(patterns.flatMap((pattern) => [...pattern.from!]))
    : undefined;
  return made(from, function* (value, match) {
    for (const pattern of patterns) yield* pattern(value, match);
  });
}

/** The pattern behind an operator that may be there or not. Its further operands may be anything. */
export const optional = (name: string, pattern: Pattern, options: Omit<OpOptions, "more"> = {}): Pattern =>
  either(op(name, [pattern], { ...options, more: true }), pattern);

/** A constant of one element, which is `wanted` in its type or as it says, named by a hole where one is given. */
export function scalar(wanted: number | ((number: number) => boolean), as?: Pattern): Pattern {
  return (value, match) => {
    const number = numberOf(value);
    if (number === undefined) return nothing;
    const fits = typeof wanted === "number" ? standsFor(number, wanted, typeOf(value)) : wanted(number);
    if (!fits) return nothing;
    const filled = as === undefined ? match : match.fill(as, value, false);
    return filled === undefined ? nothing : [filled];
  };
}

/** The pattern, whose nodes the rewrite leaves where they are: they may be read elsewhere. */
export function shared(pattern: Pattern): Pattern {
  return made(pattern.from, function* (value, match) {
    for (const found of pattern(value, match)) yield found.withNodesOf(match);
  });
}

/** The pattern, where something more holds. */
export function provided(pattern: Pattern, holds: (value: Value, match: Match) => boolean): Pattern {
  return made(pattern.from, function* (value, match) {
    for (const found of pattern(value, match)) if (holds(value, found)) yield found;
  });
}

function* fitAll(
  patterns: readonly Pattern[],
  values: readonly (Value | undefined)[],
  match: Match,
  at = 0,
): Generator<Match> {
  if (at === patterns.length) {
    yield match;
    return;
  }
  const value = values[at];
  if (value === undefined) return;
  for (const found of patterns[at](value, match)) yield* fitAll(patterns, values, found, at + 1);
}
