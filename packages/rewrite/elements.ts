/**
 * Elements of a graph's values, looked up through the nodes that make them: `of(mask, [b, h, i, k])` is what the mask says there. Where a
 * node is not known to move or compute elements one by one, the element stays a `read` of that node's output.
 */
import { addDims, type Dim, isKnownShape, multiplyDims, subtractDims } from "#insitu/graph/dim.js";
import { integersOf } from "#insitu/graph/fact.js";
import type { Graph, Node, Value } from "#insitu/graph/graph.js";
import { readIntegers, readNumbers } from "#insitu/tensor/access.js";
import { traitsOf } from "#insitu/tensor/element-type.js";
import type { View } from "#insitu/tensor/view.js";
import { atLeastZero, choose, type Element, integer, numeric, read, truth } from "./element.js";
import { spend } from "./effort.js";
import { layoutRules, stairsOf } from "./element-layout.js";
import { valueRules } from "./element-values.js";
import type { Ranges } from "./ranges.js";

/** What a rule is asked: which element of which output of which node. */
export interface Question {
  readonly node: Node;
  readonly output: Value;
  readonly index: readonly Dim[];
  readonly ranges: Ranges;
  /** An element of one of the node's operands. */
  readonly of: (value: Value, index: readonly Dim[]) => Element;
}

/** How an operator's output elements come from its operands'; undefined where this node is not understood. */
export type Rule = (question: Question) => Element | undefined;

/** What is taken for granted about values. */
export interface Assumptions {
  /** Elements of these values are what the function says. */
  readonly assumed?: ReadonlyMap<Value, (index: readonly Dim[]) => Element>;
  /** These values are not looked behind. */
  readonly closed?: ReadonlySet<Value>;
}

/** Constants of which elements are looked up have at most this many; what decides a mask or a position is no larger. */
export const mostRead: number = 2 ** 20;

/** Nodes that are followed behind one another, at most: beyond, the element stays a read. */
const deepest = 400;

/** The elements of one graph's values. */
export class Elements {
  readonly ranges: Ranges;
  readonly #producers: ReadonlyMap<Value, Node>;
  readonly #assumptions: Assumptions;
  readonly #known = new Map<Value, Map<string, Element>>();
  #depth = 0;

  constructor(graph: Graph, ranges: Ranges, assumptions: Assumptions = {}) {
    this.ranges = ranges;
    this.#assumptions = assumptions;
    this.#producers = producersOf(graph);
  }

  /** The node that makes a value. */
  producerOf(value: Value): Node | undefined {
    return this.#producers.get(value);
  }

  /** One element of a value. */
  of(value: Value, index: readonly Dim[]): Element {
    const own = this.#known.get(value) ?? new Map<string, Element>();
    this.#known.set(value, own);
    const key = index.join();
    const known = own.get(key);
    if (known !== undefined) return known;
    spend(1 + index.length);
    const found = this.#find(value, index);
    own.set(key, found);
    return found;
  }

  /** The element one node further back, where the node only moves elements of one operand. */
  before(value: Value, index: readonly Dim[]): { readonly value: Value; readonly index: readonly Dim[] } | undefined {
    const node = this.#producers.get(value);
    const rule = node && node.op.domain === "" ? layoutRules[node.op.name] : undefined;
    if (node === undefined || rule === undefined || value.fact?.constant !== undefined) return undefined;
    spend(1 + index.length);
    const found = rule({ node, output: value, index, ranges: this.ranges, of: read });
    return found?.kind === "read" ? { value: found.from, index: found.index } : undefined;
  }

  #find(value: Value, index: readonly Dim[]): Element {
    const assumed = this.#assumptions.assumed?.get(value);
    if (assumed !== undefined) return assumed(index);
    const constant = value.fact?.constant ?? value.initializer;
    if (constant !== undefined) return constantElement(constant, index, this.ranges) ?? read(value, index);
    const listed = integersOf(value.fact);
    if (listed?.length === 1) return integer(listed[0]);
    if (listed !== undefined && index.length === 1 && typeof index[0] === "number" && index[0] < listed.length)
      return integer(listed[index[0]]);
    const node = this.#producers.get(value);
    if (node === undefined || node.op.domain !== "" || this.#assumptions.closed?.has(value) || this.#depth > deepest)
      return read(value, index);
    if (value.fact?.shape?.length !== index.length) return read(value, index);
    this.#depth++;
    try {
      const of = (operand: Value, at: readonly Dim[]): Element => this.of(operand, at);
      const question = { node, output: value, index, ranges: this.ranges, of };
      return layoutRules[node.op.name]?.(question) ?? valueRules[node.op.name]?.(question) ?? read(value, index);
    } finally {
      this.#depth--;
    }
  }
}

/** Who makes each value, by graph: many questions are asked of one. */
const knownProducers = new WeakMap<Graph, ReadonlyMap<Value, Node>>();

function producersOf(graph: Graph): ReadonlyMap<Value, Node> {
  const known = knownProducers.get(graph);
  if (known !== undefined) return known;
  const producers = new Map<Value, Node>();
  for (const node of graph.nodes) for (const value of node.outputs) if (value !== undefined) producers.set(value, node);
  knownProducers.set(graph, producers);
  return producers;
}

/** An element of a constant: the same everywhere, known at a known index, or a whole number that grows evenly along the axes. */
function constantElement(view: View, index: readonly Dim[], ranges: Ranges): Element | undefined {
  const { kind } = traitsOf(view.type);
  if (view.size === 0 || view.size > mostRead || !["float", "integer", "bool"].includes(kind)) return undefined;
  const single = (at: View): Element => {
    const number = kind === "integer" ? readIntegers(at)[0] : readNumbers(at)[0];
    return kind === "bool" ? truth(number !== 0) : numeric(number);
  };
  if (view.size === 1) return single(view);
  if (isKnownShape(index)) {
    const inside = index.every((at, axis) => at >= 0 && at < view.shape[axis]);
    return inside ? single(index.reduce((part, at, axis) => part.slice(axis, at, at + 1), view)) : undefined;
  }
  // Axes whose index is known are left out of what must be even.
  const part = index.reduce<View>(
    (rest, at, axis) =>
      typeof at === "number" && at >= 0 && at < rest.shape[axis] ? rest.slice(axis, at, at + 1) : rest,
    view,
  );
  if (!index.every((at, axis) => ranges.isLookup(at, view.shape[axis]))) return undefined;
  spend(part.size / 64);
  const numbers = kind === "integer" ? readIntegers(part) : readNumbers(part);
  if (numbers.every((number) => number === numbers[0])) return single(part);
  const even = kind === "integer" ? evenElement(numbers as readonly number[], part.shape, index) : undefined;
  const stepped = even === undefined && kind === "integer" ? steppedElement(numbers, part.shape, index, ranges) : even;
  if (stepped !== undefined) return stepped;
  const of = (number: number): Element => (kind === "bool" ? truth(number !== 0) : numeric(number));
  return triangleElement(numbers, part.shape, index, ranges, of);
}

/** One number on and below a diagonal, another above it. */
function triangleElement(
  numbers: ArrayLike<number>,
  shape: readonly number[],
  index: readonly Dim[],
  ranges: Ranges,
  of: (number: number) => Element,
): Element | undefined {
  const varied = shape.flatMap((size, axis) => (size === 1 ? [] : [axis]));
  if (varied.length !== 2) return undefined;
  const [height, width] = varied.map((axis) => shape[axis]);
  const [below, above] = [numbers[(height - 1) * width], numbers[width - 1]];
  const edges = Array.from({ length: height }, (_, row) => {
    let edge = 0;
    while (edge < width && numbers[row * width + edge] === below) edge++;
    return edge;
  });
  const first = edges.findIndex((edge) => edge > 0);
  const shift = edges[first] - 1 - first; // columns up to row + shift lie below
  const follows = edges.every((edge, row) => {
    if (edge !== Math.min(Math.max(row + shift + 1, 0), width)) return false;
    for (let column = edge; column < width; column++) if (numbers[row * width + column] !== above) return false;
    return true;
  });
  if (!follows || below === above) return undefined;
  const gap = addDims(subtractDims(index[varied[0]], index[varied[1]]), shift);
  return choose(atLeastZero(gap, ranges), of(below), of(above));
}

/** start + step · ⌊index / n⌋ along one axis, where all elements follow it. */
function steppedElement(
  numbers: ArrayLike<number>,
  shape: readonly number[],
  index: readonly Dim[],
  ranges: Ranges,
): Element | undefined {
  const varied = shape.flatMap((size, axis) => (size === 1 ? [] : [axis]));
  const stairs = varied.length === 1 ? stairsOf(Array.from(numbers)) : undefined;
  if (stairs === undefined) return undefined;
  const climbed = multiplyDims(ranges.divide(index[varied[0]], stairs.width).quotient, stairs.step);
  return integer(addDims(climbed, numbers[0]));
}

/** start + step · index + …, where all elements follow it. */
function evenElement(numbers: readonly number[], shape: readonly number[], index: readonly Dim[]): Element | undefined {
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
  const steps = shape.map((size, axis) => (size === 1 ? 0 : numbers[strides[axis]] - numbers[0]));
  const follows = numbers.every((number, at) => {
    const expected = shape.reduce(
      (sum, size, axis) => sum + steps[axis] * (Math.floor(at / strides[axis]) % size),
      numbers[0],
    );
    return number === expected;
  });
  if (!follows) return undefined;
  return integer(
    steps.reduce<Dim>(
      (sum, step, axis) => (step === 0 ? sum : addDims(sum, multiplyDims(index[axis], step))),
      numbers[0],
    ),
  );
}
