/** Llama as PyTorch's exporter writes it, in small operators: caches by Concat, heads repeated, rotary embedding and norms step by step. Random weights. */
import { buildModel, initializer, value } from "#insitu/onnx/build.js";
import type { Model } from "#insitu/onnx/model.js";
import { causalBias } from "./exported-decoder.js";
import { ExportedGraph, ExportedWeights } from "./exported-graph.js";

/** The sizes of an exported Llama. */
interface LlamaSizes {
  readonly layers: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headSize: number;
  readonly intermediate: number;
  readonly vocabulary: number;
  readonly seed: number;
}

/** Inputs: input_ids, attention_mask, position_ids, past_key_values.L.key/value; outputs: logits, present.L.key/value. */
export function exportedLlama(sizes: LlamaSizes): Model {
  const { layers, heads, keyValueHeads, headSize, intermediate, vocabulary, seed } = sizes;
  const hidden = heads * headSize;
  const weights = new ExportedWeights(seed);
  const graph = new ExportedGraph(weights);
  const sizeOf = (name: string, axis: number): string =>
    graph.add("Gather", `${name}/size`, [graph.add("Shape", name, [name]), graph.integers(axis)]);
  const [tokens, past] = [sizeOf("input_ids", 1), sizeOf("past_key_values.0.key", 2)];
  const counts = { past, tokens, total: graph.add("Add", "total", [past, tokens]) };
  const bias = graph.add("Add", "mask", [causalBias(graph, counts), graph.maskBias("padding", "attention_mask")]);
  const [cosines, sines] = angles(graph);
  let rows = graph.add("Gather", "embed", [weights.values("embed.weight", [vocabulary, hidden], 1), "input_ids"]);
  for (let layer = 0; layer < layers; layer++) {
    const at = `layers.${layer}`;
    const normed = graph.rootMeanSquareNorm(`${at}/input_layernorm`, rows, hidden);
    const part = (name: string, count: number): string =>
      graph.heads(
        `${at}/${name}`,
        graph.linear(`${at}/${name}`, normed, hidden, count * headSize, false),
        count,
        headSize,
      );
    const turned = (name: string, count: number): string =>
      rotated(graph, `${at}/${name}/rotary`, part(name, count), headSize, cosines, sines);
    const cached = (which: string, added: string): string =>
      graph.add(
        "Concat",
        `${at}/${which}`,
        [`past_key_values.${layer}.${which}`, added],
        { axis: 2 },
        `present.${layer}.${which}`,
      );
    const repeated = (which: string, cache: string): string => {
      const apart = graph.add("Unsqueeze", `${at}/${which}/repeat`, [cache, graph.integers([2])]);
      const groups = graph.integers([1, 1, heads / keyValueHeads, 1, 1]);
      const all = graph.add("Expand", `${at}/${which}/repeat`, [apart, groups]);
      return graph.add("Reshape", `${at}/${which}/repeat`, [all, graph.integers([0, heads, -1, headSize])]);
    };
    const queries = turned("q_proj", heads);
    const keys = repeated("key", cached("key", turned("k_proj", keyValueHeads)));
    const values = repeated("value", cached("value", part("v_proj", keyValueHeads)));
    const attended = graph.attend(`${at}/self_attn`, [queries, keys, values], hidden, {
      scale: Math.sqrt(headSize),
      bias,
    });
    const output = graph.linear(`${at}/o_proj`, attended, hidden, hidden, false);
    rows = graph.add("Add", `${at}/attention/sum`, [rows, output]);
    const second = graph.rootMeanSquareNorm(`${at}/post_attention_layernorm`, rows, hidden);
    const gate = graph.linear(`${at}/gate_proj`, second, hidden, intermediate, false);
    const silu = graph.add("Mul", `${at}/act_fn`, [gate, graph.add("Sigmoid", `${at}/act_fn`, [gate])]);
    const product = graph.add("Mul", `${at}/mlp`, [
      silu,
      graph.linear(`${at}/up_proj`, second, hidden, intermediate, false),
    ]);
    const down = graph.linear(`${at}/down_proj`, product, intermediate, hidden, false);
    rows = graph.add("Add", `${at}/mlp/sum`, [rows, down]);
  }
  const last = graph.rootMeanSquareNorm("norm", rows, hidden);
  graph.linear("lm_head", last, hidden, vocabulary, false, "logits");
  const caches = (name: string, length: string): ReturnType<typeof value>[] =>
    Array.from({ length: layers }, (_, layer) =>
      ["key", "value"].map((which) =>
        value(`${name}.${layer}.${which}`, "float32", ["batch_size", keyValueHeads, length, headSize]),
      ),
    ).flat();
  const frequencies = Float32Array.from({ length: headSize / 2 }, (_, at) => 10_000 ** (-(2 * at) / headSize));
  return buildModel({
    name: "main_graph",
    producerName: "insitu",
    irVersion: 8,
    opset: 18,
    inputs: [
      value("input_ids", "int64", ["batch_size", "sequence_length"]),
      value("attention_mask", "int64", ["batch_size", "past_sequence_length + sequence_length"]),
      value("position_ids", "int64", ["batch_size", "sequence_length"]),
      ...caches("past_key_values", "past_sequence_length"),
    ],
    outputs: [
      value("logits", "float32", ["batch_size", "sequence_length", vocabulary]),
      ...caches("present", "past_sequence_length + sequence_length"),
    ],
    nodes: graph.nodes,
    initializers: [...weights.all, initializer("inv_freq", "float32", frequencies, [headSize / 2])],
  });
}

/** Cosines and sines of the positions, [batch, 1, tokens, headSize] each. */
function angles(graph: ExportedGraph): readonly string[] {
  const floats = graph.add("Cast", "rotary", ["position_ids"], { to: 1 });
  const columns = graph.add("Unsqueeze", "rotary/columns", [floats, graph.integers([2])]);
  const half = graph.add("Mul", "rotary", [columns, "inv_freq"]);
  const whole = graph.add("Concat", "rotary", [half, half], { axis: -1 });
  return ["Cos", "Sin"].map((of) =>
    graph.add("Unsqueeze", `rotary/${of}`, [graph.add(of, "rotary", [whole]), graph.integers([1])]),
  );
}

function rotated(graph: ExportedGraph, at: string, x: string, size: number, cosines: string, sines: string): string {
  const cut = (name: string, from: number, to: number): string =>
    graph.add("Slice", `${at}/${name}`, [x, graph.integers([from]), graph.integers([to]), graph.integers([3])]);
  const turned = graph.add("Neg", at, [cut("second", size / 2, size)]);
  const half = graph.add("Concat", at, [turned, cut("first", 0, size / 2)], { axis: -1 });
  const [even, odd] = [graph.add("Mul", `${at}/cos`, [x, cosines]), graph.add("Mul", `${at}/sin`, [half, sines])];
  return graph.add("Add", at, [even, odd]);
}
