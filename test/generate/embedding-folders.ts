/** Folders of small embedding models, made by code: an encoder, a ranker and a decoder, in the layout of the hub. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exportedEncoder, smallExportedSizes } from "../../tools/demo/exported-encoder.js";
import { initializer, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { sizesConfig, withSymbol, writeFolder } from "../clients/folders.js";
import { exportedBytes } from "../support/exported-decoders.js";

const { layers, heads, headSize, vocabulary, positions } = smallExportedSizes;
const hidden = heads * headSize;

/** The special tokens of the encoders: w2 before, w3 behind. */
const frame = {
  type: "TemplateProcessing",
  single: [
    { SpecialToken: { id: "w2", type_id: 0 } },
    { Sequence: { id: "A", type_id: 0 } },
    { SpecialToken: { id: "w3", type_id: 0 } },
  ],
  pair: [
    { SpecialToken: { id: "w2", type_id: 0 } },
    { Sequence: { id: "A", type_id: 0 } },
    { SpecialToken: { id: "w3", type_id: 0 } },
    { Sequence: { id: "B", type_id: 1 } },
    { SpecialToken: { id: "w3", type_id: 1 } },
  ],
  special_tokens: { w2: { id: "w2", ids: [2], tokens: ["w2"] }, w3: { id: "w3", ids: [3], tokens: ["w3"] } },
};

const tokenizer = {
  version: "1.0",
  added_tokens: [],
  normalizer: null,
  pre_tokenizer: { type: "WhitespaceSplit" },
  post_processor: frame,
  decoder: null,
  model: {
    type: "WordLevel",
    vocab: Object.fromEntries(Array.from({ length: vocabulary }, (_, at) => [`w${at}`, at])),
    unk_token: "w1",
  },
};

const encoderConfig = {
  model_type: "bert",
  architectures: ["BertModel"],
  max_position_embeddings: positions,
  pad_token_id: 0,
  ...sizesConfig(layers, heads, heads, hidden),
};

/** Writes an encoder as sentence-transformers publishes one. */
export function writeEncoder(folder: string, mode: string, more: Readonly<Record<string, object>> = {}): string {
  writeFolder(folder, { config: encoderConfig, files: { model: writeModel(exportedEncoder()) } }, vocabulary);
  mkdirSync(join(folder, "1_Pooling"), { recursive: true });
  const files = {
    "tokenizer.json": tokenizer,
    "1_Pooling/config.json": {
      word_embedding_dimension: hidden,
      [`pooling_mode_${mode}`]: true,
      pooling_mode_max_tokens: false,
    },
    "modules.json": ["Transformer", "Pooling", "Normalize"].map((name, at) => ({
      idx: at,
      type: `sentence_transformers.models.${name}`,
    })),
    ...more,
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), JSON.stringify(content));
  return folder;
}

/** Writes a cross encoder: the first token's row times a weight is the score. */
export function writeRanker(folder: string): string {
  const plain = exportedEncoder();
  const weights = Float32Array.from({ length: hidden }, (_, at) => Math.sin(at * 1.7) / 2);
  const model: Model = {
    ...plain,
    graph: {
      ...plain.graph,
      nodes: [
        ...plain.graph.nodes,
        node("Gather", ["last_hidden_state", "ranker.first"], ["ranker.row"], { axis: 1 }),
        node("MatMul", ["ranker.row", "ranker.weight"], ["logits"]),
      ],
      initializers: [
        ...plain.graph.initializers,
        initializer("ranker.first", "int64", [0n], []),
        initializer("ranker.weight", "float32", weights, [hidden, 1]),
      ],
      outputs: [value("logits", "float32", ["batch_size", 1])],
    },
  };
  const config = { ...encoderConfig, architectures: ["BertForSequenceClassification"], id2label: { 0: "LABEL_0" } };
  writeFolder(folder, { config, files: { model: writeModel(model) } }, vocabulary);
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  // Other classes of tokenizers do not tell transformers.js which text a token is of.
  const settings = {
    tokenizer_class: "BertTokenizer",
    pad_token: "w0",
    cls_token: "w2",
    sep_token: "w3",
    model_max_length: positions,
  };
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(settings));
  return folder;
}

/** Writes a decoder with caches that hands out its last hidden state too. */
export function writeDecoder(folder: string, name = "llama_op20_eager"): string {
  const plain = readModel(exportedBytes(name));
  const last = plain.graph.nodes.find(({ outputs }) => outputs.includes("logits"))!;
  const past = plain.graph.inputs.find((each) => each.name === "past_key_values.0.key")!;
  const shape = past.type?.kind === "tensor" ? past.type.shape! : [];
  const [, keyValueHeads, , size] = shape as readonly number[];
  const model: Model = {
    ...plain,
    graph: {
      ...plain.graph,
      nodes: [...plain.graph.nodes, node("Identity", [last.inputs[0]], ["last_hidden_state"])],
      outputs: [...plain.graph.outputs, value("last_hidden_state", "float32", ["batch", "sequence", 4 * size])],
    },
  };
  const count = plain.graph.inputs.filter((input) => input.name.startsWith("past_key_values.")).length / 2;
  const config = {
    model_type: "llama",
    architectures: ["LlamaForCausalLM"],
    ...sizesConfig(count, 4, keyValueHeads, 4 * size),
    head_dim: size,
    pad_token_id: 0,
  };
  writeFolder(folder, { config, files: { model: writeModel(withSymbol(model, String(shape[0]), "batch_size")) } }, 96);
  return folder;
}
