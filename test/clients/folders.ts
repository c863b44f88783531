// Models as transformers.js finds them in a folder: configuration, tokenizer, and the file. Decoders that PyTorch exported, the embedded model,
// and models made by code; words of the tokenizers are `w0`, `w1`, … but for the embedded model's own.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { embeddedClientForm } from "../../tools/bench/client-forms.js";
import type { PastPresentForm } from "../../tools/bench/embedded-forms.js";
import { exportedEncoderDecoder } from "../../tools/demo/exported-encoder-decoder.js";
import { t5Style } from "../../tools/demo/t5-style.js";
import { whisperStyle } from "../../tools/demo/whisper-style.js";
import { value } from "../../src/onnx/build.js";
import type { Model, ModelDimension, ModelValue } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { embeddedModel } from "../../src/platform/embedded-model.js";
import { exportedBytes } from "../support/exported-decoders.js";

/** What a model's folder holds. */
export interface ClientModel {
  readonly config: Readonly<Record<string, unknown>>;
  /** Files below onnx/, by name without its ending. */
  readonly files: Readonly<Record<string, Uint8Array>>;
}

/** Writes a model's folder with a tokenizer of as many words. */
export function writeFolder(folder: string, { config, files }: ClientModel, vocabulary: number): void {
  mkdirSync(join(folder, "onnx"), { recursive: true });
  const write = (name: string, content: object): void => writeFileSync(join(folder, name), JSON.stringify(content));
  write("config.json", config);
  write("generation_config.json", { pad_token_id: 0, eos_token_id: null });
  write("tokenizer.json", wordTokenizer(vocabulary));
  write("tokenizer_config.json", {
    tokenizer_class: "PreTrainedTokenizerFast",
    pad_token: "w0",
    model_max_length: 512,
  });
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, `onnx/${name}.onnx`), bytes);
}

const wordTokenizer = (vocabulary: number): object => ({
  version: "1.0",
  added_tokens: [],
  normalizer: null,
  pre_tokenizer: { type: "WhitespaceSplit" },
  post_processor: null,
  decoder: null,
  model: {
    type: "WordLevel",
    vocab: Object.fromEntries(Array.from({ length: vocabulary }, (_, at) => [`w${at}`, at])),
    unk_token: "w1",
  },
});

/** The sizes in a configuration, by the names that any architecture has for them. */
export const sizesConfig = (layers: number, heads: number, keyValueHeads: number, hidden: number): object => ({
  ...Object.fromEntries(["num_hidden_layers", "num_layers", "n_layer"].map((name) => [name, layers])),
  ...Object.fromEntries(["num_attention_heads", "num_heads", "n_head"].map((name) => [name, heads])),
  ...Object.fromEntries(["num_key_value_heads", "num_kv_heads"].map((name) => [name, keyValueHeads])),
  ...Object.fromEntries(["hidden_size", "n_embd", "dim"].map((name) => [name, hidden])),
});

/** Architectures whose exported files have another name than transformers.js's. */
const modelTypes: Readonly<Record<string, string>> = { gemma3: "gemma3_text" };

/** Writes the folder of a decoder that PyTorch exported. transformers.js knows `batch_size` and no other symbol of a cache's. */
export function writeExported(folder: string, name: string): void {
  const model = readModel(exportedBytes(name));
  const past = shapeOf(model.graph.inputs.find((input) => input.name === "past_key_values.0.key")!);
  const vocabulary = shapeOf(model.graph.outputs.find((output) => output.name === "logits")!).at(-1);
  const layers = model.graph.inputs.filter((input) => input.name.startsWith("past_key_values.")).length / 2;
  const [, keyValueHeads, , headSize] = past as number[];
  const architecture = name.split("_op")[0];
  const config = {
    model_type: modelTypes[architecture] ?? architecture,
    ...sizesConfig(layers, 4, keyValueHeads, 4 * headSize),
    head_dim: headSize,
  };
  const bytes = writeModel(withSymbol(model, String(past[0]), "batch_size"));
  writeFolder(join(folder, name), { config, files: { model: bytes } }, Number(vocabulary));
}

/** Writes the folder of the embedded model in the form that is named; its tokenizer is its own. */
export function writeEmbedded(folder: string, name: string, form: PastPresentForm, accuracyLevel: 0 | 4): void {
  const to = join(folder, name);
  mkdirSync(join(to, "onnx"), { recursive: true });
  for (const file of ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"])
    cpSync(join(embeddedModel(), file), join(to, file));
  const settings = JSON.parse(readFileSync(join(to, "tokenizer_config.json"), "utf8")) as object;
  writeFileSync(join(to, "tokenizer_config.json"), JSON.stringify({ ...settings, pad_token: "<|end|>" }));
  writeFileSync(join(to, "onnx/model.onnx"), writeModel(embeddedClientForm(form, accuracyLevel)));
}

const shapeOf = ({ type }: ModelValue): readonly ModelDimension[] => (type?.kind === "tensor" ? type.shape! : []);

/** The same model with another name for a symbolic dimension of its inputs and outputs. */
export function withSymbol(model: Model, symbol: string, name: string): Model {
  const other = (values: readonly ModelValue[]): readonly ModelValue[] =>
    values.map((each) =>
      each.type?.kind === "tensor"
        ? value(
            each.name,
            each.type.elementType,
            shapeOf(each).map((dim) => (dim === symbol ? name : dim)),
          )
        : each,
    );
  const { graph } = model;
  const [inputs, outputs, valueInfo] = [graph.inputs, graph.outputs, graph.valueInfo].map(other);
  return { ...model, graph: { ...graph, inputs, outputs, valueInfo } };
}

/** Writes the folder of an encoder-decoder in the style of T5 or of Whisper. */
export function writeEncoderDecoder(folder: string, name: "t5" | "whisper"): void {
  const style = name === "t5" ? t5Style() : whisperStyle();
  const { layers, heads, headSize, vocabulary } = style.sizes;
  const own = Object.fromEntries(
    ["num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"].map((key) => [key, layers]),
  );
  const counts = ["num_heads", "encoder_attention_heads", "decoder_attention_heads"].map((key) => [key, heads]);
  const config = {
    model_type: name,
    architectures: [name === "t5" ? "T5ForConditionalGeneration" : "WhisperForConditionalGeneration"],
    is_encoder_decoder: true,
    decoder_start_token_id: 0,
    d_model: heads * headSize,
    d_kv: headSize,
    num_mel_bins: 8,
    vocab_size: vocabulary,
    ...own,
    ...(Object.fromEntries(counts) as object),
  };
  const files = Object.entries(exportedEncoderDecoder(style)).map(([file, model]) => [file, writeModel(model)]);
  writeFolder(join(folder, name), { config, files: Object.fromEntries(files) as ClientModel["files"] }, vocabulary);
  const generation = { pad_token_id: 0, decoder_start_token_id: 0, is_multilingual: false, no_timestamps_token_id: 95 };
  writeFileSync(join(folder, name, "generation_config.json"), JSON.stringify(generation));
}
