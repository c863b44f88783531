/**
 * Merged decoders: two graphs under one If, with caches and without, between which an input chooses. The graph with caches does what the
 * other does where they are empty, so it takes the If's place and the input goes. An If that chooses between anything else stays. The decoder
 * of an encoder is another thing: its graph without caches makes rows from the encoder's that the other only reads.
 */
import { node as makeNode } from "#insitu/onnx/build.js";
import type { Model, ModelGraph, ModelNode, ModelValue } from "#insitu/onnx/model.js";
import { readsOf } from "./model-edit.js";

/** A model without the If, and the input that chose. */
interface TakenBranch {
  readonly model: Model;
  readonly input: string;
  /** What the input would have had to say. */
  readonly value: boolean;
  /** True if the other graph does what this one cannot, also where caches are empty. */
  readonly onlyContinues: boolean;
}

/** Operators that a condition may go through. */
const passing = new Set(["Identity", "Reshape", "Squeeze", "Unsqueeze", "Cast"]);

/**
 * Puts the graph with caches in the place of the If; undefined where there is no such If. `mayOnlyContinue`: also where first runs need the
 * other graph.
 */
export function takeBranch(model: Model, mayOnlyContinue = false): TakenBranch | undefined {
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
    const [readByYes, readByNo] = [readIn(yes, caches), readIn(no, caches)];
    const onlyContinues = Math.min(readByYes.size, readByNo.size) > 0;
    if (readByYes.size === readByNo.size || (onlyContinues && !mayOnlyContinue)) continue;
    if ([...readByYes].some((name) => readByNo.has(name))) continue;
    const taken = readByYes.size > readByNo.size ? yes : no;
    const left = taken === yes ? readByNo : readByYes;
    const nodes = graph.nodes.flatMap((other) => (other === node ? inlined(node, taken) : [other]));
    const still = new Set([...nodes.flatMap((other) => [...readsOf(other)]), ...graph.outputs.map(({ name }) => name)]);
    return {
      model: {
        ...model,
        graph: {
          ...graph,
          nodes: nodes.filter((other) => !leadsNowhere(other, still)),
          // What the other graph alone read goes with it.
          inputs: graph.inputs.filter(({ name }) => name !== input && (!left.has(name) || still.has(name))),
          initializers: [...graph.initializers, ...taken.initializers],
          valueInfo: [...graph.valueInfo, ...taken.valueInfo],
        },
      },
      input,
      value: taken === yes,
      onlyContinues,
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

/** Those of the inputs that could be caches which a branch reads. */
function readIn(branch: ModelGraph, caches: ReadonlySet<string>): ReadonlySet<string> {
  const read = [...branch.nodes.flatMap((node) => [...readsOf(node)]), ...branch.outputs.map(({ name }) => name)];
  return new Set(read.filter((name) => caches.has(name)));
}

/** A branch's nodes, and its results under the names that the If gave them. */
function inlined({ outputs }: ModelNode, branch: ModelGraph): ModelNode[] {
  const renamed = branch.outputs.flatMap(({ name }, at) =>
    name === outputs[at] ? [] : [makeNode("Identity", [name], [outputs[at]], {}, { name: outputs[at] })],
  );
  return [...branch.nodes, ...renamed];
}
