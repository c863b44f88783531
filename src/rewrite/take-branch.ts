/**
 * Merged decoders: two graphs under one If, with caches and without, between which an input chooses. The graph with caches does what the
 * other does where they are empty, so it takes the If's place and the input goes. An If that chooses between anything else stays.
 */
import { node as makeNode } from "../onnx/build.js";
import type { Model, ModelGraph, ModelNode } from "../onnx/model.js";
import { readsOf } from "./model-edit.js";

/** A model without the If, and the input that chose. */
export interface TakenBranch {
  readonly model: Model;
  readonly input: string;
  /** What the input would have had to say. */
  readonly value: boolean;
}

/** Operators that a condition may go through. */
const passing = new Set(["Identity", "Reshape", "Squeeze", "Unsqueeze", "Cast"]);

/** Puts the graph with caches in the place of the If; undefined where there is no such If. */
export function takeBranch(model: Model): TakenBranch | undefined {
  const { graph } = model;
  const makers = new Map(graph.nodes.flatMap((node) => node.outputs.map((name) => [name, node] as const)));
  for (const node of graph.nodes) {
    if (node.opType !== "If" || node.domain !== "") continue;
    const input = conditionOf(node.inputs[0], graph, makers);
    const [yes, no] = [branchOf(node, "then_branch"), branchOf(node, "else_branch")];
    if (input === undefined || yes === undefined || no === undefined) continue;
    const [cachesOfYes, cachesOfNo] = [cachesIn(yes, graph), cachesIn(no, graph)];
    if (cachesOfYes === cachesOfNo || Math.min(cachesOfYes, cachesOfNo) > 0) continue;
    const taken = cachesOfYes > 0 ? yes : no;
    const nodes = graph.nodes.flatMap((other) => (other === node ? inlined(node, taken) : [other]));
    const still = new Set([...nodes.flatMap((other) => [...readsOf(other)]), ...graph.outputs.map(({ name }) => name)]);
    return {
      model: {
        ...model,
        graph: {
          ...graph,
          nodes: nodes.filter((other) => !leadsNowhere(other, still)),
          inputs: graph.inputs.filter(({ name }) => name !== input),
          initializers: [...graph.initializers, ...taken.initializers],
          valueInfo: [...graph.valueInfo, ...taken.valueInfo],
        },
      },
      input,
      value: taken === yes,
    };
  }
  return undefined;
}

/** What only led to the condition goes with it. */
const leadsNowhere = (node: ModelNode, read: ReadonlySet<string>): boolean =>
  passing.has(node.opType) && node.outputs.every((name) => !read.has(name));

/** The input of truths behind a condition. */
function conditionOf(name: string, graph: ModelGraph, makers: ReadonlyMap<string, ModelNode>): string | undefined {
  const maker = makers.get(name);
  if (maker !== undefined)
    return passing.has(maker.opType) && maker.domain === "" ? conditionOf(maker.inputs[0], graph, makers) : undefined;
  const input = graph.inputs.find((value) => value.name === name);
  const isTruth = input?.type?.kind === "tensor" && input.type.elementType === "bool";
  const readers = graph.nodes.filter((node) => [...readsOf(node)].includes(name));
  return isTruth && readers.length === 1 ? name : undefined;
}

function branchOf({ attributes }: ModelNode, name: string): ModelGraph | undefined {
  const attribute = attributes.get(name);
  return attribute?.kind === "graph" && attribute.value.sparseInitializers.length === 0 ? attribute.value : undefined;
}

/** How many of the model's inputs a branch reads that could be caches. */
function cachesIn(branch: ModelGraph, { inputs }: ModelGraph): number {
  const read = new Set([
    ...branch.nodes.flatMap((node) => [...readsOf(node)]),
    ...branch.outputs.map(({ name }) => name),
  ]);
  return inputs.filter(({ name, type }) => read.has(name) && type?.kind === "tensor" && (type.shape?.length ?? 0) >= 3)
    .length;
}

/** A branch's nodes, and its results under the names that the If gave them. */
function inlined({ outputs }: ModelNode, branch: ModelGraph): ModelNode[] {
  const renamed = branch.outputs.flatMap(({ name }, at) =>
    name === outputs[at] ? [] : [makeNode("Identity", [name], [outputs[at]], {}, { name: outputs[at] })],
  );
  return [...branch.nodes, ...renamed];
}
