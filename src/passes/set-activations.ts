/**
 * How products with weights of few bits take their activations, where the caller says so and not the file: each MatMulNBits gets the accuracy_level that
 * stands for it. Levels 1 to 3 ask for floats of some kind and are kept where bytes are wanted. Subgraphs run on the reference implementation, which
 * never rounds.
 */
import { int } from "../graph/attribute-values.js";
import type { Graph, Node } from "../graph/graph.js";

/**
 * How products with weights of few bits take activations: as the file's `accuracy_level` says, as floats, or rounded to 8 bits wherever the file does not
 * ask for floats.
 */
export type Activations = "file" | "float" | "int8";

/** Levels of accuracy: the file leaves it open; float32; bytes. */
const [open, floats, bytes] = [0, 1, 4];

/** The graph with the accuracy that was asked for; the same graph where it has it already. */
export function setActivations(graph: Graph, activations: Activations): Graph {
  if (activations === "file") return graph;
  const nodes = graph.nodes.map((node) => {
    if (node.op.name !== "MatMulNBits" || node.op.domain !== "com.microsoft") return node;
    const given = node.attrs["accuracy_level"] as number;
    const level = activations === "float" ? floats : given === open ? bytes : given;
    if (level === given) return node;
    const attributes = new Map([...node.attributes, ["accuracy_level", int(level)]]);
    return { ...node, attributes, attrs: { ...node.attrs, accuracy_level: level } };
  });
  return nodes.some((node, at) => node !== graph.nodes[at]) ? { ...graph, nodes } : graph;
}

/** True for a product that rounds its activations to bytes. */
export const roundsActivations = ({ attrs }: Node): boolean => attrs["accuracy_level"] === bytes;
