/** The embedded model as llama.cpp reads it: its own weights, bytes with a scale for each block, under the names that the writer of GGUF files knows. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelTensor } from "#insitu/onnx/model.js";
import { readModel } from "#insitu/onnx/read.js";
import { embeddedModel } from "#insitu/platform/embedded-model.js";
import { writeGguf } from "../device/gguf.js";

/** What its products are called here and there. */
const products: Readonly<Record<string, string>> = {
  q: "attn.q_proj",
  k: "attn.k_proj",
  v: "attn.v_proj",
  o: "attn.o_proj",
  gate: "mlp.gate_proj",
  up: "mlp.up_proj",
  down: "mlp.down_proj",
};

const norms: Readonly<Record<string, string>> = {
  input_norm: "input_layernorm",
  mlp_norm: "post_attention_layernorm",
};

/** The published name of a weight; undefined for what is none. */
function publishedName(name: string, layers: number): string | undefined {
  if (name === "norm.weight") return `model.layers.${layers}.final_norm_layernorm.weight`;
  const [, layer, part, kind] = /^(?:layers\.(\d+)\.)?(\w+)\.(weight|scales)$/.exec(name) ?? [];
  if (part === undefined) return undefined;
  if (norms[part] !== undefined) return `model.layers.${layer}.${norms[part]}.weight`;
  // Embedding and head are one.
  const product = part === "embedding" ? "lm_head" : `model.layers.${layer}.${products[part]}`;
  return `${product}.MatMul.weight${kind === "scales" ? "_scales" : "_Q8"}`;
}

/** Writes it to a file. */
export function writeEmbeddedGguf(path: string): void {
  const config = JSON.parse(readFileSync(join(embeddedModel(), "config.json"), "utf8")) as Record<string, number>;
  const layers = config["num_hidden_layers"];
  const model = readModel(new Uint8Array(readFileSync(join(embeddedModel(), "onnx", "model.onnx"))));
  const initializers = model.graph.initializers.flatMap((tensor): ModelTensor[] => {
    const name = publishedName(tensor.name, layers);
    return name === undefined ? [] : [{ ...tensor, name }];
  });
  writeGguf(
    path,
    { ...model, graph: { ...model.graph, initializers } },
    {
      layers,
      hidden: config["hidden_size"],
      heads: config["num_attention_heads"],
      keyValueHeads: config["num_key_value_heads"],
      headSize: config["head_dim"],
      intermediate: config["intermediate_size"],
      vocabulary: config["vocab_size"],
      positions: config["max_position_embeddings"],
      ropeTheta: config["rope_theta"],
      epsilon: config["rms_norm_eps"],
      seed: 0,
    },
  );
}
