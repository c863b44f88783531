// Turns the trained weights into the embedded model: `node training/export.mjs TRAINED_FOLDER [OUT_FOLDER] [--weights int8|float32]`.
// Writes a folder in the hub's layout: config.json, generation_config.json, tokenizer.json, tokenizer_config.json, onnx/model.onnx.
// Needs a build: the model is made by the project's own ONNX builder and writer.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { decoderModel } from "./decoder-model.mjs";
import { writeModel } from "../dist/onnx/write.js";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { weights: { type: "string", default: "int8" } },
});
const [trained, out = fileURLToPath(new URL("../models/embedded", import.meta.url))] = positionals;
if (trained === undefined) throw new Error("usage: node training/export.mjs TRAINED_FOLDER [OUT_FOLDER] [--weights int8|float32]");

/** The tensors of a safetensors file, as float32 by name. */
function readSafetensors(path) {
  const bytes = readFileSync(path);
  const headerBytes = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, 8 + headerBytes));
  return Object.entries(header)
    .filter(([name]) => name !== "__metadata__")
    .map(([name, { dtype, shape, data_offsets: [start, end] }]) => {
      if (dtype !== "F16") throw new Error(`${name} is ${dtype}, expected F16`);
      const data = bytes.subarray(8 + headerBytes + start, 8 + headerBytes + end);
      return [name, { dims: shape, data: Float32Array.from({ length: data.length / 2 }, (_, i) => half(data.readUInt16LE(2 * i))) }];
    });
}

/** The value of a float16. */
function half(bits) {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) throw new Error("a weight is not finite");
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

const readJson = (name) => JSON.parse(readFileSync(join(trained, name), "utf8"));
const weights = new Map(
  readdirSync(trained)
    .filter((name) => name.endsWith(".safetensors"))
    .flatMap((name) => readSafetensors(join(trained, name))),
);
const config = readJson("config.json");
const model = decoderModel(config, weights, options.weights);

mkdirSync(join(out, "onnx"), { recursive: true });
const writeJson = (name, value, space) => writeFileSync(join(out, name), `${JSON.stringify(value, null, space)}\n`);
writeFileSync(join(out, "onnx/model.onnx"), writeModel(model));
writeJson("config.json", config, 2);
writeJson(
  "generation_config.json",
  { do_sample: true, temperature: 0.8, top_k: 40, top_p: 0.95, repetition_penalty: 1.1, eos_token_id: config.eos_token_id },
  2,
);
writeJson("tokenizer.json", readJson("tokenizer.json"));
writeJson("tokenizer_config.json", { eos_token: "<|end|>", model_max_length: config.max_position_embeddings }, 2);
