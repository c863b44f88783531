/**
 * Encoder-decoders in the files that Optimum writes: the encoder, the decoder without and with caches, and both decoders merged under an If that
 * use_cache_branch chooses by. In the style of T5 (relative positions, norms without a mean) or of Whisper (frames, positions of their own).
 */
import { buildModel, node, value } from "#insitu/onnx/build.js";
import type { Model, ModelDimension, ModelGraph, ModelNode, ModelValue } from "#insitu/onnx/model.js";
import { initializer } from "#insitu/onnx/build.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { addDecoder, cachesOf, type DecoderStyle } from "./exported-decoder.js";
import { ExportedGraph, ExportedWeights } from "./exported-graph.js";

/** The files of a model, by their names without an ending. */
export type EncoderDecoderFiles = Readonly<
  Record<"encoder_model" | "decoder_model" | "decoder_with_past_model" | "decoder_model_merged", Model>
>;

const model = (
  nodes: readonly ModelNode[],
  weights: ExportedWeights,
  inputs: readonly ModelValue[],
  outputs: readonly ModelValue[],
): Model => {
  const read = new Set<string>();
  const visit = (list: readonly ModelNode[]): void => {
    for (const { inputs: names, attributes } of list) {
      for (const name of names) read.add(name);
      for (const attribute of attributes.values()) if (attribute.kind === "graph") visit(attribute.value.nodes);
    }
  };
  visit(nodes);
  return buildModel({
    name: "main_graph",
    producerName: "insitu",
    irVersion: 8,
    opset: 18,
    inputs,
    outputs,
    nodes,
    initializers: weights.all.filter(({ name }) => read.has(name)),
  });
};

/** Makes all files of a style; they have their weights in common. */
export function exportedEncoderDecoder(style: DecoderStyle): EncoderDecoderFiles {
  const weights = new ExportedWeights(style.sizes.seed);
  const { heads, headSize, vocabulary } = style.sizes;
  const hidden = heads * headSize;
  const encoder = new ExportedGraph(weights);
  style.addEncoder(encoder);
  const states: readonly ModelDimension[] = ["batch_size", style.encodedRows, hidden];
  const ids = value("input_ids", "int64", ["batch_size", "decoder_sequence_length"]);
  const given = [...style.decoderInputs, ids, value("encoder_hidden_states", "float32", states)];
  const logits = value("logits", "float32", ["batch_size", "decoder_sequence_length", vocabulary]);
  const caches = cachesOf(style);
  const pasts = caches.map(({ past, rows }) => value(past, "float32", ["batch_size", heads, rows.past, headSize]));
  const presents = caches.map(({ present, rows }) =>
    value(present, "float32", ["batch_size", heads, rows.present, headSize]),
  );
  const own = (values: readonly ModelValue[]): ModelValue[] => values.filter((_, at) => !caches[at].isEncoders);
  const [first, next] = [new ExportedGraph(weights), new ExportedGraph(weights)];
  addDecoder(first, style, false);
  addDecoder(next, style, true);
  return {
    encoder_model: model(encoder.nodes, weights, style.encoderInputs, [value("last_hidden_state", "float32", states)]),
    decoder_model: model(first.nodes, weights, given, [logits, ...presents]),
    decoder_with_past_model: model(
      next.nodes,
      weights,
      [...given.filter(({ name }) => name !== "encoder_hidden_states"), ...pasts],
      [logits, ...own(presents)],
    ),
    decoder_model_merged: model(
      [merged(style, weights, [logits, ...presents])],
      weights,
      [...given, ...pasts, value("use_cache_branch", "bool", [1])],
      [logits, ...presents],
    ),
  };
}

/** The If over both decoders. The one with caches hands out nothing for the encoder's: constants without elements, as Optimum has it. */
function merged(style: DecoderStyle, weights: ExportedWeights, outputs: readonly ModelValue[]): ModelNode {
  const { heads, headSize } = style.sizes;
  const branch = (hasCaches: boolean): ModelGraph => {
    const graph = new ExportedGraph(weights, hasCaches ? "/with_past" : "/without_past");
    addDecoder(graph, style, hasCaches);
    const nothing = hasCaches
      ? cachesOf(style).flatMap(({ present, isEncoders }) => {
          if (!isEncoders) return [];
          const tensor = new Tensor("float32", new Float32Array(0), [0, heads, 1, headSize]);
          return [node("Constant", [], [present], { value: initializer(present, tensor) })];
        })
      : [];
    const { graph: built } = buildModel({
      name: hasCaches ? "then_branch" : "else_branch",
      opset: 18,
      inputs: [],
      outputs: outputs.map(({ name }) => value(name, "float32")),
      nodes: [...graph.nodes, ...nothing],
      initializers: [],
    });
    return built;
  };
  const names = outputs.map(({ name }) => name);
  const choice = { then_branch: branch(true), else_branch: branch(false) };
  return node("If", ["use_cache_branch"], names, choice, { name: "optimum::if" });
}
