// A decoder in the style of published models: GroupQueryAttention with rotary embedding inside, MatMulNBits weights, skip connections fused
// with their norms, lengths as inputs or counted from the mask. Random weights.
//   node scripts/published-decoder.mjs model.onnx [--bits 8] [--layers 4] [--packed] [--mask] [--half] [--window 16] [--seed 1]
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { buildModel, float, initializer, node, value } from "../dist/onnx/build.js";
import { writeModel } from "../dist/onnx/write.js";
import { seededRandom } from "../dist/graph/call.js";
import { writeNumbers } from "../dist/tensor/access.js";
import { Tensor } from "../dist/tensor/tensor.js";
import { View } from "../dist/tensor/view.js";

const microsoft = { domain: "com.microsoft" };

/** The bytes of the model. `packed`: one product for queries, keys and values; `mask`: lengths from attention_mask. */
export function publishedDecoder({
  layers = 2,
  hidden = 64,
  heads = 4,
  keyValueHeads = 2,
  headSize = 16,
  intermediate = 96,
  vocabulary = 80,
  positions = 128,
  bits = 4,
  blockSize = 32,
  packed = false,
  mask = false,
  window = -1,
  half = false,
  seed = 1,
} = {}) {
  const random = seededRandom(seed);
  const type = half ? "float16" : "float32";
  const nodes = [];
  const initializers = [];
  const floats = (name, dims, of) => {
    const view = View.allocate(type, dims);
    const numbers = Array.from({ length: view.size }, (_, at) => of(at));
    writeNumbers(view, numbers);
    initializers.push(initializer(name, Tensor.fromView(view)));
    return name;
  };
  const op = (type, name, inputs, outputs, attributes = {}, more = {}) => {
    nodes.push(node(type, inputs, outputs, attributes, { name, ...more }));
    return outputs[0];
  };
  const linear = (name, input, K, N) => {
    const blocks = Math.ceil(K / blockSize);
    const bytes = Uint8Array.from({ length: (N * blocks * blockSize * bits) / 8 }, () => random() * 256);
    const weights = `${name}.MatMul.weight_Q${bits}`;
    initializers.push(initializer(weights, "uint8", bytes, [N, blocks, (blockSize * bits) / 8]));
    const step = Math.sqrt(3 / K) / 2 ** (bits - 1);
    const scales = floats(`${name}.MatMul.weight_scales`, [N * blocks], () => step * (0.75 + random() / 2));
    return op(
      "MatMulNBits",
      `/${name}/MatMul_Q${bits}`,
      [input, weights, scales],
      [`/${name}/output_0`],
      { K, N, bits, block_size: blockSize },
      microsoft,
    );
  };
  const pairs = headSize / 2;
  const angle = (at) => Math.floor(at / pairs) / 10_000 ** ((at % pairs) / pairs);
  floats("cos_cache", [positions, pairs], (at) => Math.cos(angle(at)));
  floats("sin_cache", [positions, pairs], (at) => Math.sin(angle(at)));
  if (mask) {
    const one = (name, dims) => initializers.push(initializer(name, "int64", [1n], dims));
    one("one", [1]);
    one("one_scalar", []);
    op("ReduceSum", "/model/attn_mask_reformat/ReduceSum", ["attention_mask", "one"], ["valid"], { keepdims: 0 });
    op("Sub", "/model/attn_mask_reformat/Sub", ["valid", "one_scalar"], ["last"]);
    op("Cast", "/model/attn_mask_reformat/Cast", ["last"], ["seqlens_k"], { to: 6 });
    op("Shape", "/model/attn_mask_reformat/Shape", ["attention_mask"], ["mask_shape"]);
    op("Gather", "/model/attn_mask_reformat/Gather", ["mask_shape", "one_scalar"], ["columns"], { axis: 0 });
    op("Cast", "/model/attn_mask_reformat/Cast_1", ["columns"], ["total_sequence_length"], { to: 6 });
  }
  const embedding = floats("model.embed_tokens.weight", [vocabulary, hidden], () => random() * 2 - 1);
  let x = op("Gather", "/model/embed_tokens/Gather", [embedding, "input_ids"], ["/model/embed_tokens/output_0"]);
  let residual;
  const normed = (name) => {
    const weight = floats(`${name}.weight`, [hidden], () => 0.9 + random() / 5);
    const epsilon = float(1e-5);
    if (residual === undefined) {
      residual = x;
      const attributes = { axis: -1, epsilon, stash_type: 1 };
      return op("SimplifiedLayerNormalization", `/${name}/LayerNorm`, [x, weight], [`/${name}/output_0`], attributes);
    }
    const outputs = [`/${name}/output_0`, "", "", `/${name}/output_3`];
    const skip = "SkipSimplifiedLayerNormalization";
    op(skip, `/${name}/SkipLayerNorm`, [residual, x, weight], outputs, { epsilon }, microsoft);
    residual = outputs[3];
    return outputs[0];
  };
  for (let layer = 0; layer < layers; layer++) {
    const at = (name) => `model.layers.${layer}.${name}`;
    const first = normed(at("input_layernorm"));
    const [queries, keys] = [heads * headSize, keyValueHeads * headSize];
    const projections = packed
      ? [linear(at("attn.qkv_proj"), first, hidden, queries + 2 * keys), "", ""]
      : [
          linear(at("attn.q_proj"), first, hidden, queries),
          linear(at("attn.k_proj"), first, hidden, keys),
          linear(at("attn.v_proj"), first, hidden, keys),
        ];
    const past = ["key", "value"].map((which) => `past_key_values.${layer}.${which}`);
    const present = ["key", "value"].map((which) => `present.${layer}.${which}`);
    const attended = op(
      "GroupQueryAttention",
      `/${at("attn")}/GroupQueryAttention`,
      [...projections, ...past, "seqlens_k", "total_sequence_length", "cos_cache", "sin_cache"],
      [`/${at("attn")}/output_0`, ...present],
      {
        num_heads: heads,
        kv_num_heads: keyValueHeads,
        scale: float(1 / Math.sqrt(headSize)),
        do_rotary: 1,
        rotary_interleaved: 0,
        local_window_size: window,
      },
      microsoft,
    );
    x = linear(at("attn.o_proj"), attended, queries, hidden);
    const second = normed(at("post_attention_layernorm"));
    const gate = linear(at("mlp.gate_proj"), second, hidden, intermediate);
    const up = linear(at("mlp.up_proj"), second, hidden, intermediate);
    const sigmoid = op("Sigmoid", `/${at("mlp")}/Sigmoid`, [gate], [`/${at("mlp")}/sigmoid`]);
    const silu = op("Mul", `/${at("mlp")}/Mul`, [gate, sigmoid], [`/${at("mlp")}/silu`]);
    const product = op("Mul", `/${at("mlp")}/Mul_1`, [silu, up], [`/${at("mlp")}/product`]);
    x = linear(at("mlp.down_proj"), product, intermediate, hidden);
  }
  const last = normed(`model.layers.${layers}.final_norm_layernorm`);
  op("Identity", "/lm_head/Identity", [linear("lm_head", last, hidden, vocabulary)], ["logits"]);
  const caches = (name, rows) =>
    Array.from({ length: layers }, (_, layer) =>
      ["key", "value"].map((which) =>
        value(`${name}.${layer}.${which}`, type, ["batch_size", keyValueHeads, rows, headSize]),
      ),
    ).flat();
  const lengths = mask
    ? [value("attention_mask", "int64", ["batch_size", "total_sequence_length"])]
    : [value("seqlens_k", "int32", ["batch_size"]), value("total_sequence_length", "int32", [])];
  return writeModel(
    buildModel({
      name: "main_graph",
      opset: { "": 21, "com.microsoft": 1 },
      inputs: [
        value("input_ids", "int64", ["batch_size", "sequence_length"]),
        ...lengths,
        ...caches("past_key_values", "past_sequence_length"),
      ],
      outputs: [
        value("logits", type, ["batch_size", "sequence_length", vocabulary]),
        ...caches("present", "total_sequence_length"),
      ],
      nodes,
      initializers,
    }),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      bits: { type: "string" },
      layers: { type: "string" },
      window: { type: "string" },
      seed: { type: "string" },
      packed: { type: "boolean" },
      mask: { type: "boolean" },
      half: { type: "boolean" },
    },
  });
  const options = Object.fromEntries(
    Object.entries(values).map(([name, given]) => [name, typeof given === "string" ? Number(given) : given]),
  );
  const bytes = publishedDecoder(options);
  writeFileSync(positionals[0], bytes);
  console.log(`${positionals[0]}: ${bytes.length} bytes`);
}
