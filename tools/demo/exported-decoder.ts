/** The decoder of an encoder-decoder while it is exported: layers with a cache of their own rows, and one of the encoder's that is only read. */
import type { ModelDimension, ModelValue } from "#insitu/onnx/model.js";
import type { ExportedGraph } from "./exported-graph.js";

/** The sizes of an encoder-decoder. */
export interface EncoderDecoderSizes {
  readonly layers: number;
  readonly heads: number;
  readonly headSize: number;
  readonly intermediate: number;
  readonly vocabulary: number;
  readonly seed: number;
}

/** What differs from architecture to architecture. */
export interface DecoderStyle {
  readonly sizes: EncoderDecoderSizes;
  readonly encoderInputs: readonly ModelValue[];
  /** Inputs of the decoder beside tokens and the encoder's rows. */
  readonly decoderInputs: readonly ModelValue[];
  /** How many rows the encoder makes. */
  readonly encodedRows: ModelDimension;
  /** Scores are divided by this. */
  readonly scale: number | undefined;
  readonly hasBias: boolean;
  addEncoder(graph: ExportedGraph): void;
  /** The rows of new tokens, `past` rows before them. */
  embed(graph: ExportedGraph, past: string): string;
  norm(graph: ExportedGraph, name: string, rows: string): string;
  /** What is added to scores of own rows: `tokens` new ones, `total` of all. */
  bias(graph: ExportedGraph, counts: RowCounts): string | undefined;
  /** What is added to scores of the encoder's rows. */
  encoderBias(graph: ExportedGraph): string | undefined;
  feedForward(graph: ExportedGraph, name: string, rows: string): string;
  logits(graph: ExportedGraph, rows: string): string;
}

/** Rows before the new ones, new ones, and both, as numbers of rank 0. */
interface RowCounts {
  readonly past: string;
  readonly tokens: string;
  readonly total: string;
}

interface ExportedCache {
  readonly past: string;
  readonly present: string;
  readonly isEncoders: boolean;
  readonly rows: { readonly past: string; readonly present: string };
}

/** All caches, in the order that Optimum has. */
export function cachesOf({ sizes }: DecoderStyle): readonly ExportedCache[] {
  return Array.from({ length: sizes.layers }, (_, layer) =>
    ["decoder", "encoder"].flatMap((whose) =>
      ["key", "value"].map((which): ExportedCache => {
        const isEncoders = whose === "encoder";
        const name = `${layer}.${whose}.${which}`;
        const rows = isEncoders
          ? { past: "encoder_sequence_length_out", present: "encoder_sequence_length_out" }
          : { past: "past_decoder_sequence_length", present: "past_decoder_sequence_length + decoder_sequence_length" };
        return { past: `past_key_values.${name}`, present: `present.${name}`, isEncoders, rows };
      }),
    ),
  ).flat();
}

/** Adds the decoder's nodes; results are `logits` and the presents. */
export function addDecoder(graph: ExportedGraph, style: DecoderStyle, hasCaches: boolean): void {
  const { layers, heads, headSize } = style.sizes;
  const hidden = heads * headSize;
  const { hasBias } = style;
  const sizeOf = (name: string, axis: number): string =>
    graph.add("Gather", `${name}/size`, [graph.add("Shape", name, [name]), graph.integers(axis)]);
  const tokens = sizeOf("input_ids", 1);
  const before = hasCaches ? sizeOf("past_key_values.0.decoder.key", 2) : graph.integers(0);
  const counts = { past: before, tokens, total: graph.add("Add", "total", [before, tokens]) };
  let rows = style.embed(graph, before);
  const [bias, encoderBias] = [style.bias(graph, counts), style.encoderBias(graph)];
  const scaled = (of: string | undefined): { scale?: number; bias: string | undefined } => ({
    ...(style.scale === undefined ? {} : { scale: style.scale }),
    bias: of,
  });
  const projected = (name: string, from: string, output?: string): string =>
    graph.heads(name, graph.linear(name, from, hidden, hidden, hasBias), heads, headSize, output);
  for (let layer = 0; layer < layers; layer++) {
    const at = `decoder/layers.${layer}`;
    const own = `${at}/self_attn`;
    const normed = style.norm(graph, `${own}_layer_norm`, rows);
    const [keys, values] = ["key", "value"].map((which) => {
      const present = `present.${layer}.decoder.${which}`;
      if (!hasCaches) return projected(`${own}/${which}`, normed, present);
      const added = projected(`${own}/${which}`, normed);
      return graph.add(
        "Concat",
        `${own}/${which}`,
        [`past_key_values.${layer}.decoder.${which}`, added],
        { axis: 2 },
        present,
      );
    });
    const attended = graph.attend(own, [projected(`${own}/query`, normed), keys, values], hidden, scaled(bias));
    rows = graph.add("Add", `${own}/sum`, [rows, graph.linear(`${own}/output`, attended, hidden, hidden, hasBias)]);
    const across = `${at}/encoder_attn`;
    const second = style.norm(graph, `${across}_layer_norm`, rows);
    const [encodedKeys, encodedValues] = ["key", "value"].map((which) =>
      hasCaches
        ? `past_key_values.${layer}.encoder.${which}`
        : projected(`${across}/${which}`, "encoder_hidden_states", `present.${layer}.encoder.${which}`),
    );
    const seen = graph.attend(
      across,
      [projected(`${across}/query`, second), encodedKeys, encodedValues],
      hidden,
      scaled(encoderBias),
    );
    rows = graph.add("Add", `${across}/sum`, [rows, graph.linear(`${across}/output`, seen, hidden, hidden, hasBias)]);
    const third = style.norm(graph, `${at}/final_layer_norm`, rows);
    rows = graph.add("Add", `${at}/sum`, [rows, style.feedForward(graph, at, third)]);
  }
  style.logits(graph, style.norm(graph, "decoder/layer_norm", rows));
}

/** 0 where a key is not behind its query, as little as a float can be elsewhere: [tokens, total]. */
export function causalBias(graph: ExportedGraph, { past: before, tokens, total }: RowCounts): string {
  const range = (name: string, count: string): string =>
    graph.add("Range", name, [graph.integers(0), count, graph.integers(1)]);
  const queries = graph.add("Add", "mask/rows", [range("mask/queries", tokens), before]);
  const columns = graph.add("Unsqueeze", "mask/queries", [queries, graph.integers([1])]);
  const isSeen = graph.add("LessOrEqual", "mask", [range("mask/keys", total), columns]);
  return graph.add("Where", "mask", [isSeen, graph.number(0), graph.number(-3.4028234663852886e38)]);
}
