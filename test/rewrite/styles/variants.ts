// A decoder declared in another way, or put under an If.
import { initializer, node, buildModel, value } from "../../../src/onnx/build.js";
import type { Model, ModelNode, ModelValue } from "../../../src/onnx/model.js";
import { type Style } from "./style.js";

/** The decoder with its dimensions declared in another way. */
export function declared(model: Model, style: Style): Model {
  const { graph } = model;
  const changed = (values: readonly ModelValue[], change: (dim: string | number) => string | number | undefined) =>
    values.map((one) =>
      one.type?.kind === "tensor"
        ? { ...one, type: { ...one.type, shape: one.type.shape?.map((dim) => change(dim as string | number)) } }
        : one,
    );
  switch (style.declared) {
    case "anonymous":
      return {
        ...model,
        graph: { ...graph, inputs: changed(graph.inputs, (dim) => (typeof dim === "number" ? dim : undefined)) },
      };
    case "sum":
      return {
        ...model,
        graph: { ...graph, inputs: changed(graph.inputs, (dim) => (dim === "total" ? "past + sequence" : dim)) },
      };
    case "no outputs":
      return {
        ...model,
        graph: {
          ...graph,
          outputs: graph.outputs.map((one) =>
            one.type?.kind === "tensor" ? { ...one, type: { kind: "tensor", elementType: one.type.elementType } } : one,
          ),
        },
      };
    case "weights":
      return {
        ...model,
        irVersion: 3,
        graph: {
          ...graph,
          inputs: [...graph.inputs, ...graph.initializers.map(({ name, type, dims }) => value(name, type, dims))],
        },
      };
    default:
      return model;
  }
}

/** The decoder under an If: with its past where `use_cache_branch` says so, with none where not. */
export function mergedDecoder(model: Model): Model {
  const { graph } = model;
  const pasts = graph.inputs.filter(({ name }) => name.startsWith("past."));
  const inner = new Set(graph.nodes.flatMap((one) => one.outputs));
  const other = (name: string): string =>
    inner.has(name) || pasts.some((past) => past.name === name) ? `no_past/${name}` : name;
  const shapes = pasts.map(({ name, type }) => {
    const dims = type?.kind === "tensor" ? type.shape! : [];
    return { name, rows: dims.map((dim) => (dim === "past" ? 0 : dim === "batch" ? -1 : Number(dim))) };
  });
  const empties = shapes.flatMap(({ name }) => [
    node("Concat", ["no_past/batch", `${name}.rest`], [`no_past/${name}.dims`], { axis: 0 }),
    node("ConstantOfShape", [`no_past/${name}.dims`], [`no_past/${name}`]),
  ]);
  const without = [
    node("Shape", [graph.inputs[0].name], ["no_past/batch"], { start: 0, end: 1 }),
    ...empties,
    ...graph.nodes.map((one) => ({
      ...one,
      name: `no_past/${one.name}`,
      inputs: one.inputs.map(other),
      outputs: one.outputs.map(other),
    })),
  ];
  const bare = { ...graph, inputs: [], initializers: [] };
  const rest = shapes.map(({ name, rows }) =>
    initializer(`${name}.rest`, "int64", rows.slice(1).map(BigInt), [rows.length - 1]),
  );
  return buildModel({
    opset: 18,
    inputs: [...graph.inputs, value("use_cache_branch", "bool", [1])],
    outputs: graph.outputs,
    initializers: [...graph.initializers, ...rest],
    nodes: [
      node(
        "If",
        ["use_cache_branch"],
        graph.outputs.map(({ name }) => name),
        {
          then_branch: { ...bare, name: "with_past", ...renamedOutputs(graph.nodes, graph.outputs, "with_past/") },
          else_branch: {
            ...bare,
            name: "no_past",
            nodes: without,
            outputs: graph.outputs.map((one) => ({ ...one, name: `no_past/${one.name}` })),
          },
        },
        { name: "optimum::if" },
      ),
    ],
  });
}

/** A graph's outputs under other names: those of an If are its own. */
export function renamedOutputs(
  nodes: readonly ModelNode[],
  outputs: readonly ModelValue[],
  prefix: string,
): { readonly nodes: ModelNode[]; readonly outputs: ModelValue[] } {
  const changed = new Set(outputs.map(({ name }) => name));
  const rename = (name: string): string => (changed.has(name) ? `${prefix}${name}` : name);
  return {
    nodes: nodes.map((one) => ({ ...one, inputs: one.inputs.map(rename), outputs: one.outputs.map(rename) })),
    outputs: outputs.map((one) => ({ ...one, name: rename(one.name) })),
  };
}
