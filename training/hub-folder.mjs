// Makes a folder as the hub lays it out, of the embedded model: `node training/hub-folder.mjs OUT_FOLDER [--variants fp32,q8,q4]`.
// fp32 is onnx/model.onnx with its weights beside it in model.onnx_data, q8 onnx/model_quantized.onnx, q4 onnx/model_q4.onnx. Needs a build.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { decoderModel } from "./decoder-model.mjs";
import { readModel } from "../dist/onnx/read.js";
import { writeModel } from "../dist/onnx/write.js";

const variants = {
  fp32: { file: "model.onnx", weights: "float32", beside: true },
  q8: { file: "model_quantized.onnx", weights: "int8" },
  q4: { file: "model_q4.onnx", weights: "int4" },
};

const embedded = fileURLToPath(new URL("../models/embedded", import.meta.url));
const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { variants: { type: "string", default: "fp32,q8,q4" } } });
const [out] = positionals;
const chosen = options.variants.split(",");
const unknown = chosen.find((name) => !(name in variants));
if (out === undefined || unknown !== undefined) throw new Error(`usage: node training/hub-folder.mjs OUT_FOLDER [--variants ${Object.keys(variants).join(",")}]`);

/** The weights of the embedded model as float32, by the names that the builder asks for. */
function readWeights() {
  const { initializers } = readModel(readFileSync(join(embedded, "onnx/model.onnx"))).graph;
  const byName = new Map(initializers.map((tensor) => [tensor.name, tensor]));
  const weights = new Map();
  for (const { name, dims, data } of initializers) {
    if (!name.endsWith(".weight")) continue;
    const scales = byName.get(name.replace(/weight$/, "scales"));
    if (scales === undefined) weights.set(name, { dims, data });
    else weights.set(name, { dims: [dims[0], dims[1] * dims[2]], data: Float32Array.from(data, (value, at) => (value - 128) * scales.data[Math.floor(at / dims[2])]) });
  }
  return weights;
}

/** The model with its large tensors in another file, whose bytes come along. */
function withExternalData(model, location) {
  const pieces = [];
  let offset = 0;
  const initializers = model.graph.initializers.map((tensor) => {
    const { buffer, byteOffset, byteLength } = tensor.data;
    if (byteLength < 1024) return tensor;
    const piece = Buffer.alloc(Math.ceil(byteLength / 4096) * 4096);
    piece.set(new Uint8Array(buffer, byteOffset, byteLength));
    pieces.push(piece);
    offset += piece.length;
    return { ...tensor, external: { location, offset: offset - piece.length, length: byteLength } };
  });
  return { model: { ...model, graph: { ...model.graph, initializers } }, bytes: Buffer.concat(pieces) };
}

const weights = readWeights();
const config = JSON.parse(readFileSync(join(embedded, "config.json"), "utf8"));
mkdirSync(join(out, "onnx"), { recursive: true });
for (const name of ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]) cpSync(join(embedded, name), join(out, name));
for (const { file, weights: form, beside } of chosen.map((name) => variants[name])) {
  const model = decoderModel(config, weights, form);
  const split = beside ? withExternalData(model, `${file}_data`) : { model };
  if (split.bytes !== undefined) writeFileSync(join(out, "onnx", `${file}_data`), split.bytes);
  writeFileSync(join(out, "onnx", file), writeModel(split.model));
}
