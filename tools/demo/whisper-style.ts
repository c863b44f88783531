/** Whisper as an exported encoder-decoder: frames of sound through two convolutions, positions by tables, norms and products with biases. */
import { value } from "#insitu/onnx/build.js";
import { causalBias, type DecoderStyle, type EncoderDecoderSizes } from "./exported-decoder.js";
import type { ExportedGraph } from "./exported-graph.js";

/** The sizes of a Whisper. */
interface WhisperSizes extends EncoderDecoderSizes {
  readonly bins: number;
  /** Rows that the encoder makes, of twice as many frames. */
  readonly encoded: number;
  /** Tokens that the decoder has positions for. */
  readonly positions: number;
}

const small: WhisperSizes = {
  layers: 2,
  heads: 4,
  headSize: 16,
  intermediate: 96,
  vocabulary: 96,
  bins: 8,
  encoded: 30,
  positions: 64,
  seed: 13,
};

/** Inputs: input_features [batch, bins, 2 * encoded] for the encoder. */
export function whisperStyle(sizes: WhisperSizes = small): DecoderStyle {
  const { layers, heads, headSize, intermediate, vocabulary, bins, encoded, positions } = sizes;
  const hidden = heads * headSize;
  const norm = (graph: ExportedGraph, name: string, rows: string): string => graph.layerNorm(name, rows, hidden);
  const feedForward = (graph: ExportedGraph, name: string, rows: string): string =>
    graph.linear(
      `${name}/fc2`,
      graph.gelu(`${name}/gelu`, graph.linear(`${name}/fc1`, rows, hidden, intermediate)),
      intermediate,
      hidden,
    );
  const convolved = (graph: ExportedGraph, name: string, frames: string, from: number, stride: number): string => {
    const weight = graph.weights.values(`${name}.weight`, [hidden, from, 3], 1 / Math.sqrt(3 * from));
    const operands = [frames, weight, graph.weights.values(`${name}.bias`, [hidden], 0.1)];
    const rows = graph.add("Conv", name, operands, { kernel_shape: [3], pads: [1, 1], strides: [stride] });
    return graph.gelu(`${name}/gelu`, rows);
  };
  return {
    sizes,
    encoderInputs: [value("input_features", "float32", ["batch_size", bins, 2 * encoded])],
    decoderInputs: [],
    encodedRows: encoded,
    scale: Math.sqrt(headSize),
    hasBias: true,
    norm,
    feedForward,
    addEncoder(graph) {
      const first = convolved(graph, "encoder/conv1", "input_features", bins, 1);
      const frames = convolved(graph, "encoder/conv2", first, hidden, 2);
      const turned = graph.add("Transpose", "encoder", [frames], { perm: [0, 2, 1] });
      const places = graph.weights.values("encoder.embed_positions.weight", [encoded, hidden], 0.3);
      let rows = graph.add("Add", "encoder/positions", [turned, places]);
      for (let layer = 0; layer < layers; layer++) {
        const at = `encoder/layers.${layer}`;
        const normed = norm(graph, `${at}/self_attn_layer_norm`, rows);
        const part = (name: string): string =>
          graph.heads(`${at}/${name}`, graph.linear(`${at}/${name}`, normed, hidden, hidden), heads, headSize);
        const scale = Math.sqrt(headSize);
        const attended = graph.attend(`${at}/self_attn`, [part("q"), part("k"), part("v")], hidden, { scale });
        rows = graph.add("Add", `${at}/attention/sum`, [rows, graph.linear(`${at}/out`, attended, hidden, hidden)]);
        const second = norm(graph, `${at}/final_layer_norm`, rows);
        rows = graph.add("Add", `${at}/sum`, [rows, feedForward(graph, at, second)]);
      }
      graph.layerNorm("encoder/layer_norm", rows, hidden, "last_hidden_state");
    },
    embed(graph, past) {
      const table = graph.weights.values("decoder.embed_tokens.weight", [vocabulary, hidden], 1);
      const tokens = graph.add("Gather", "decoder/embed_tokens", [table, "input_ids"]);
      const shape = graph.add("Shape", "decoder/embed", ["input_ids"]);
      const count = graph.add("Gather", "decoder/embed/count", [shape, graph.integers(1)]);
      const end = graph.add("Add", "decoder/embed/end", [past, count]);
      const numbers = graph.add("Range", "decoder/embed", [past, end, graph.integers(1)]);
      const places = graph.weights.values("decoder.embed_positions.weight", [positions, hidden], 0.3);
      const placed = graph.add("Gather", "decoder/embed_positions", [places, numbers]);
      return graph.add("Add", "decoder/embed", [tokens, placed]);
    },
    bias: causalBias,
    encoderBias: () => undefined,
    logits: (graph, rows) => graph.linear("proj_out", rows, hidden, vocabulary, false, "logits"),
  };
}
