/**
 * Model → Model: states as texts need them. A state that also holds what it was after each of the last tokens (`state_window`) becomes the state alone: whoever
 * goes back keeps checkpoints. Quantized caches as short as the window, where there are no others, become whole ones: something must count the rows.
 */
import { attributes } from "#insitu/onnx/build.js";
import type { Model, ModelDimension, ModelNode, ModelValue } from "#insitu/onnx/model.js";

const vendor = "com.microsoft";
const withState: readonly string[] = ["CausalConvWithState", "LinearAttention"];

/** Where those have their state among inputs and outputs. */
const [past, present] = [3, 1];

const numberOf = ({ attributes: given }: ModelNode, name: string): number => {
  const attribute = given.get(name);
  return attribute?.kind === "int" ? Number(attribute.value) : 0;
};

/** The model with such states; the model itself where it has none that are otherwise. */
export function plainStates(model: Model): Model {
  return withWholeCaches(withoutWindows(model));
}

function withoutWindows(model: Model): Model {
  const { graph } = model;
  const names = new Set<string>();
  const readers = (name: string): number => graph.nodes.filter(({ inputs }) => inputs.includes(name)).length;
  const nodes = graph.nodes.map((node) => {
    if (node.domain !== vendor || !withState.includes(node.opType) || numberOf(node, "state_window") <= 0) return node;
    const [from, to] = [node.inputs[past] ?? "", node.outputs[present] ?? ""];
    const isState = graph.inputs.some(({ name }) => name === from) && graph.outputs.some(({ name }) => name === to);
    if (!isState || readers(from) !== 1 || readers(to) > 0) return node;
    names.add(from).add(to);
    return withNumber(node, "state_window", 0);
  });
  if (names.size === 0) return model;
  return reshaped({ ...model, graph: { ...graph, nodes } }, (name, shape) =>
    names.has(name) ? shape.slice(1) : shape,
  );
}

function withWholeCaches(model: Model): Model {
  const { graph } = model;
  const cached = graph.nodes.filter(
    ({ domain, opType, inputs }) => domain === vendor && opType === "GroupQueryAttention" && (inputs[3] ?? "") !== "",
  );
  const isShort = (node: ModelNode): boolean =>
    numberOf(node, "sliding_window_cache") !== 0 && numberOf(node, "kv_cache_bit_width") !== 0;
  if (cached.length === 0 || !cached.every(isShort)) return model;
  const pasts = new Set(cached.flatMap(({ inputs }) => inputs.slice(3, 5)));
  const presents = new Set(cached.flatMap(({ outputs }) => outputs.slice(1, 3)));
  const nodes = graph.nodes.map((node) => (cached.includes(node) ? withNumber(node, "sliding_window_cache", 0) : node));
  return reshaped({ ...model, graph: { ...graph, nodes } }, (name, shape) => {
    if (pasts.has(name)) return shape.with(2, "insitu/past_rows");
    return presents.has(name) ? shape.with(2, "insitu/rows") : shape;
  });
}

const withNumber = (node: ModelNode, name: string, value: number): ModelNode => ({
  ...node,
  attributes: new Map([...node.attributes, ...attributes({ [name]: value })]),
});

type Shape = readonly ModelDimension[];

/** The model with other shapes of its inputs and outputs. */
function reshaped(model: Model, change: (name: string, shape: Shape) => Shape): Model {
  const each = (value: ModelValue): ModelValue =>
    value.type?.kind === "tensor" && value.type.shape !== undefined
      ? { ...value, type: { ...value.type, shape: change(value.name, value.type.shape) } }
      : value;
  const { inputs, outputs, valueInfo } = model.graph;
  return {
    ...model,
    graph: {
      ...model.graph,
      inputs: inputs.map(each),
      outputs: outputs.map(each),
      valueInfo: valueInfo.map(each),
    },
  };
}
