/** Which operators of a model are not declared: told all at once, and before weights are read, where loading stops at the first. */
import { InsituError } from "../base/error.js";
import type { Model, ModelGraph, ModelNode } from "../onnx/model.js";
import { operators } from "../ops/index.js";

/** The operators that a model calls and insitu does not have, each with how many nodes call it; `Foo (12 nodes, the first is "foo_0")`. */
export function missingOperators(model: Model): string[] {
  const counts = new Map<string, { count: number; first: string }>();
  const local = new Set(model.functions.map(({ domain, name }) => `${domain}::${name}`));
  const visit = (nodes: readonly ModelNode[], opsets: ReadonlyMap<string, number>): void => {
    for (const node of nodes) {
      const domain = node.domain === "ai.onnx" ? "" : node.domain;
      const known =
        local.has(`${node.domain}::${node.opType}`) ||
        operators.find(domain, node.opType, opsets.get(domain) ?? 1) !== undefined;
      const name = domain === "" ? node.opType : `${domain}::${node.opType}`;
      const before = counts.get(name) ?? { count: 0, first: node.name || node.outputs[0] };
      if (!known) counts.set(name, { ...before, count: before.count + 1 });
      for (const graph of bodiesOf(node)) visit(graph.nodes, opsets);
    }
  };
  visit(model.graph.nodes, model.opsets);
  for (const part of model.functions) visit(part.nodes, part.opsets);
  return [...counts]
    .sort(([, a], [, b]) => b.count - a.count)
    .map(([name, { count, first }]) =>
      count === 1 ? `${name} (node "${first}")` : `${name} (${count} nodes, the first is "${first}")`,
    );
}

/** Throws for a model from a file at `path` that calls operators which nobody has. */
export function refuseMissingOperators(model: Model, path: string): void {
  const missing = missingOperators(model);
  if (missing.length === 0) return;
  const many = missing.length === 1 ? "an operator that is" : `${missing.length} operators that are`;
  throw new InsituError(
    "unsupported-operator",
    `${path} calls ${many} not supported: ${missing.join(", ")}; docs/operators.md lists those that are, insitu check shows more`,
  );
}

const bodiesOf = (node: ModelNode): ModelGraph[] =>
  [...node.attributes.values()].flatMap((attribute) =>
    attribute.kind === "graph" ? [attribute.value] : attribute.kind === "graphs" ? [...attribute.value] : [],
  );
