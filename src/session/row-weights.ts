/** Weights that nobody reads but operators which ask for rows of them: they may stay in their file. */
import type { Op } from "../graph/op.js";
import type { Model, ModelGraph, ModelNode } from "../onnx/model.js";
import { operators } from "../ops/index.js";

/** The names of initializers of the main graph that may stay in their file, row by row. */
export function rowWeights({ graph, opsets, functions }: Model): ReadonlySet<string> {
  const local = new Set(functions.map(({ domain, name }) => `${domain}::${name}`));
  const picked = new Set<string>();
  const others = new Set(graph.outputs.map(({ name }) => name));
  for (const node of graph.nodes) {
    const rows = local.has(`${node.domain}::${node.opType}`) ? -1 : tableOf(node, opsets);
    node.inputs.forEach((name, at) => (at === rows ? picked : others).add(name));
    for (const body of bodiesOf(node)) addNames(body, others);
  }
  for (const name of others) picked.delete(name);
  return picked;
}

/** The declaration that a node calls. */
export function operatorOf({ domain, opType }: ModelNode, opsets: ReadonlyMap<string, number>): Op | undefined {
  const plain = domain === "ai.onnx" ? "" : domain;
  return operators.find(plain, opType, opsets.get(plain) ?? 1);
}

/** Which input a node reads rows of; -1 where it reads none by rows. */
function tableOf(node: ModelNode, opsets: ReadonlyMap<string, number>): number {
  const { attributes } = node;
  const op = operatorOf(node, opsets);
  if (op?.picksRows === undefined) return -1;
  const { of, along } = op.picksRows;
  const axis = attributes.get(along);
  const isFirst = axis === undefined ? op.attrs[along].absent === 0 : axis.kind === "int" && axis.value === 0n;
  return isFirst ? Object.keys(op.inputs).indexOf(of) : -1;
}

/** Every name that a graph inside another one reads or hands out. */
function addNames({ nodes, outputs }: ModelGraph, names: Set<string>): void {
  for (const { name } of outputs) names.add(name);
  for (const node of nodes) {
    for (const name of node.inputs) names.add(name);
    for (const body of bodiesOf(node)) addNames(body, names);
  }
}

const bodiesOf = ({ attributes }: ModelNode): readonly ModelGraph[] =>
  [...attributes.values()].flatMap((attribute) =>
    attribute.kind === "graph" ? [attribute.value] : attribute.kind === "graphs" ? attribute.value : [],
  );
