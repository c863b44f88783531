/** Which operators of a model are not declared: told all at once, where loading stops at the first. */
import type { Model, ModelGraph, ModelNode } from "../onnx/model.js";
import { operators } from "../ops/index.js";

/** The operators that a model calls and insitu does not have, each with how many nodes call it; `Foo (12 nodes)`. */
export function missingOperators(model: Model): string[] {
  const counts = new Map<string, number>();
  const local = new Set(model.functions.map(({ domain, name }) => `${domain}::${name}`));
  const visit = (nodes: readonly ModelNode[], opsets: ReadonlyMap<string, number>): void => {
    for (const node of nodes) {
      const domain = node.domain === "ai.onnx" ? "" : node.domain;
      const known =
        local.has(`${node.domain}::${node.opType}`) ||
        operators.find(domain, node.opType, opsets.get(domain) ?? 1) !== undefined;
      const name = domain === "" ? node.opType : `${domain}::${node.opType}`;
      if (!known) counts.set(name, (counts.get(name) ?? 0) + 1);
      for (const graph of bodiesOf(node)) visit(graph.nodes, opsets);
    }
  };
  visit(model.graph.nodes, model.opsets);
  for (const part of model.functions) visit(part.nodes, part.opsets);
  return [...counts]
    .sort((a, b) => b[1] - a[1])
    .map(([name, count]) => `${name} (${count} node${count === 1 ? "" : "s"})`);
}

const bodiesOf = (node: ModelNode): ModelGraph[] =>
  [...node.attributes.values()].flatMap((attribute) =>
    attribute.kind === "graph" ? [attribute.value] : attribute.kind === "graphs" ? [...attribute.value] : [],
  );
