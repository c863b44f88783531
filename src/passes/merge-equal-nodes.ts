/**
 * Nodes that compute the same thing, computed once.
 *
 *     angles ──▶ Cos ──▶ a ──▶ layer 0              angles ──▶ Cos ──▶ a ─┬▶ layer 0
 *      ╰───────▶ Cos ──▶ b ──▶ layer 1         ⇒                          ╰▶ layer 1
 *
 * Exporters repeat for every layer what belongs to all. Chance is never shared, nor a result that a later node updates: it would need a
 * copy of its own again. Readers of a cache that is updated stay as the file has them, since verdicts name them.
 */
import type { AttributeValues } from "../graph/attribute.js";
import type { Graph, Node, Value } from "../graph/graph.js";
import { replaceValues } from "./fold-constants.js";
import { updatedValues } from "./updated-values.js";

/** The graph with one node in the place of several equal ones. */
export function mergeEqualNodes(graph: Graph): Graph {
  const outputs = new Set(graph.outputs);
  const updated = updatedValues(graph);
  const numbers = new Map<Value, number>();
  const replacements = new Map<Value, Value>();
  const seen = new Map<string, Node>();
  const kept: Node[] = [];
  const numberOf = (value: Value | undefined): number => {
    if (value === undefined) return -1;
    const own = replacements.get(value) ?? value;
    const number = numbers.get(own) ?? numbers.size;
    numbers.set(own, number);
    return number;
  };
  for (const node of graph.nodes) {
    const attributes = textOf(node.attributes);
    const mayShare =
      !node.op.random &&
      node.bodies.size === 0 &&
      attributes !== undefined &&
      node.inputs.every((value) => value === undefined || !updated.has(value)) &&
      node.outputs.every((value) => value === undefined || (!updated.has(value) && !outputs.has(value)));
    if (!mayShare) {
      kept.push(node);
      continue;
    }
    const { domain, name } = node.op;
    const key = `${domain}::${name}:${node.opset}(${node.inputs.map(numberOf).join()})${attributes}${node.wanted.join()}`;
    const before = seen.get(key);
    if (before === undefined) {
      seen.set(key, node);
      kept.push(node);
    } else
      node.outputs.forEach((value, at) => {
        if (value !== undefined) replacements.set(value, before.outputs[at]!);
      });
  }
  return replacements.size === 0 ? graph : replaceValues({ ...graph, nodes: kept }, replacements);
}

/** Attributes as text; undefined where one is too large to compare. */
function textOf(attributes: AttributeValues): string | undefined {
  if (attributes.size === 0) return "";
  const parts: string[] = [];
  for (const [name, attribute] of [...attributes].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (!("value" in attribute) || attribute.kind === "tensor") return undefined;
    const { kind, value } = attribute;
    const values = typeof value === "object" && Symbol.iterator in value ? [...value] : [value];
    parts.push(JSON.stringify([name, kind, values.map(exactText)]));
  }
  return `{${parts.join(";")}}`;
}

/** A number or a text, as text that no other has: zero keeps its sign. */
const exactText = (value: unknown): string => (Object.is(value, -0) ? "-0" : String(value));
