// Turns what draft.py wrote into a model's folder: `node training/draft-export.mjs DRAFT_FOLDER OUT_FOLDER`. Needs a build.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { decoderModel } from "./decoder-model.mjs";
import { writeModel } from "../dist/onnx/write.js";

const [trained, out] = process.argv.slice(2);
if (out === undefined) throw new Error("usage: node training/draft-export.mjs DRAFT_FOLDER OUT_FOLDER");
const readJson = (name) => JSON.parse(readFileSync(join(trained, name), "utf8"));
const weights = new Map(
  Object.entries(readJson("shapes.json")).map(([name, dims]) => {
    const bytes = readFileSync(join(trained, `${name}.f32`));
    return [name, { dims, data: new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)) }];
  }),
);
mkdirSync(join(out, "onnx"), { recursive: true });
const embedded = fileURLToPath(new URL("../models/embedded", import.meta.url));
for (const name of ["tokenizer.json", "tokenizer_config.json", "generation_config.json"]) cpSync(join(embedded, name), join(out, name));
cpSync(join(trained, "config.json"), join(out, "config.json"));
writeFileSync(join(out, "onnx/model.onnx"), writeModel(decoderModel(readJson("config.json"), weights)));
