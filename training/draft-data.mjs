// What a draft of the embedded model is taught by: `node training/draft-data.mjs TEXT.txt WORK_FOLDER [MODEL_FOLDER]`.
// Writes the text's tokens (tokens.i32), the model's weights as float32 (NAME.f32) and their shapes (shapes.json), for draft.py. Needs a build.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CausalLM } from "../dist/index.node.js";
import { readModel } from "../dist/onnx/read.js";

const [text, work, folder = fileURLToPath(new URL("../models/embedded", import.meta.url))] = process.argv.slice(2);
if (work === undefined) throw new Error("usage: node training/draft-data.mjs TEXT.txt WORK_FOLDER [MODEL_FOLDER]");
mkdirSync(work, { recursive: true });
const lm = await CausalLM.load(folder);
const ids = [0];
for (const line of readFileSync(text, "utf8").split("\n")) {
  const isHeading = line.startsWith("<|book|>") || (line.length < 90 && line === line.toUpperCase());
  if (line.trim() === "") continue;
  if (!isHeading) ids.push(...lm.tokenizer.encode(`${line}\n`));
  else if (ids.at(-1) !== 0) ids.push(0);
}
await lm.release();
writeFileSync(join(work, "tokens.i32"), Int32Array.from(ids));
const { graph } = readModel(readFileSync(join(folder, "onnx/model.onnx")));
const tensors = new Map([...graph.initializers.values()].map((tensor) => [tensor.name, tensor]));
const shapes = {};
for (const [name, tensor] of tensors) {
  if (!name.endsWith(".weight")) continue;
  const scales = tensors.get(name.replace(/weight$/, "scales"));
  const raw = tensor.data;
  const [rows, blocks, blockSize] = tensor.dims;
  shapes[name] = scales === undefined ? tensor.dims : [rows, blocks * blockSize];
  const factors = scales && scales.data;
  const values = scales === undefined ? raw : Float32Array.from(raw, (value, at) => (value - 128) * factors[Math.floor(at / blockSize)]);
  writeFileSync(join(work, `${name}.f32`), Float32Array.from(values));
}
writeFileSync(join(work, "shapes.json"), JSON.stringify(shapes));
