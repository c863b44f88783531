/** T5 as an exported encoder-decoder: positions by learnt biases of distances in buckets, norms without a mean, no biases of products. */
import { value } from "#insitu/onnx/build.js";
import { causalBias, type DecoderStyle, type EncoderDecoderSizes } from "./exported-decoder.js";
import type { ExportedGraph } from "./exported-graph.js";

const small: EncoderDecoderSizes = { layers: 2, heads: 4, headSize: 16, intermediate: 96, vocabulary: 96, seed: 11 };
const [buckets, farthest] = [8, 32];

/** Inputs: input_ids and attention_mask for the encoder, encoder_attention_mask for the decoder. */
export function t5Style(sizes: EncoderDecoderSizes = small): DecoderStyle {
  const { layers, heads, headSize, intermediate, vocabulary } = sizes;
  const hidden = heads * headSize;
  const shared = (graph: ExportedGraph): string => graph.weights.values("shared.weight", [vocabulary, hidden], 1);
  const norm = (graph: ExportedGraph, name: string, rows: string): string =>
    graph.rootMeanSquareNorm(name, rows, hidden);
  const feedForward = (graph: ExportedGraph, name: string, rows: string): string => {
    const middle = graph.add("Relu", name, [graph.linear(`${name}/wi`, rows, hidden, intermediate, false)]);
    return graph.linear(`${name}/wo`, middle, intermediate, hidden, false);
  };
  const encoded = ["batch_size", "encoder_sequence_length"];
  return {
    sizes,
    encoderInputs: ["input_ids", "attention_mask"].map((name) => value(name, "int64", encoded)),
    decoderInputs: [value("encoder_attention_mask", "int64", encoded)],
    encodedRows: "encoder_sequence_length",
    scale: undefined,
    hasBias: false,
    norm,
    feedForward,
    addEncoder(graph) {
      let rows = graph.add("Gather", "encoder/embed", [shared(graph), "input_ids"]);
      const shape = graph.add("Shape", "encoder", ["input_ids"]);
      const count = graph.add("Gather", "encoder/count", [shape, graph.integers(1)]);
      const distances = distanceBias(graph, "encoder", heads, count, true);
      const bias = graph.add("Add", "encoder/bias", [distances, graph.maskBias("encoder/mask", "attention_mask")]);
      for (let layer = 0; layer < layers; layer++) {
        const at = `encoder/block.${layer}`;
        const normed = norm(graph, `${at}/attention_norm`, rows);
        const part = (name: string): string =>
          graph.heads(`${at}/${name}`, graph.linear(`${at}/${name}`, normed, hidden, hidden, false), heads, headSize);
        const attended = graph.attend(`${at}/attention`, [part("q"), part("k"), part("v")], hidden, { bias });
        rows = graph.add("Add", `${at}/attention/sum`, [
          rows,
          graph.linear(`${at}/o`, attended, hidden, hidden, false),
        ]);
        const second = norm(graph, `${at}/feed_norm`, rows);
        rows = graph.add("Add", `${at}/sum`, [rows, feedForward(graph, at, second)]);
      }
      graph.rootMeanSquareNorm("encoder/norm", rows, hidden, "last_hidden_state");
    },
    embed: (graph) => graph.add("Gather", "decoder/embed", [shared(graph), "input_ids"]),
    bias(graph, counts) {
      const whole = distanceBias(graph, "decoder", heads, counts.total, false); // [1, heads, total, total]
      // The last rows, counted from the end.
      const start = graph.add("Unsqueeze", "decoder/first", [
        graph.add("Neg", "decoder/first", [counts.tokens]),
        graph.integers([0]),
      ]);
      const own = graph.add("Slice", "decoder/bias", [
        whole,
        start,
        graph.integers([2 ** 31 - 1]),
        graph.integers([2]),
      ]);
      return graph.add("Add", "decoder/bias", [own, causalBias(graph, counts)]);
    },
    encoderBias: (graph) => graph.maskBias("encoder_mask", "encoder_attention_mask"),
    logits(graph, rows) {
      const scaled = graph.add("Mul", "lm_head", [rows, graph.number(hidden ** -0.5)]);
      return graph.linear("lm_head", scaled, hidden, vocabulary, false, "logits");
    },
  };
}

/** A learnt number for each head and distance, distances in buckets: [1, heads, count, count]. */
function distanceBias(graph: ExportedGraph, side: string, heads: number, count: string, bothWays: boolean): string {
  const at = `${side}/relative`;
  const range = graph.add("Range", at, [graph.integers(0), count, graph.integers(1)]);
  const queries = graph.add("Unsqueeze", `${at}/queries`, [range, graph.integers([1])]);
  const keys = graph.add("Unsqueeze", `${at}/keys`, [range, graph.integers([0])]);
  const relative = graph.add("Sub", at, [keys, queries]);
  const half = bothWays ? buckets / 2 : buckets;
  const exact = half / 2;
  const like = (name: string, of: number): string =>
    graph.add("Expand", `${at}/${name}`, [graph.integers(of), graph.add("Shape", `${at}/${name}`, [relative])]);
  const distance = bothWays
    ? graph.add("Abs", at, [relative])
    : graph.add("Neg", at, [graph.add("Min", at, [relative, like("zeros", 0)])]);
  const isNear = graph.add("Less", at, [distance, graph.integers(exact)]);
  const floats = graph.add("Cast", `${at}/floats`, [distance], { to: 1 });
  const ratio = graph.add("Log", at, [graph.add("Div", at, [floats, graph.number(exact)])]);
  const share = graph.add("Mul", at, [ratio, graph.number((half - exact) / Math.log(farthest / exact))]);
  const steps = graph.add("Cast", `${at}/steps`, [share], { to: 7 });
  const far = graph.add("Min", `${at}/far`, [
    graph.add("Add", at, [steps, graph.integers(exact)]),
    like("last", half - 1),
  ]);
  const bucket = graph.add("Where", at, [isNear, distance, far]);
  const signed = bothWays ? graph.add("Add", `${at}/signed`, [bucket, aheadOf(graph, at, relative, half)]) : bucket;
  const table = graph.weights.values(`${side}.relative_attention_bias.weight`, [buckets, heads], 1);
  const found = graph.add("Gather", at, [table, signed]); // [count, count, heads]
  return graph.add("Unsqueeze", at, [graph.add("Transpose", at, [found], { perm: [2, 0, 1] }), graph.integers([0])]);
}

/** `half` for keys behind their query, 0 for others. */
function aheadOf(graph: ExportedGraph, at: string, relative: string, half: number): string {
  const isAhead = graph.add("Greater", at, [relative, graph.integers(0)]);
  return graph.add("Mul", `${at}/ahead`, [
    graph.add("Cast", `${at}/ahead`, [isAhead], { to: 7 }),
    graph.integers(half),
  ]);
}
