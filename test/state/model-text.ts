// Random models looked at: as text, and which of their nodes count.
import type { ModelNode } from "../../src/onnx/model.js";
import { capturedBy, type RandomModel } from "./random-model.js";

/** The model as a person reads it. */
export function textOf({ model, outputs }: RandomModel): string {
  const { graph } = model;
  const inputs = graph.inputs.map(
    ({ name, type }) => `${name}: ${type?.kind === "tensor" ? `${type.elementType}[${type.shape?.join(",")}]` : ""}`,
  );
  const nodes = graph.nodes.map((node) => {
    const attributes = [...node.attributes.values()].map((attribute) =>
      attribute.kind === "graph"
        ? `${attribute.name}: { ${attribute.value.nodes.map((inner) => `${inner.outputs.join(", ")} = ${inner.opType}(${inner.inputs.join(", ")})`).join("; ")} }`
        : `${attribute.name}: ${attribute.kind === "int" || attribute.kind === "string" ? String(attribute.value) : attribute.kind}`,
    );
    return `  ${node.outputs.join(", ")} = ${node.opType}(${[...node.inputs, ...attributes].join(", ")})`;
  });
  return [`inputs ${inputs.join("; ")}`, ...nodes, `outputs ${outputs.map(({ name }) => name).join(", ")}`].join("\n");
}

/** The nodes that an output depends on. */
export function neededNodes({ model: { graph } }: RandomModel): ModelNode[] {
  const needed = new Set(graph.outputs.map(({ name }) => name));
  const kept: ModelNode[] = [];
  for (const node of graph.nodes.toReversed()) {
    if (!node.outputs.some((name) => needed.has(name))) continue;
    kept.push(node);
    // Of what is asked for its shape alone nothing is computed.
    if (node.opType !== "Shape") for (const name of [...node.inputs, ...capturedBy(node)]) needed.add(name);
  }
  return kept;
}
