/** A graph as text to read: one line a node, with the facts that are known. Nothing reads it back. */
import { linesText } from "./lines-text.js";
import type { AttributeValue } from "#insitu/graph/attribute.js";
import { factText } from "#insitu/graph/fact.js";
import { type Graph, type Node, shortened, type Value } from "#insitu/graph/graph.js";

/** The graph, and the bodies of its nodes, as text. */
export const printGraph = (graph: Graph): string => linesText(linesOf(graph, ""));

function linesOf(graph: Graph, indent: string): string[] {
  const lines = [`${indent}graph ${graph.name || "main"}(${graph.inputs.map(typed).join(", ")})`];
  for (const node of graph.nodes) {
    const outputs = node.outputs.map((value) => (value === undefined ? "–" : typed(value))).join(", ");
    lines.push(`${indent}  ${outputs} = ${callText(node)}`);
    for (const [name, body] of node.bodies) lines.push(`${indent}    ${name}:`, ...linesOf(body, `${indent}    `));
  }
  lines.push(`${indent}  return ${graph.outputs.map(nameText).join(", ")}`);
  return lines;
}

/** `Add-14(x, y) {axis=1}`: an operator with its version, its operands and its attributes. */
export const callText = (node: Node): string =>
  `${node.op.name}-${node.op.since}(${node.inputs.map(nameText).join(", ")})${attributeText(node)}`;

const nameText = (value: Value | undefined): string => (value === undefined ? "–" : shortened(value.name));

const typed = (value: Value): string =>
  value.fact === undefined ? nameText(value) : `${nameText(value)}: ${factText(value.fact)}`;

/** Elements shown of an attribute that is a list. */
const shownElements = 8;

function attributeText({ attributes }: Node): string {
  const parts: string[] = [];
  for (const [name, attribute] of attributes) parts.push(`${name}=${valueText(attribute)}`);
  return parts.length === 0 ? "" : ` {${parts.join(", ")}}`;
}

function valueText(attribute: AttributeValue): string {
  switch (attribute.kind) {
    case "ints":
    case "floats":
    case "strings": {
      const { length } = attribute.value;
      const shown = attribute.value.slice(0, shownElements).map((each) => shortened(String(each)));
      return `[${shown.join(",")}${length > shownElements ? ",…" : ""}]`;
    }
    case "int":
    case "float":
    case "string":
    case "tensor":
      return shortened(String(attribute.value));
    case "graph":
    case "other":
      return "{…}";
    default:
      return attribute satisfies never;
  }
}
