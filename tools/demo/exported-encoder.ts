/** An encoder as Optimum exports BERT for feature extraction: embeddings of words, positions and kinds, and layers normed behind their sums. */
import { buildModel, value } from "#insitu/onnx/build.js";
import type { Model } from "#insitu/onnx/model.js";
import { ExportedGraph, ExportedWeights } from "./exported-graph.js";

/** The sizes of an exported transformer. */
interface ExportedSizes {
  readonly layers: number;
  readonly heads: number;
  readonly headSize: number;
  readonly intermediate: number;
  readonly vocabulary: number;
  /** Positions that embeddings reach. */
  readonly positions: number;
  readonly seed: number;
}

/** What every size has, small enough for the reference implementation. */
export const smallExportedSizes: ExportedSizes = {
  layers: 2,
  heads: 4,
  headSize: 16,
  intermediate: 96,
  vocabulary: 96,
  positions: 64,
  seed: 7,
};

/** Inputs: input_ids, attention_mask and token_type_ids, [batch_size, sequence_length]; output: last_hidden_state. */
export function exportedEncoder(sizes: ExportedSizes = smallExportedSizes): Model {
  const { layers, heads, headSize, intermediate, vocabulary, positions, seed } = sizes;
  const hidden = heads * headSize;
  const weights = new ExportedWeights(seed);
  const graph = new ExportedGraph(weights);
  const table = (name: string, rows: number): string => weights.values(`embeddings.${name}.weight`, [rows, hidden], 1);
  const words = graph.add("Gather", "embeddings/word", [table("word", vocabulary), "input_ids"]);
  const kinds = graph.add("Gather", "embeddings/kind", [table("kind", 2), "token_type_ids"]);
  const shape = graph.add("Shape", "embeddings", ["input_ids"]);
  const count = graph.add("Gather", "embeddings/count", [shape, graph.integers(1)]);
  const numbers = graph.add("Range", "embeddings", [graph.integers(0), count, graph.integers(1)]);
  const places = graph.add("Gather", "embeddings/place", [table("place", positions), numbers]);
  const sum = graph.add("Add", "embeddings/places", [graph.add("Add", "embeddings/kinds", [words, kinds]), places]);
  let rows = graph.layerNorm("embeddings/LayerNorm", sum, hidden);
  const bias = graph.maskBias("mask", "attention_mask");
  for (let layer = 0; layer < layers; layer++) {
    const at = `encoder/layer.${layer}`;
    const part = (name: string): string =>
      graph.heads(
        `${at}/attention/${name}`,
        graph.linear(`${at}/attention/${name}`, rows, hidden, hidden),
        heads,
        headSize,
      );
    const attended = graph.attend(`${at}/attention`, [part("query"), part("key"), part("value")], hidden, {
      scale: Math.sqrt(headSize),
      bias,
    });
    const output = graph.linear(`${at}/attention/output`, attended, hidden, hidden);
    rows = graph.layerNorm(
      `${at}/attention/LayerNorm`,
      graph.add("Add", `${at}/attention/sum`, [output, rows]),
      hidden,
    );
    const middle = graph.gelu(`${at}/gelu`, graph.linear(`${at}/intermediate`, rows, hidden, intermediate));
    const second = graph.add("Add", `${at}/sum`, [graph.linear(`${at}/output`, middle, intermediate, hidden), rows]);
    rows = graph.layerNorm(`${at}/LayerNorm`, second, hidden, layer === layers - 1 ? "last_hidden_state" : undefined);
  }
  const ids = (name: string): ReturnType<typeof value> => value(name, "int64", ["batch_size", "sequence_length"]);
  return buildModel({
    name: "main_graph",
    producerName: "insitu",
    irVersion: 8,
    opset: 18,
    inputs: [ids("input_ids"), ids("attention_mask"), ids("token_type_ids")],
    outputs: [value("last_hidden_state", "float32", ["batch_size", "sequence_length", hidden])],
    nodes: graph.nodes,
    initializers: weights.all,
  });
}
