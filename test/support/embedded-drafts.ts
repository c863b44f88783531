// Drafts of the embedded model, made of itself: with fewer layers it often says the same, with weights of chance it says something else.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";

const embedded = fileURLToPath(new URL("../../models/embedded", import.meta.url));

/** A folder with the embedded model's first layers; `random` has weights of chance in them. */
export function draftFolder(layers: number, random = false): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "insitu-draft-"));
  mkdirSync(join(path, "onnx"));
  for (const name of ["tokenizer.json", "tokenizer_config.json", "generation_config.json"])
    cpSync(join(embedded, name), join(path, name));
  const config = JSON.parse(readFileSync(join(embedded, "config.json"), "utf8")) as Record<string, number>;
  const last = config["num_hidden_layers"] - 1;
  writeFileSync(join(path, "config.json"), JSON.stringify({ ...config, num_hidden_layers: layers }));
  const model = readModel(readFileSync(join(embedded, "onnx/model.onnx")));
  const isKept = (name: string): boolean => {
    const layer = /^(?:layers|past_key_values|present)\.(\d+)\./.exec(name)?.[1];
    return layer === undefined || Number(layer) < layers;
  };
  const { graph } = model;
  const initializers = graph.initializers.filter(({ name }) => isKept(name));
  let seed = 1;
  const changed = initializers.map((tensor) => {
    if (!random || !(tensor.data instanceof Uint8Array) || !tensor.name.startsWith("layers.")) return tensor;
    const data = tensor.data.map(() => ((seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0), seed >>> 24));
    return { ...tensor, data };
  });
  const nodes = graph.nodes
    .filter((node) => node.outputs.every(isKept))
    .map((node) => ({
      ...node,
      inputs: node.inputs.map((name) =>
        name === `layers.${last}.after_mlp` ? `layers.${layers - 1}.after_mlp` : name,
      ),
    }));
  const small = {
    ...graph,
    nodes,
    initializers: changed,
    inputs: graph.inputs.filter(({ name }) => isKept(name)),
    outputs: graph.outputs.filter(({ name }) => isKept(name)),
    valueInfo: [],
  };
  writeFileSync(join(path, "onnx/model.onnx"), writeModel({ ...model, graph: small }));
  return { path, remove: () => rmSync(path, { recursive: true }) };
}
