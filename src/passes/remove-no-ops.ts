/**
 * Nodes that change nothing, removed.
 *
 *     x: float32[batch,64] ──▶ Cast to float32 ──▶ y                  x ──▶ …   (for y, w and z)
 *     x ──▶ Reshape, Expand, Slice to [batch,64] ──▶ w         ⇒
 *     x ──▶ Unsqueeze ──▶ Squeeze ──▶ z
 *
 * Readers read the operand instead. Shapes count as the same if they are for every value of their symbols. A node that makes a graph
 * output stays, since the output's name is its own, and so does a reader of a cache that is updated, since verdicts name it.
 */
import type { Graph, Node, Value } from "../graph/graph.js";
import type { Op } from "../graph/op.js";
import { readNumbers } from "../tensor/access.js";
import type { ElementType } from "../tensor/element-type.js";
import { haveSameShape, integersOf, numberOf, orderOf, sameNumbers, shapeOf, typeOf } from "./facts.js";
import { replaceValues } from "./fold-constants.js";
import { updatedValues } from "./updated-values.js";

/** The graph without nodes whose result is one of their operands. */
export function removeNoOps(graph: Graph): Graph {
  const outputs = new Set(graph.outputs);
  const updated = updatedValues(graph);
  const earlier = new Earlier();
  const replacements = new Map<Value, Value>();
  const kept: Node[] = [];
  for (const node of graph.nodes) {
    const result = node.outputs[0];
    earlier.add(node);
    const operand =
      result === undefined ||
      outputs.has(result) ||
      node.outputs.some((value, at) => at > 0 && value !== undefined) ||
      node.inputs.some((value) => value !== undefined && updated.has(value))
        ? undefined
        : sameOperand(node, result, earlier);
    if (operand === undefined) kept.push(node);
    else replacements.set(result!, replacements.get(operand) ?? operand);
  }
  return replacements.size === 0 ? graph : replaceValues({ ...graph, nodes: kept }, replacements);
}

/** The values of the nodes so far: who made them, and which of them show the same bytes. */
class Earlier {
  readonly producers = new Map<Value, Node>();
  /** The value that a view starts from. */
  readonly #bases = new Map<Value, Value>();
  /** By the value that views start from, the first of them of each type and shape. */
  readonly #alike = new Map<Value, Map<string, Value>>();

  add(node: Node): void {
    const result = node.outputs[0];
    if (result === undefined) return;
    this.producers.set(result, node);
    const data = node.inputs[0];
    if (data !== undefined && showsSameBytes(node)) this.#bases.set(result, this.#bases.get(data) ?? data);
  }

  /** The first value with the bytes of a view that has its type and shape as well; undefined where that is the view itself. */
  alike(view: Value): Value | undefined {
    const base = this.#bases.get(view);
    const key = base && keyOf(view);
    if (base === undefined || key === undefined) return undefined;
    let values = this.#alike.get(base);
    if (values === undefined) {
      const own = keyOf(base);
      this.#alike.set(base, (values = new Map(own === undefined ? [] : [[own, base]])));
    }
    const first = values.get(key);
    if (first === undefined) values.set(key, view);
    return first;
  }
}

/** Type and shape as text, equal where they are the same for every value of their symbols; undefined where the rank is not known. */
const keyOf = (value: Value): string | undefined => {
  const shape = shapeOf(value);
  return shape && `${typeOf(value)} ${shape.join()}`;
};

/** The earlier value that a node's result is equal to. */
function sameOperand(node: Node, result: Value, earlier: Earlier): Value | undefined {
  const data = node.inputs[0];
  if (data === undefined || node.bodies.size > 0) return undefined;
  if (showsSameBytes(node)) return earlier.alike(result);
  if (typeOf(data) === typeOf(result) && haveSameShape(data, result) && keepsElements(node)) return data;
  const second = node.inputs[1];
  // The other operand of these may be the one that changes nothing.
  if (second !== undefined && ["Mul", "And", "Or"].includes(node.op.name) && node.op.domain === "")
    return haveSameShape(second, result) && isNeutral(node, data) ? second : undefined;
  if (node.op.name === "Cast" && node.op.domain === "") return beforeWidening(data, result, earlier.producers);
  return undefined;
}

/** True if the declaration says that the first output is the first operand's bytes. */
function showsSameBytes(node: Node): boolean {
  if (!hasViews.has(node.op)) hasViews.set(node.op, viewsFirst(node.op));
  return hasViews.get(node.op)!;
}

const hasViews = new WeakMap<Op, boolean>();

function viewsFirst({ inputs, outputs, effects }: Op): boolean {
  const effect = effects[Object.keys(outputs)[0]];
  return effect?.kind === "view" && effect.of === Object.keys(inputs)[0];
}

/** True for a node that, where type and shape stay, hands its first operand on. */
function keepsElements(node: Node): boolean {
  if (node.op.domain !== "") return false;
  const [data, second] = node.inputs;
  switch (node.op.name) {
    case "Cast":
    case "CastLike":
    case "Expand":
    case "Tile":
      return true;
    case "Concat":
      return node.inputs.length === 1;
    case "Slice":
      return node.inputs[4] === undefined || (integersOf(node.inputs[4])?.every((step) => step === 1) ?? false);
    case "Transpose": {
      const rank = shapeOf(data)!.length;
      return sameNumbers(orderOf(node, rank), [...Array(rank).keys()]);
    }
    case "Dropout":
      return node.op.since < 12 || node.inputs[2] === undefined || numberOf(node.inputs[2]) === 0;
    case "Mul":
    case "Div":
    case "And":
    case "Or":
      return isNeutral(node, second);
    default:
      return false;
  }
}

/** True if an operand leaves the other one as it is: a factor of 1, true for And, false for Or. */
function isNeutral(node: Node, operand: Value | undefined): boolean {
  const constant = operand?.fact?.constant;
  if (constant === undefined) return false;
  if (node.op.name === "Mul" || node.op.name === "Div") return numberOf(operand) === 1;
  const neutral = node.op.name === "And" ? 1 : 0;
  return readNumbers(constant).every((bit) => (bit === 0 ? 0 : 1) === neutral);
}

const widenings: Readonly<Partial<Record<ElementType, readonly ElementType[]>>> = {
  float16: ["float32", "float64"],
  bfloat16: ["float32", "float64"],
  float32: ["float64"],
};

/** True if every number of one type is a number of the other. */
export const widens = (from: ElementType | undefined, to: ElementType | undefined): boolean =>
  from !== undefined && to !== undefined && (widenings[from]?.includes(to) ?? false);

/** What a Cast brings back to the type it had before an earlier Cast widened it. */
function beforeWidening(data: Value, result: Value, producers: ReadonlyMap<Value, Node>): Value | undefined {
  const producer = producers.get(data);
  const before = producer?.op.name === "Cast" && producer.op.domain === "" ? producer.inputs[0] : undefined;
  return before !== undefined && typeOf(before) === typeOf(result) && widens(typeOf(before), typeOf(data))
    ? before
    : undefined;
}
