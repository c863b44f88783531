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
import { readNumbers } from "../tensor/access.js";
import type { ElementType } from "../tensor/element-type.js";
import { haveSameShape, integersOf, numberOf, orderOf, sameNumbers, shapeOf, typeOf } from "./facts.js";
import { replaceValues } from "./fold-constants.js";
import { updatedValues } from "./updated-values.js";

/** The graph without nodes whose result is one of their operands. */
export function removeNoOps(graph: Graph): Graph {
  const outputs = new Set(graph.outputs);
  const updated = updatedValues(graph);
  const producers = new Map<Value, Node>();
  const replacements = new Map<Value, Value>();
  const kept: Node[] = [];
  for (const node of graph.nodes) {
    const [result, ...others] = node.outputs;
    if (result !== undefined) producers.set(result, node);
    const operand =
      result === undefined ||
      outputs.has(result) ||
      others.some((value) => value !== undefined) ||
      node.inputs.some((value) => value !== undefined && updated.has(value))
        ? undefined
        : sameOperand(node, result, producers);
    if (operand === undefined) kept.push(node);
    else replacements.set(result!, replacements.get(operand) ?? operand);
  }
  return replacements.size === 0 ? graph : replaceValues({ ...graph, nodes: kept }, replacements);
}

/** The earlier value that a node's result is equal to. */
function sameOperand(node: Node, result: Value, producers: ReadonlyMap<Value, Node>): Value | undefined {
  const [data] = node.inputs;
  if (data === undefined || node.bodies.size > 0) return undefined;
  if (showsSameBytes(node)) return sameThroughViews(data, result, producers);
  if (typeOf(data) === typeOf(result) && haveSameShape(data, result) && keepsElements(node)) return data;
  const second = node.inputs[1];
  // The other operand of these may be the one that changes nothing.
  if (second !== undefined && ["Mul", "And", "Or"].includes(node.op.name) && node.op.domain === "")
    return haveSameShape(second, result) && isNeutral(node, data) ? second : undefined;
  if (node.op.name === "Cast" && node.op.domain === "") return beforeWidening(data, result, producers);
  return undefined;
}

/** True if the declaration says that the first output is the first operand's bytes. */
function showsSameBytes(node: Node): boolean {
  const effect = node.op.effects[Object.keys(node.op.outputs)[0]];
  return effect?.kind === "view" && effect.of === Object.keys(node.op.inputs)[0];
}

/** The nearest value behind views that has the result's own type and shape: the bytes lie in the same order all along. */
function sameThroughViews(data: Value, result: Value, producers: ReadonlyMap<Value, Node>): Value | undefined {
  for (let value: Value | undefined = data; value !== undefined;) {
    if (typeOf(value) === typeOf(result) && haveSameShape(value, result)) return value;
    const producer = producers.get(value);
    value =
      producer !== undefined && producer.outputs[0] === value && showsSameBytes(producer)
        ? producer.inputs[0]
        : undefined;
  }
  return undefined;
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
