/**
 * The embedded model in the forms that other runtimes are given: past in, present out, by GroupQueryAttention as published models have
 * it, or by Concat. The weights are those of the file. Runs nothing.
 */
import { InsituError } from "#insitu/base/error.js";
import { attributes, initializer, node, value } from "#insitu/onnx/build.js";
import type { Model, ModelNode, ModelTensor, ModelValue } from "#insitu/onnx/model.js";

/** How past becomes present. */
export type PastPresentForm = "GroupQueryAttention" | "Concat";

/** The numbers of the model that its forms need. */
export interface EmbeddedSizes {
  readonly layers: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headSize: number;
  readonly vocabulary: number;
  readonly ropeTheta: number;
  /** Positions that angles are tabulated for, where a form needs a table. */
  readonly positions: number;
}

const microsoft = { domain: "com.microsoft" } as const;

/** The same decoder with past inputs and present outputs. Products may round activations to 8 bits, as published models allow. */
export function pastPresentForm(model: Model, sizes: EmbeddedSizes, form: PastPresentForm): Model {
  const { graph } = model;
  const grouped = form === "GroupQueryAttention";
  const tables = grouped ? angleTables(sizes) : maskTables();
  const initializers = [...graph.initializers, ...tables];
  const nodes: ModelNode[] = grouped ? [] : maskNodes();
  /** What stands for a value whose node was left out. */
  const instead = new Map<string, string>();
  for (const each of graph.nodes) {
    const inputs = each.inputs.map((name) => instead.get(name) ?? name);
    switch (each.opType) {
      case "MatMulNBits":
        nodes.push({
          ...each,
          attributes: new Map([...each.attributes, ...attributes({ accuracy_level: 4 })]),
        });
        break;
      case "RotaryEmbedding":
        if (grouped) instead.set(each.outputs[0], inputs[0]);
        else nodes.push(each);
        break;
      case "TensorScatter":
        if (grouped) instead.set(each.outputs[0], inputs[1]);
        else nodes.push(node("Concat", inputs.slice(0, 2), [...each.outputs], { axis: 1 }));
        break;
      case "Attention":
        nodes.push(grouped ? groupQueryAttention(each, inputs, sizes) : maskedAttention(each, inputs));
        break;
      default:
        nodes.push(each);
    }
  }
  const needed = onlyNeeded(
    nodes,
    graph.outputs.map(({ name }) => name),
  );
  const read = new Set(needed.flatMap(({ inputs }) => inputs));
  return {
    ...model,
    graph: {
      ...graph,
      nodes: needed,
      initializers: initializers.filter(({ name }) => read.has(name)),
      valueInfo: [],
      inputs: [
        ...[...graph.inputs.filter(({ name }) => !name.startsWith("past")), ...lengthInputs].filter(({ name }) =>
          read.has(name),
        ),
        ...caches("past_key_values", "past_length", sizes, grouped),
      ],
      outputs: [
        value("logits", "float32", ["batch", "sequence", sizes.vocabulary]),
        ...caches("present", "total_length", sizes, grouped),
      ],
    },
  };
}

const lengthInputs: readonly ModelValue[] = [
  value("seqlens_k", "int32", ["batch"]),
  value("total_sequence_length", "int32", []),
];

/** `past_key_values.0.key` and so on. */
export const cacheNames = (name: string, { layers }: EmbeddedSizes): string[] =>
  Array.from({ length: layers }, (_, layer) => [`${name}.${layer}.key`, `${name}.${layer}.value`]).flat();

/** A cache's shape with this many rows. */
export const cacheShape = <T>(
  rows: T,
  { keyValueHeads, headSize }: EmbeddedSizes,
  byHead: boolean,
): readonly (T | number)[] => (byHead ? [1, keyValueHeads, rows, headSize] : [1, rows, keyValueHeads * headSize]);

const caches = (name: string, rows: string, sizes: EmbeddedSizes, byHead: boolean): ModelValue[] =>
  cacheNames(name, sizes).map((each) => value(each, "float32", ["batch", ...cacheShape(rows, sizes, byHead).slice(1)]));

/** Attention over the joined caches; which keys a query sees is the mask's to say. */
const maskedAttention = (each: ModelNode, inputs: readonly string[]): ModelNode => ({
  ...each,
  inputs: [...inputs.slice(0, 3), "causal_mask"],
  attributes: new Map([...each.attributes].filter(([name]) => name !== "is_causal")),
});

function groupQueryAttention(each: ModelNode, inputs: readonly string[], sizes: EmbeddedSizes): ModelNode {
  const layer = /\d+/.exec(each.outputs[0])?.[0];
  if (layer === undefined) throw new InsituError("internal", `"${each.outputs[0]}" names no layer`);
  const { heads: num_heads, keyValueHeads: kv_num_heads, headSize } = sizes;
  const past = ["key", "value"].map((which) => `past_key_values.${layer}.${which}`);
  const present = ["key", "value"].map((which) => `present.${layer}.${which}`);
  return node(
    "GroupQueryAttention",
    [...inputs.slice(0, 3), ...past, "seqlens_k", "total_sequence_length", "cos_table", "sin_table"],
    [each.outputs[0], ...present],
    { num_heads, kv_num_heads, do_rotary: 1, scale: { kind: "float", value: Math.fround(1 / Math.sqrt(headSize)) } },
    microsoft,
  );
}

/** Cosines and sines of every position, [positions, headSize / 2] each. */
function angleTables({ headSize, positions, ropeTheta }: EmbeddedSizes): ModelTensor[] {
  const half = headSize / 2;
  const table = (name: string, of: (angle: number) => number): ModelTensor => {
    const data = Float32Array.from({ length: positions * half }, (_, at) =>
      of(Math.floor(at / half) * ropeTheta ** (-(at % half) / half)),
    );
    return initializer(name, "float32", data, [positions, half]);
  };
  return [table("cos_table", Math.cos), table("sin_table", Math.sin)];
}

const maskTables = (): ModelTensor[] => [
  initializer("mask.one", "int64", [1n], []),
  initializer("mask.zero", "int64", [0n], []),
  initializer("mask.first", "int64", [0n], [1]),
  initializer("mask.second", "int64", [1n], [1]),
  initializer("mask.axes", "int64", [1n, 3n], [2]),
];

/** causal_mask [batch, 1, sequence, total]: a query sees the keys up to its own position. */
const maskNodes = (): ModelNode[] => [
  node("Shape", ["past_key_values.0.key"], ["mask.past"], { start: 1, end: 2 }),
  node("Shape", ["input_ids"], ["mask.new"], { start: 1, end: 2 }),
  node("Add", ["mask.past", "mask.new"], ["mask.total"]),
  node("Squeeze", ["mask.total", "mask.first"], ["mask.count"]),
  node("Range", ["mask.zero", "mask.count", "mask.one"], ["mask.keys"]),
  node("Unsqueeze", ["position_ids", "mask.axes"], ["mask.queries"]),
  node("LessOrEqual", ["mask.keys", "mask.queries"], ["causal_mask"]),
];

/** The nodes that the outputs depend on. */
function onlyNeeded(nodes: readonly ModelNode[], outputs: readonly string[]): ModelNode[] {
  const wanted = new Set(outputs);
  return nodes
    .toReversed()
    .filter((each) => {
      if (!each.outputs.some((name) => wanted.has(name))) return false;
      for (const name of each.inputs) wanted.add(name);
      return true;
    })
    .toReversed();
}
