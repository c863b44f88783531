/**
 * Model → Model: states without rows become pools of many texts' states. A run says which of them its samples are (`state_slots`): those are looked up
 * in front of everything that reads the state, and written back where they came from.
 */
import { InsituError } from "#insitu/base/error.js";
import { buildGraph } from "#insitu/graph/build.js";
import { inferGraph } from "#insitu/graph/infer.js";
import { node as makeNode, value as makeValue } from "#insitu/onnx/build.js";
import type { Model, ModelNode, ModelValue } from "#insitu/onnx/model.js";
import { operators } from "#insitu/ops/index.js";
import { readsOf } from "./model-edit.js";
import { stateInput } from "./page-names.js";
import { statesWithoutRows } from "./trail.js";

/** Present by past, of the states without rows. */
export function statesOf(model: Model): ReadonlyMap<string, string> {
  // A first look: only what has one size for all texts can be one.
  const isFixed = ({ type }: ModelValue): boolean =>
    type?.kind === "tensor" &&
    (type.shape?.length ?? 0) > 1 &&
    type.shape!.slice(1).every((dim) => typeof dim === "number");
  if (!model.graph.inputs.some(isFixed)) return new Map();
  const graph = buildGraph(model, operators);
  inferGraph(graph);
  return new Map([...statesWithoutRows(graph)].map(([past, present]) => [past.name, present.name]));
}

/** The model with its states in pools; itself where it has none. `batch`: what its samples are called. */
export function poolStates(model: Model, states: ReadonlyMap<string, string>, batch: string): Model {
  if (states.size === 0) return model;
  const { graph } = model;
  const taken = new Set([
    ...graph.inputs.map(({ name }) => name),
    ...graph.initializers.map(({ name }) => name),
    ...graph.nodes.flatMap(({ outputs }) => outputs),
  ]);
  const rowsOf = new Map<string, string>();
  for (const name of [...states].flat()) {
    let free = `${name}/rows`;
    while (taken.has(free)) free += "_";
    rowsOf.set(name, free);
  }
  const rows = (name: string): string => rowsOf.get(name) ?? name;
  const inner = graph.nodes.find((node) =>
    [...readsOf(node)].some((name) => rowsOf.has(name) && !node.inputs.includes(name)),
  );
  if (inner !== undefined)
    throw new InsituError(
      "invalid-graph",
      `${inner.opType} "${inner.name || inner.outputs[0]}" reads a state in a body, and bodies are not looked into: load the model with cache: "linear"`,
    );
  const lookups = [...states.keys()].map((past) => makeNode("Gather", [past, stateInput], [rows(past)], { axis: 0 }));
  const places = `${stateInput}/places`;
  const made = graph.nodes.map((node): ModelNode =>
    [...node.inputs, ...node.outputs].some((name) => rowsOf.has(name))
      ? { ...node, inputs: node.inputs.map(rows), outputs: node.outputs.map(rows) }
      : node,
  );
  const writes = [...states].map(([past, present]) =>
    makeNode("ScatterND", [past, places, rows(present)], [present], {}),
  );
  const pooled = (each: ModelValue): ModelValue =>
    rowsOf.has(each.name) && each.type?.kind === "tensor"
      ? { ...each, type: { ...each.type, shape: ["num_states", ...each.type.shape!.slice(1)] } }
      : each;
  const axes = `${stateInput}/axes`;
  return {
    ...model,
    graph: {
      ...graph,
      inputs: [...graph.inputs.map(pooled), makeValue(stateInput, "int64", [batch])],
      outputs: graph.outputs.map(pooled),
      valueInfo: graph.valueInfo.filter(({ name }) => !rowsOf.has(name)),
      nodes: [
        makeNode("Constant", [], [axes], { value_ints: [1] }),
        makeNode("Unsqueeze", [stateInput, axes], [places]),
        ...lookups,
        ...made,
        ...writes,
      ],
    },
  };
}
