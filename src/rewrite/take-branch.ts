/**
 * Merged decoders: two graphs under one If, with caches and without, between which an input chooses. The graph with caches does what the
 * other does where they are empty, so it takes the If's place and the input goes. An If that chooses between anything else stays.
 */
import { node as makeNode } from "../onnx/build.js";
import type { Model, ModelGraph, ModelNode, ModelValue } from "../onnx/model.js";
import { readsOf } from "./model-edit.js";

/** A model without the If, and the input that chose. */
interface TakenBranch {
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
  const branching = graph.nodes.filter((node) => node.opType === "If" && node.domain === "");
  if (branching.length === 0) return undefined;
  const makers = new Map(graph.nodes.flatMap((node) => node.outputs.map((name) => [name, node] as const)));
  const choosing = choosingInputs(graph);
  const caches = new Set(graph.inputs.filter(couldBeCache).map(({ name }) => name));
  for (const node of branching) {
    const input = conditionOf(node.inputs[0], makers);
    const [yes, no] = [branchOf(node, "then_branch"), branchOf(node, "else_branch")];
    if (input === undefined || !choosing.has(input) || yes === undefined || no === undefined) continue;
    const [cachesOfYes, cachesOfNo] = [countRead(yes, caches), countRead(no, caches)];
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

/** The name behind a condition. */
function conditionOf(condition: string, makers: ReadonlyMap<string, ModelNode>): string | undefined {
  let name = condition;
  const seen = new Set<string>();
  for (let maker = makers.get(name); maker !== undefined; maker = makers.get(name)) {
    if (!passing.has(maker.opType) || maker.domain !== "" || seen.has(name)) return undefined;
    seen.add(name);
    [name] = maker.inputs;
  }
  return name;
}

/** The inputs of truths that one node reads. */
function choosingInputs({ inputs, nodes }: ModelGraph): ReadonlySet<string> {
  const readers = new Map<string, number>();
  for (const node of nodes) for (const name of new Set(readsOf(node))) readers.set(name, (readers.get(name) ?? 0) + 1);
  const isTruth = ({ type }: ModelValue): boolean => type?.kind === "tensor" && type.elementType === "bool";
  return new Set(inputs.filter((input) => isTruth(input) && readers.get(input.name) === 1).map(({ name }) => name));
}

function branchOf({ attributes }: ModelNode, name: string): ModelGraph | undefined {
  const attribute = attributes.get(name);
  return attribute?.kind === "graph" && attribute.value.sparseInitializers.length === 0 ? attribute.value : undefined;
}

const couldBeCache = ({ type }: ModelValue): boolean => type?.kind === "tensor" && (type.shape?.length ?? 0) >= 3;

/** How many of the inputs that could be caches a branch reads. */
function countRead(branch: ModelGraph, caches: ReadonlySet<string>): number {
  const read = new Set([
    ...branch.nodes.flatMap((node) => [...readsOf(node)]),
    ...branch.outputs.map(({ name }) => name),
  ]);
  let count = 0;
  for (const name of read) if (caches.has(name)) count++;
  return count;
}

/** A branch's nodes, and its results under the names that the If gave them. */
function inlined({ outputs }: ModelNode, branch: ModelGraph): ModelNode[] {
  const renamed = branch.outputs.flatMap(({ name }, at) =>
    name === outputs[at] ? [] : [makeNode("Identity", [name], [outputs[at]], {}, { name: outputs[at] })],
  );
  return [...branch.nodes, ...renamed];
}
