/** Between which numbers a value's elements lie, where the nodes behind it tell. Asked of masks: one that is finite hides no key completely. */
import type { Node, Value } from "../graph/graph.js";
import { readNumbers } from "../tensor/access.js";
import { traitsOf } from "../tensor/element-type.js";
import type { View } from "../tensor/view.js";
import { typeOf } from "./facts.js";

/** The least and the greatest that an element can be. */
interface Bounds {
  readonly low: number;
  readonly high: number;
}

/** Who can tell which node makes a value. */
interface Producers {
  producerOf(value: Value): Node | undefined;
}

/** Elements of a constant that are looked at, at most. */
const mostRead = 2 ** 16;
/** Nodes that are followed behind one another, at most. */
const deepest = 24;

/** The bounds of a value; undefined where nothing is known. */
const boundsOf = (value: Value | undefined, producers: Producers): Bounds | undefined =>
  new Search(producers).of(value, 0);

/** Bounds of values behind one another, each looked for once: a sum of a value with itself is two ways to it. */
class Search {
  readonly #producers: Producers;
  readonly #known = new Map<Value, Bounds | undefined>();

  constructor(producers: Producers) {
    this.#producers = producers;
  }

  of(value: Value | undefined, depth: number): Bounds | undefined {
    if (value === undefined || depth > deepest) return undefined;
    if (!this.#known.has(value))
      this.#known.set(
        value,
        find(value, this.#producers, (operand) => this.of(operand, depth + 1)),
      );
    return this.#known.get(value);
  }
}

/** Bounds of constants: one mask serves many attentions. */
const ofConstants = new WeakMap<View, Bounds>();

function find(
  value: Value,
  producers: Producers,
  behind: (operand: Value | undefined) => Bounds | undefined,
): Bounds | undefined {
  const type = typeOf(value);
  if (type === "bool") return { low: 0, high: 1 };
  if (type !== undefined && traitsOf(type).kind === "integer") return { low: -(2 ** 63), high: 2 ** 64 };
  const constant = value.fact?.constant;
  if (constant !== undefined) {
    if (traitsOf(constant.type).kind !== "float" || constant.size === 0 || constant.size > mostRead) return undefined;
    const known = ofConstants.get(constant) ?? join(readNumbers(constant));
    ofConstants.set(constant, known);
    return known;
  }
  const node = producers.producerOf(value);
  if (node === undefined || node.op.domain !== "") return undefined;
  const of = (position: number): Bounds | undefined => behind(node.inputs[position]);
  switch (node.op.name) {
    case "Expand":
    case "Gather":
    case "GatherND":
    case "Identity":
    case "Reshape":
    case "Slice":
    case "Squeeze":
    case "Tile":
    case "Transpose":
    case "Unsqueeze":
      return of(0);
    case "Cast":
      // Rounding to a narrower type may leave the finite numbers.
      return type === "float32" || type === "float64" ? of(0) : undefined;
    case "Trilu":
      return combine(of(0), { low: 0, high: 0 }, (a, b) => [...a, ...b]);
    case "Where":
      return combine(of(1), of(2), (a, b) => [...a, ...b]);
    case "Add":
      return combine(of(0), of(1), ([a, b], [c, d]) => [a + c, b + d]);
    case "Sub":
      return combine(of(0), of(1), ([a, b], [c, d]) => [a - d, b - c]);
    case "Mul":
      return combine(of(0), of(1), ([a, b], [c, d]) => [a * c, a * d, b * c, b * d]);
    default:
      return undefined;
  }
}

function join(numbers: ArrayLike<number>): Bounds {
  let [low, high] = [Infinity, -Infinity];
  for (let at = 0; at < numbers.length; at++) {
    // A NaN makes both NaN for good.
    low = Math.min(low, numbers[at]);
    high = Math.max(high, numbers[at]);
  }
  return { low, high };
}

function combine(
  a: Bounds | undefined,
  b: Bounds | undefined,
  ends: (a: readonly [number, number], b: readonly [number, number]) => readonly number[],
): Bounds | undefined {
  return a && b && join(ends([a.low, a.high], [b.low, b.high]));
}

/** True if the sum of the values is shown to be a finite number in every element, and each of them too. */
export function isFiniteSum(values: readonly Value[], producers: Producers): boolean {
  let [low, high] = [0, 0];
  for (const value of values) {
    const bounds = boundsOf(value, producers);
    if (bounds === undefined) return false;
    low += bounds.low;
    high += bounds.high;
    const round = typeOf(value) === "float16" ? roundToHalf : Math.fround;
    if (![bounds.low, bounds.high, low, high].every((end) => Number.isFinite(round(end)))) return false;
  }
  return true;
}

/** Where float16 ends: halfway past its greatest number. */
const roundToHalf = (number: number): number => (Math.abs(number) < 65520 ? number : Infinity);
